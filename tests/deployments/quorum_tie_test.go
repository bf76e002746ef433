package deployments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// run runs a job that does nothing, and reports whether it ran.
func run(t *testing.T, c *redlatch.Client, name string, window time.Duration) (bool, error) {
	t.Helper()
	return c.Job(name, redlatch.JobOptions{Window: window}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
}

// TestQuorumOwnWindow: the replies of two nodes to the first round of an attempt are lost, and its
// lease runs out there before they are asked to let the owner go. Until then they keep the attempt
// itself out. They named the window, so the attempt took the job for one that another runs. No
// client ran it.
func TestQuorumOwnWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const window = time.Minute
		_, conns := memory.Nodes(t, 3)
		o := redlatch.Options{Lock: redlatch.LockOptions{TTL: 600 * time.Millisecond}}
		check.That(t, check.Value(run(t, wire.WrapQuorum(t, conns, o), "first of all", window)).OK(t), "it did not run") // and all nodes vote
		lossy := []*wire.Lossy{{Conn: conns[0]}, {Conn: conns[1]}}
		for _, l := range lossy {
			l.Harm(wire.Unanswered, wire.First)
		}
		c := wire.WrapQuorum(t, []conn.Conn{lossy[0], lossy[1], conns[2]}, o)
		for again, want := range []bool{true, false} {
			ran := check.Value(run(t, c, "j", window)).OK(t)
			check.Equal(t, ran, want, "run %d took place", again)
		}
	})
}

// TestQuorumSlotsInAnotherOrder: the slowest node has votes in another order than the others, and gives
// slots to the wrong owners. Soon all nodes have all leases.
func TestQuorumSlotsInAnotherOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 24
		nodes, conns := memory.Nodes(t, 3)
		conns[2] = wire.Through{Conn: conns[2], Make: func(over conn.Conn) func(context.Context, ...conn.Call) []conn.Result {
			return func(ctx context.Context, calls ...conn.Call) []conn.Result {
				time.Sleep(rand.N(20 * time.Millisecond))
				return over.Eval(ctx, calls...)
			}
		}(conns[2])}
		c := wire.WrapQuorum(t, conns, help.Sluggish())
		var held []*redlatch.Slot
		for game := range 8 {
			pool := c.SlotPool(fmt.Sprint("p", game), slots, redlatch.SlotOptions{})
			for range slots {
				held = append(held, check.Value(pool.Acquire(t.Context())).OK(t))
			}
			time.Sleep(3 * time.Second)
		}
		for _, l := range held {
			slot := check.Value(l.ID()).OK(t)
			for i, node := range nodes {
				got := node.Do("HGET", help.InsideKey(l.Name()), l.Owner())
				check.That(t, strings.HasSuffix(got, fmt.Sprintf("\t%d", slot)), "the node %d has %q of the slot %d", i, got, slot)
			}
		}
	})
}

// TestQuorumSlotsAtOnce: as many clients as a pool has slots try to take one at once. Each fills
// some nodes for a moment, and leaves again. A try took nodes that had no slot for it for a full
// pool, though some slots were free in the end: one of eight tries failed.
func TestQuorumSlotsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, games = 8, 40
		_, conns := memory.Nodes(t, 3)
		var clients []*redlatch.Client
		for range n {
			over := make([]conn.Conn, len(conns))
			for i := range over {
				over[i] = wire.Through{Conn: conns[i], Make: func(ctx context.Context, calls ...conn.Call) []conn.Result {
					time.Sleep(rand.N(10 * time.Millisecond))
					defer func() { time.Sleep(rand.N(10 * time.Millisecond)) }()
					return conns[i].Eval(ctx, calls...)
				}}
			}
			clients = append(clients, wire.WrapQuorum(t, over, help.Sluggish()))
		}
		var refused atomic.Int64
		for game := range games {
			help.Together(n, func(i int) {
				pool := clients[i].SlotPool(fmt.Sprint("p", game), n, redlatch.SlotOptions{})
				if _, err := pool.TryAcquire(t.Context()); err != nil {
					check.Error(t, "TryAcquire", err, redlatch.ErrExhausted)
					refused.Add(1)
				}
			})
		}
		// It is a few in a thousand: ties may go on for longer than a try does.
		check.That(t, refused.Load() <= n*games/25, "%d of %d tries found no slot, and there was one for each", refused.Load(), n*games)
	})
}

