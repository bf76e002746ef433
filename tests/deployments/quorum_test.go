package deployments

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// meet has a client be connected to all nodes, and them know what it sends. A client opens with a
// majority.
func meet(t testing.TB, c *redlatch.Client, nodes []*redistest.Server) {
	t.Helper()
	l := help.InsistLock(t, c.Mutex("met by "+c.ID()).Lock)
	locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, l.Name(), l.Owner()) == len(nodes) })
	help.InsistRelease(t, l)
}

// TestQuorumTie: many try at once and nobody waits. Exactly one gets in, since a tie is tried
// again.
func TestQuorumTie(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5, 6}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		var clients []*redlatch.Client
		for range 8 {
			clients = append(clients, help.OpenQuorum(t, nodes, help.Sluggish()))
		}
		locktest.Lock(t, clients[0].Mutex("first of all"))
		for round := range 20 {
			var won atomic.Int32
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					_, err := c.Mutex(fmt.Sprint(round)).TryLock(t.Context())
					switch {
					case err == nil:
						won.Add(1)
					case !errors.Is(err, redlatch.ErrTaken):
						t.Errorf("TryLock = %v, want ErrTaken", err)
					}
				})
			}
			all.Wait()
			check.That(t, won.Load() == 1, "round %d: %d got in, want 1", round, won.Load())
		}
	})
}

// TestQuorumElection: a leader with its value, seen by others; and who follows.
func TestQuorumElection(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Sluggish()), help.OpenQuorum(t, nodes, help.Sluggish())
		ctx := locktest.Within(t, locktest.Patience)
		term := check.Value(c.Election("e").Campaign(ctx, "one")).OK(t)
		leader, err := other.Election("e").Leader(ctx)
		if err != nil || leader.Value != "one" || leader.Term != term.Token() {
			t.Errorf("Leader = %+v, %v, want the value one and token %d", leader, err, term.Token())
		}
		leaders := other.Election("e").Observe(ctx)
		if got := help.Receive(t, leaders, "a leader"); got.Value != "one" {
			t.Errorf("Observe tells %+v, want the value one", got)
		}
		next := help.GoAcquire(func() (*redlatch.Lease, error) { return other.Election("e").Campaign(ctx, "two") })
		locktest.Eventually(t, "a candidate", func() bool { return nodes[0].Do("ZCARD", help.QueueKey("e")) == "1" })
		check.Nil(t, "Release", term.Release(ctx))
		second := help.Await(t, next)
		for got := range leaders {
			if got.Value == "two" {
				break
			}
		}
		locktest.Release(t, second)
	})
}

// TestQuorumSlots: as many slots as there are, each to one holder, also while and after a node is
// away.
func TestQuorumSlots(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		const slots = 6
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting)), help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
		ctx := locktest.Within(t, 2*locktest.Patience)
		held := make(map[int]*redlatch.Slot)
		take := func(c *redlatch.Client) int {
			t.Helper()
			slot, err := c.SlotPool("p", slots, redlatch.SlotOptions{}).TryAcquire(ctx)
			check.Must(t, err == nil, "TryAcquire with %d of %d slots held = %v", len(held), slots, err)
			id, err := slot.ID()
			if err != nil || id < 0 || id >= slots || held[id] != nil {
				t.Fatalf("slot %d, %v, while %d are held, want one of them that is free", id, err, len(held))
			}
			held[id] = slot
			return id
		}
		give := func(id int) {
			t.Helper()
			check.Nil(t, "Release", held[id].Release(ctx))
			delete(held, id)
		}
		take(c)
		one := take(other)
		nodes[n-1].Pause() // it will not know of the next
		take(c)
		three := take(other)
		nodes[n-1].Resume()
		give(one)
		take(c)
		take(other)
		give(three)
		take(other)
		take(other)
		if _, err := c.SlotPool("p", slots, redlatch.SlotOptions{}).TryAcquire(ctx); !errors.Is(err, redlatch.ErrExhausted) {
			t.Errorf("TryAcquire of a full pool = %v, want ErrExhausted", err)
		}
		if _, err := c.SlotPool("p", slots+1, redlatch.SlotOptions{}).TryAcquire(ctx); !errors.Is(err, redlatch.ErrWrongKind) {
			t.Errorf("TryAcquire with another size = %v, want ErrWrongKind", err)
		}
		larger := check.Value(c.SlotPool("p", slots, redlatch.SlotOptions{}).Resize(ctx, slots+1)).OK(t)
		if slot, err := larger.TryAcquire(ctx); err != nil {
			t.Errorf("TryAcquire after Resize = %v", err)
		} else if id, err := slot.ID(); id != slots || err != nil {
			t.Errorf("slot %d, %v, want the new one", id, err)
		}
	})
}

// TestQuorumMulti: several mutexes, one after the other; all or none.
func TestQuorumMulti(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c := help.OpenQuorum(t, nodes, help.Sluggish())
		both := check.Value(c.MultiMutex("a", "b").Lock(t.Context())).OK(t)
		if _, err := c.MultiMutex("0", "b").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock of two of which one is held = %v, want ErrTaken", err)
		}
		check.Nil(t, "Release", both.Release(t.Context()))
		all := check.Value(c.MultiMutex("0", "a", "b").TryLock(t.Context())).From(t, "TryLock of what is free")
		check.Nil(t, "Release", all.Release(t.Context()))
	})
}

// TestQuorumRefuses: what a quorum cannot do is refused before anything is sent.
func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
	for what, acquire := range map[string]func() error{
		"rwmutex":   func() error { _, err := c.RWMutex("a").Lock(t.Context()); return err },
		"reentrant": func() error { _, err := c.ReentrantMutex("a").Lock(t.Context()); return err },
		"semaphore": func() error { _, err := c.Semaphore("a", 2).Acquire(t.Context(), 1); return err },
		"replicas": func() error {
			_, err := c.Mutex("a").With(redlatch.LockOptions{Replicas: 1}).Lock(t.Context())
			return err
		},
		"bound on the line": func() error {
			_, err := c.Mutex("a").With(redlatch.LockOptions{MaxWaiters: 1}).Lock(t.Context())
			return err
		},
		"bound on the line of all locks": func() error {
			_, err := redlatch.OpenQuorum(t.Context(), []string{nodes[0].URL(), nodes[1].URL(), nodes[2].URL()},
				redlatch.Options{Lock: redlatch.LockOptions{MaxWaiters: 1}})
			return err
		},
	} {
		if err := acquire(); !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrInvalid and ErrUnsupported", what, err)
		}
	}
	one := nodes[0].URL()
	for _, urls := range [][]string{nil, {one}, {one, nodes[1].URL()}, {one, nodes[1].URL(), one}, {one, nodes[1].URL(), "redis+cluster://x"}} {
		if c, err := redlatch.OpenQuorum(t.Context(), urls, redlatch.Options{}); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("OpenQuorum(%v) = %v, %v, want ErrInvalid", urls, c, err)
		}
	}
}
