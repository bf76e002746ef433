package deployments

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
		take := func(c *redlatch.Client) (id int) {
			t.Helper()
			slot := check.Value(c.SlotPool("p", slots, redlatch.SlotOptions{}).TryAcquire(ctx)).OK(t)
			id = check.Value(slot.ID()).OK(t)
			check.Must(t, id >= 0 && id < slots && held[id] == nil, "slot %d, while %d are held, want one of them that is free", id, len(held))
			held[id] = slot
			return id
		}
		take(c)
		one := take(other)
		nodes[n-1].Pause() // it will not know of the next
		take(c)
		three := take(other)
		nodes[n-1].Resume()
		for _, id := range []int{one, three} {
			check.Nil(t, "Release", held[id].Release(ctx))
			delete(held, id)
			take(c)
			take(other)
		}
		check.Error(t, "TryAcquire of a full pool", check.ErrorOf(c.SlotPool("p", slots, redlatch.SlotOptions{}).TryAcquire(ctx)), redlatch.ErrExhausted)
		check.Error(t, "TryAcquire with another size", check.ErrorOf(c.SlotPool("p", slots+1, redlatch.SlotOptions{}).TryAcquire(ctx)), redlatch.ErrWrongKind)
		larger := check.Value(c.SlotPool("p", slots, redlatch.SlotOptions{}).Resize(ctx, slots+1)).OK(t)
		slot := check.Value(larger.TryAcquire(ctx)).From(t, "TryAcquire after Resize")
		check.Equal(t, check.Value(slot.ID()).OK(t), slots, "the new slot")
	})
}

// TestQuorumMulti: several mutexes, one after the other; all or none.
func TestQuorumMulti(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c := help.OpenQuorum(t, nodes, help.Sluggish())
		both := check.Value(c.MultiMutex("a", "b").Lock(t.Context())).OK(t)
		check.Error(t, "TryLock of two of which one is held", check.ErrorOf(c.MultiMutex("0", "b").TryLock(t.Context())), redlatch.ErrTaken)
		check.Nil(t, "Release", both.Release(t.Context()))
		all := check.Value(c.MultiMutex("0", "a", "b").TryLock(t.Context())).From(t, "TryLock of what is free")
		check.Nil(t, "Release", all.Release(t.Context()))
	})
}

// TestQuorumRefuses: what a quorum cannot do is refused before anything is sent.
func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c, ctx := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting)), t.Context()
	with := func(o redlatch.LockOptions) error { return check.ErrorOf(c.Mutex("a").With(o).Lock(ctx)) }
	d, e, bounded := c.CountDownLatch("d"), c.Election("e"), redlatch.Options{Lock: redlatch.LockOptions{MaxWaiters: 1}}
	term := help.Campaign(t, e, "one")
	for what, err := range map[string]error{
		"rwmutex":                        check.ErrorOf(c.RWMutex("a").Lock(ctx)),
		"reentrant":                      check.ErrorOf(c.ReentrantMutex("a").Lock(ctx)),
		"semaphore":                      check.ErrorOf(c.Semaphore("a", 2).Acquire(ctx, 1)),
		"replicas":                       with(redlatch.LockOptions{Replicas: 1}),
		"minimal hold":                   with(redlatch.LockOptions{MinHold: time.Hour}),
		"bound on the line":              with(redlatch.LockOptions{MaxWaiters: 1}),
		"bound on the line of all locks": check.ErrorOf(redlatch.OpenQuorum(ctx, []string{nodes[0].URL(), nodes[1].URL(), nodes[2].URL()}, bounded)),
		"announcement":                   with(redlatch.LockOptions{Announce: redlatch.Announce{Channel: "c"}}),
		"yield":                          with(redlatch.LockOptions{Yield: redlatch.Yield{Every: 1}}),
		"fence key":                      with(redlatch.LockOptions{FenceKey: "f"}),
		"countdown that is set":          check.ErrorOf(d.TrySetCount(ctx, 1, 0)),
		"countdown that counts":          check.ErrorOf(d.CountDown(ctx)),
		"countdown that is waited for":   d.Await(ctx),
		"countdown that is deleted":      d.Delete(ctx),
		"new value of a leader":          e.Proclaim(ctx, term, "two"),
		"long lease":                     term.ExtendTo(ctx, 24*time.Hour),
		"taking by force":                check.ErrorOf(c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{})),
	} {
		check.That(t, errors.Is(err, redlatch.ErrInvalid) && errors.Is(err, errors.ErrUnsupported), "%s: %v, want ErrInvalid and ErrUnsupported", what, err)
	}
	check.Nil(t, "ExtendTo the TTL", term.ExtendTo(ctx, help.Lasting))
	locktest.Release(t, term)
	one := nodes[0].URL()
	for _, urls := range [][]string{nil, {one}, {one, nodes[1].URL()}, {one, nodes[1].URL(), one}, {one, nodes[1].URL(), "redis+cluster://x"}} {
		check.Error(t, fmt.Sprintf("OpenQuorum(%v)", urls), check.ErrorOf(redlatch.OpenQuorum(ctx, urls, redlatch.Options{})), redlatch.ErrInvalid)
	}
}
