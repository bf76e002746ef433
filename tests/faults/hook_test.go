package faults

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// panicking are options whose hook panics at the first event of a kind for the name "a".
func panicking(o redlatch.Options, kind redlatch.EventType) redlatch.Options {
	armed := true
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == kind && e.Name == "a" && armed {
			armed = false
			panic("hook")
		}
	}
	return o
}

// TestHookPanicsAtGrant: nobody has the lease, so nobody must hold the lock.
func TestHookPanicsAtGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), panicking(help.Sluggish(), redlatch.EventGranted))
	if cause := help.Recovered(func() { _, _ = c.Mutex("a").TryLock(t.Context()) }); cause != "hook" {
		t.Fatalf("TryLock panicked with %v, want hook", cause)
	}
	help.AwaitFree(t, s, "a")
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
}

// TestHookPanicsAtWait: nobody waits any more, so nobody must stand in line.
func TestHookPanicsAtWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), panicking(help.Sluggish(), redlatch.EventWait))
	held := locktest.Lock(t, locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	if cause := help.Recovered(func() { _, _ = c.Mutex("a").Lock(t.Context()) }); cause != "hook" {
		t.Fatalf("Lock panicked with %v, want hook", cause)
	}
	locktest.InLine(t, s, "a", 0)
	locktest.Release(t, held)
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	help.WantNothingLeft(t, s, "a")
}

// hookPanics is the key of a context for whose events a hook panics.
type hookPanics struct{}

// TestHookPanicsInItsTurn: a hook panics for a goroutine to which the mutex is being passed on
// within the process. The turn must go on to the next goroutine, and the mutex must not stay with
// nobody.
func TestHookPanicsInItsTurn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	passed, cause := make(chan struct{}), make(chan any, 1)
	o, seen := help.Watched(help.Sluggish())
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		seen.Hook(ctx, e)
		if ctx.Value(hookPanics{}) != nil && e.Type == redlatch.EventWait {
			<-passed
			panic("hook")
		}
	}
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	held := locktest.Lock(t, m)
	leader := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	go func() {
		ctx := context.WithValue(t.Context(), hookPanics{}, true)
		cause <- help.Recovered(func() { _, _ = m.Lock(ctx) })
	}()
	seen.Await(t, redlatch.EventWait, "a", 1)
	next := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, leader)) // its acquisition took tokens for those who wait
	close(passed)
	check.Equal(t, help.Receive(t, cause, "Lock"), "hook", "Lock panicked with")
	locktest.Release(t, help.Await(t, next))
	help.WantNothingLeft(t, s, "a")
}
