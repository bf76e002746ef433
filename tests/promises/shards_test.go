package promises

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
		if _, err := c.MultiMutex(names...).TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock with one of %q taken = %v, want ErrTaken", names, err)
		}
		locktest.Release(t, last)
		for _, name := range names {
			locktest.Release(t, locktest.Lock(t, c.Mutex(name)))
		}
	}
}