// TestQuorumFullPoolWithRoom: the holders of a full pool have their slots at a bare majority each,
// so every node has room for another owner. A try took that for a tie, and went on until
// RequestTimeout had passed.
func TestQuorumFullPoolWithRoom(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		synctest.Test(t, func(t *testing.T) {
			const slots = 12
			nodes, conns := memory.Nodes(t, n)
			c := wire.WrapQuorum(t, conns, redlatch.Options{Lock: redlatch.LockOptions{TTL: help.Lasting}})
			pool := c.SlotPool("p", slots, redlatch.SlotOptions{})
			for range slots {
				l := check.Value(pool.Acquire(t.Context())).OK(t)
				synctest.Wait()
				slot := check.Value(l.ID()).OK(t)
				node := nodes[slot%n] // which alone could give it again
				node.Do("ZREM", locktest.StateKey("p"), l.Owner())
				node.Do("HDEL", help.InsideKey("p"), l.Owner())
			}
			for slot := range slots {
				nodes[slot%n].Do("SETBIT", help.BitsKey("p"), strconv.Itoa(slot), "0")
			}
			start := time.Now()
			check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
			took := time.Since(start)
			check.That(t, took < time.Second, "TryAcquire of a full pool took %v", took)
		})
	})
}

// losing is a connection over which the reply to the first vote is lost, and no release arrives.
type losing struct {
	conn.Conn
	votes atomic.Int64
}

// Eval implements [conn.Conn].
func (c *losing) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if wire.Runs(calls, " release") {
		return wire.Failing(len(calls), io.ErrUnexpectedEOF)
	}
	results := c.Conn.Eval(ctx, calls...)
	if wire.Runs(calls, " vote") && c.votes.Add(1) == 1 {
		<-ctx.Done()
		return wire.Failing(len(calls), ctx.Err())
	}
	return results
}

// TestQuorumOwnSlot: the replies of two nodes to the first round of a try are lost, and its slot
// stays taken there: its lease goes on, or the slot is at rest. No other owner has the slot, so the
// try must not say that the pool is full, whichever owner these nodes name.
func TestQuorumOwnSlot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl, others time.Duration // others: of the holder of another slot; 0 for none
	}{
		"at rest": {600 * time.Millisecond, 0}, "inside": {time.Minute, 0}, "beside another": {time.Minute, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, conns := memory.Nodes(t, 3)
				o := redlatch.SlotOptions{Quarantine: time.Minute}
				other, n := wire.WrapQuorum(t, conns, redlatch.Options{Lock: redlatch.LockOptions{TTL: max(c.others, time.Second)}}), 1
				first := check.Value(other.SlotPool("first of all", 1, o).TryAcquire(t.Context())).OK(t)
				locktest.Release(t, first.Lease) // and all nodes vote
				if c.others > 0 {
					n++
					check.Value(other.SlotPool("p", n, o).TryAcquire(t.Context())).OK(t)
					synctest.Wait()
				}
				far := wire.WrapQuorum(t, []conn.Conn{&losing{Conn: conns[0]}, &losing{Conn: conns[1]}, conns[2]}, redlatch.Options{})
				_, err := far.SlotPool("p", n, o).With(redlatch.LockOptions{TTL: c.ttl}).TryAcquire(t.Context())
				check.Error(t, "TryAcquire", err, redlatch.ErrUnreachable)
				check.That(t, !errors.Is(err, redlatch.ErrTaken), "TryAcquire of a slot that no owner has = %v", err)
			})
		})
	}
}

// TestQuorumOwnLock: the replies of two nodes to the first round of a try are lost, and no word of
// leaving arrives there. No other owner has the lock, so the try must not say that it is taken,
// however many rounds it has had since.
func TestQuorumOwnLock(t *testing.T) {
	t.Parallel()
	for kind, try := range map[string]func(context.Context, *redlatch.Client) error{
		"mutex": func(ctx context.Context, c *redlatch.Client) error { return check.ErrorOf(c.Mutex("a").TryLock(ctx)) },
		"election": func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Election("a").TryCampaign(ctx, ""))
		},
		"job": func(ctx context.Context, c *redlatch.Client) error {
			_, err := c.Job("a", redlatch.JobOptions{Window: time.Hour}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
			return err
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, conns := memory.Nodes(t, 3)
				once := redlatch.LockOptions{TTL: time.Second, Renew: redlatch.Off}
				check.Nil(t, "a try with nothing lost", try(t.Context(), wire.WrapQuorum(t, conns, redlatch.Options{Lock: once})))
				time.Sleep(2 * time.Hour) // then the lock is free, and all nodes vote
				o := redlatch.Options{RequestTimeout: 30 * time.Second, Lock: redlatch.LockOptions{TTL: time.Hour}}
				c := wire.WrapQuorum(t, []conn.Conn{&losing{Conn: conns[0]}, &losing{Conn: conns[1]}, conns[2]}, o)
				err := try(t.Context(), c)
				check.Error(t, "the try", err, redlatch.ErrUnreachable)
				check.That(t, !errors.Is(err, redlatch.ErrTaken), "a try of a lock that no owner has = %v", err)
			})
		})
	}
}
