package deployments

import (
	"context"
	"strconv"
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

// What a quorum sends to its nodes.

// TestQuorumCostOfACycle: a vote and a release are all that a node is sent for a lock that no other
// wants, with what the client sends until it is closed. The votes of the slower nodes come when the
// lock is released already, and each of these cost two or three more releases at every node.
func TestQuorumCostOfACycle(t *testing.T) {
	t.Parallel()
	for _, goroutines := range []int{1, 32} {
		t.Run(strconv.Itoa(goroutines), func(t *testing.T) {
			t.Parallel()
			const n = 5
			turns := 640 / goroutines
			nodes := help.StartNodes(t, n)
			help.Cycles(t, help.OpenQuorum(t, nodes, help.Sluggish()), goroutines, 1) // the nodes vote, and know scripts and names
			sent := func() (all int) {
				for _, node := range nodes {
					all += help.CommandCalls(node, "evalsha")
				}
				return all
			}
			c := help.OpenQuorum(t, nodes, help.Sluggish())
			before := sent()
			help.Cycles(t, c, goroutines, turns)
			if err := c.Close(); err != nil { // after which nothing is left to clean up
				t.Errorf("Close = %v", err)
			}
			got := float64(sent()-before) / float64(n*goroutines*turns)
			t.Logf("%.2f commands at each node for a cycle", got)
			// 2, and now and then a vote that comes after the release, or numbers that differ after
			// one.
			check.That(t, got <= 2.3, "%.2f commands at each node for a cycle, want a vote and a release", got)
		})
	}
}

// TestQuorumFullPool: a node that refuses a slot names one of the holders, and does not read all of them for
// that.
func TestQuorumFullPool(t *testing.T) {
	t.Parallel()
	const slots = 40
	nodes := help.StartNodes(t, 3)
	pool := help.OpenQuorum(t, nodes, help.Sluggish()).SlotPool("p", slots, redlatch.SlotOptions{})
	for range slots {
		check.Value(pool.Acquire(t.Context())).OK(t)
	}
	reads := func() (n int) {
		for _, s := range nodes {
			n += help.CommandCalls(s, "hget")
		}
		return n
	}
	before := reads()
	check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
	n := reads() - before
	check.That(t, n < slots, "a refusal by 3 nodes takes %d reads of holders", n)
}

// TestQuorumTryEndsInTime: nodes are slow, and no two of them have a common slot to give, so a try asks
// again and again. It asks nothing more once RequestTimeout has passed.
func TestQuorumTryEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience, slots = 3 * time.Second, 24
		nodes, conns := memory.Nodes(t, 3)
		c := wire.WrapQuorum(t, conns, redlatch.Options{RequestTimeout: patience, Lock: redlatch.LockOptions{TTL: help.Lasting}})
		pool := c.SlotPool("s", slots, redlatch.SlotOptions{})
		var held []*redlatch.Slot
		for range slots {
			held = append(held, check.Value(pool.Acquire(t.Context())).OK(t))
			synctest.Wait() // or the slowest node could vote for two of them in another order
		}
		for _, l := range held {
			slot := check.Value(l.ID()).OK(t)
			node := nodes[slot%3] // which alone gives it again
			node.Do("ZREM", locktest.StateKey("s"), l.Owner())
			node.Do("HDEL", help.InsideKey("s"), l.Owner())
			node.Do("SETBIT", help.BitsKey("s"), strconv.Itoa(slot), "0")
		}
		for _, s := range nodes {
			s.Delay(patience / 4)
		}
		start := time.Now()
		_, err := pool.TryAcquire(t.Context())
		check.Error(t, "TryAcquire", err, redlatch.ErrTaken)
		took := time.Since(start)
		check.That(t, took <= patience*4/3 && took >= patience, "TryAcquire took %v, want %v and a third at most", took, patience)
		for _, s := range nodes {
			s.Delay(0)
		}
	})
}

// TestDeadNodeIsNotAskedForEver: a node of a quorum is down while locks are used. The others have no more to
// do than before. Once the leases would have ended at the node, nothing is left to release there, and it is
// not flooded when it is back.
func TestDeadNodeIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		dead := &wire.Lossy{Conn: conns[2], Hits: wire.None}
		releases := func(n *atomic.Int64, over conn.Conn) conn.Conn {
			return wire.Through{Conn: over, Make: func(ctx context.Context, calls ...conn.Call) []conn.Result {
				for _, c := range calls {
					if wire.Runs([]conn.Call{c}, " release") {
						n.Add(1)
					}
				}
				return over.Eval(ctx, calls...)
			}}
		}
		var alive, asked atomic.Int64
		c := wire.WrapQuorum(t, []conn.Conn{conns[0], releases(&alive, conns[1]), releases(&asked, dead)}, redlatch.Options{})
		locktest.Release(t, locktest.Lock(t, c.Mutex("first")))
		time.Sleep(time.Minute)
		dead.Harm(wire.Unsent, wire.Every)
		alive.Store(0)
		for i := range 100 {
			locktest.Release(t, locktest.Lock(t, c.Mutex(strconv.Itoa(i))))
		}
		time.Sleep(2 * time.Minute)
		check.Equal(t, alive.Load(), 100, "releases at a node that is up")
		before := asked.Load()
		check.That(t, before > 100, "%d releases, while the leases could last", before)
		time.Sleep(10 * time.Minute)
		dead.Harm(wire.Mishap{}, wire.None)
		time.Sleep(time.Minute)
		check.Equal(t, asked.Load()-before, 0, "releases after the leases had ended")
	})
}
