package tests

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
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

// recovered calls f and returns what it panicked with, as the server of net/http does around a
// handler.
func recovered(f func()) (cause any) {
	defer func() { cause = recover() }()
	f()
	return nil
}

// TestHookPanicsAtGrant: nobody has the lease, so nobody must hold the lock.
func TestHookPanicsAtGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), panicking(sluggish(), redlatch.EventGranted))
	if cause := recovered(func() { _, _ = c.Mutex("a").TryLock(t.Context()) }); cause != "hook" {
		t.Fatalf("TryLock panicked with %v, want hook", cause)
	}
	awaitFree(t, s, "a")
	release(t, lock(t, c.Mutex("a")))
}

// TestHookPanicsAtWait: nobody waits any more, so nobody must stand in line.
func TestHookPanicsAtWait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), panicking(sluggish(), redlatch.EventWait))
	held := lock(t, open(t, s.URL(), sluggish()).Mutex("a"))
	if cause := recovered(func() { _, _ = c.Mutex("a").Lock(t.Context()) }); cause != "hook" {
		t.Fatalf("Lock panicked with %v, want hook", cause)
	}
	queued(t, s, "a", 0)
	release(t, held)
	release(t, lock(t, c.Mutex("a")))
	wantNothingLeft(t, s, "a")
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
	o, seen := watched(sluggish())
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		seen.hook(ctx, e)
		if ctx.Value(hookPanics{}) != nil && e.Type == redlatch.EventWait {
			<-passed
			panic("hook")
		}
	}
	m := open(t, s.URL(), o).Mutex("a")
	held := lock(t, m)
	leader := goLocks(t, t.Context(), m, seen, 1)[0]
	go func() {
		ctx := context.WithValue(t.Context(), hookPanics{}, true)
		cause <- recovered(func() { _, _ = m.Lock(ctx) })
	}()
	seen.await(t, redlatch.EventWait, "a", 1)
	next := goLocks(t, t.Context(), m, seen, 1)[0]
	release(t, held)
	release(t, await(t, leader)) // its acquisition took tokens for those who wait
	close(passed)
	if cause := receive(t, cause, "Lock"); cause != "hook" {
		t.Errorf("Lock panicked with %v, want hook", cause)
	}
	release(t, await(t, next))
	wantNothingLeft(t, s, "a")
}
