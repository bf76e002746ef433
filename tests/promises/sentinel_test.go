package promises

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestLeaseThatTheNewMasterKnowsGoesOn: a failover that lost nothing is not seen by whoever holds
// the lock, and the line is kept.
func TestLeaseThatTheNewMasterKnowsGoesOn(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	holder, waiter := locktest.Open(t, g.URL(), help.Brisk(help.Lasting)), locktest.Open(t, g.URL(), help.Brisk(help.Lasting))
	l := locktest.Lock(t, holder.Mutex("a"))
	next := help.GoLock(locktest.Within(t, locktest.Patience), waiter.Mutex("a"))
	locktest.Eventually(t, "the waiter is in line", func() bool { return g.Master().Do("ZCARD", help.QueueKey("a")) == "1" })
	master := g.Master()
	for _, node := range g.Nodes { // WAIT would be for the writes of its own connection
		locktest.Eventually(t, "lease and ticket on all nodes", func() bool {
			return node.Do("GET", locktest.StateKey("a")) == l.Owner() && node.Do("ZCARD", help.QueueKey("a")) == "1"
		})
	}
	for _, s := range g.Sentinels { // else a busy machine has them fail over twice, and lose what the first new master did
		s.Do("SENTINEL", "SET", redistest.MasterName, "down-after-milliseconds", "3000")
	}
	master.Kill()
	g.AwaitPromotion(master)
	locktest.Eventually(t, "an extend by the new master", func() bool {
		err := l.Extend(t.Context())
		check.Must(t, !errors.Is(err, redlatch.ErrNotHeld), "Extend = %v", err)
		return err == nil
	})
	token := l.Token()
	check.Must(t, token != 0 && l.Context().Err() == nil, "the lease is lost: %v", l.Err())
	locktest.Release(t, l)
	help.WantNext(t, next, token)
}

// TestAcquisitionWaitsForReplicas: with LockOptions.Replicas, a lock that is granted, at once or
// out of the line, is on the replicas; and where they do not acknowledge it, it is given back and
// the error says so.
func TestAcquisitionWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	replica.AwaitInfo("replication", "master_link_status:up")
	o := help.Brisk(help.Lasting)
	o.Lock.Replicas = 1
	hasty := locktest.Open(t, master.URL(), o)
	o.RequestTimeout = locktest.Patience // a third of which the replica has for its acknowledgement
	c, other := locktest.Open(t, master.URL(), o), locktest.Open(t, master.URL(), o)

	first := locktest.Lock(t, c.Mutex("a"))
	next := help.GoLock(locktest.Within(t, locktest.Patience), other.Mutex("a"))
	locktest.Eventually(t, "a waiter", func() bool { return master.Do("ZCARD", help.QueueKey("a")) == "1" })
	locktest.Release(t, first)
	second := help.Await(t, next)
	check.Equal(t, replica.Do("GET", locktest.StateKey("a")), second.Owner(), "the replica has the owner")
	third := help.Adopt(t, c, help.Detach(t, second))
	check.Equal(t, replica.Do("GET", locktest.StateKey("a")), third.Owner(), "the replica has the owner that adopted it")
	text := help.Detach(t, third)

	replica.Pause()
	err := check.ErrorOf(hasty.Adopt(t.Context(), text, redlatch.LockOptions{}))
	check.Error(t, "Adopt while the replica hangs", err, redlatch.ErrNotReplicated)
	help.AwaitFree(t, master, "a")
	help.WantOver(t, c, text)
	_, err = hasty.Mutex("a").TryLock(t.Context())
	check.That(t, errors.Is(err, redlatch.ErrNotReplicated), "TryLock while the replica hangs = %v, want ErrNotReplicated", err)
	replica.Resume()
	help.AwaitFree(t, master, "a")
	check.Error(t, "TryLock with -2 replicas", check.ErrorOf(c.Mutex("a").With(redlatch.LockOptions{Replicas: -2}).TryLock(t.Context())), redlatch.ErrInvalid)
}

// TestSlotMoves: the slot of a name moves to another master while it is held, waited for, and
// acquired over and over.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	ctx := locktest.Within(t, 2*locktest.Patience)
	one, other := locktest.Open(t, help.ClusterURL(nodes), help.Brisk(help.FailoverTTL)), locktest.Open(t, help.ClusterURL(nodes), help.Brisk(help.FailoverTTL))
	slot := nodes[0].Slot(locktest.StateKey("{tag}a"))
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]

	held := locktest.Lock(t, one.Mutex("{tag}held"))
	next := help.GoLock(ctx, other.Mutex("{tag}held"))
	locktest.Eventually(t, "a waiter", func() bool { return from.Do("ZCARD", "redlatch:{tag}held:queue") == "1" })
	u := &help.Turns{Over: make(chan struct{})}
	for range 4 {
		u.Take(t, ctx, one.Mutex("{tag}a"))
		u.Take(t, ctx, other.Mutex("{tag}a"))
	}
	u.More(t, 100)
	redistest.MoveSlot(nodes, from, to, slot)
	u.More(t, 100)
	u.End()

	token := held.Token()
	if err := held.Extend(ctx); err != nil || token == 0 {
		t.Errorf("Extend of a lease whose slot moved = %v with token %d, want nil and a token", err, token)
	}
	check.Equal(t, to.Do("GET", "redlatch:{tag}held"), held.Owner(), "the new master has the owner")
	locktest.Release(t, held)
	help.WantNext(t, next, token)
}

// TestMultiOverSeveralSlots: names in several slots are locked one after the other, those that
// share a tag at once; all or none.
func TestMultiOverSeveralSlots(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := locktest.Open(t, help.ClusterURL(nodes), help.Brisk(help.Lasting))
	for _, names := range [][]string{{"a", "b", "c", "d"}, {"{tag}a", "{tag}b", "{tag}c"}} {
		l, err := c.MultiMutex(names...).Lock(t.Context())
		check.Must(t, err == nil, "Multi(%q).Lock = %v, want a lease", names, err)
		for _, name := range names {
			check.That(t, l.Token(name) != 0, "%q has no token", name)
		}
		check.Nil(t, "Release", l.Release(t.Context()))
		last := locktest.Lock(t, c.Mutex(names[len(names)-1]))
		check.Error(t, fmt.Sprintf("TryLock with one of %q taken", names), check.ErrorOf(c.MultiMutex(names...).TryLock(t.Context())), redlatch.ErrTaken)
		locktest.Release(t, last)
		for _, name := range names {
			locktest.Release(t, locktest.Lock(t, c.Mutex(name)))
		}
	}
}
