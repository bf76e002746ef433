package tests

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestForceReleaseTellsTheHolder: a holder whose client listens learns at once that its lock was
// taken, also one that extends its lease no more, and so would not find out before its TTL is over.
func TestForceReleaseTellsTheHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, admin := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	hearing(t, s, c)
	for what, o := range map[string]redlatch.LockOptions{
		"a lease that the watchdog extends": {},
		"one with NoRenew":                  {Renew: redlatch.Off},
		"one past its MaxHold":              {MaxHold: time.Nanosecond},
	} {
		l := lock(t, c.Mutex("a").With(o))
		next := goLock(t.Context(), admin.Mutex("a"))
		queued(t, s, "a", 1)
		if _, err := admin.ForceRelease(t.Context(), "a", l.Owner()); err != nil {
			t.Fatal(err)
		}
		receive(t, l.Context().Done(), what)
		if !errors.As(l.Err(), new(*redlatch.LostError)) {
			t.Errorf("%s ends with %v, want a LostError", what, l.Err())
		}
		release(t, await(t, next))
	}
}

// TestForceReleaseOfOnesOwn: a client that has never waited listens to nothing. It forces the
// release of a lease of its own, and the lease must be told at once all the same, not at an extend
// much later.
func TestForceReleaseOfOnesOwn(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		for what, renew := range map[string]redlatch.Switch{"a lease that the watchdog extends": redlatch.On, "a lease that is not extended": redlatch.Off} {
			o := sluggish()
			o.Lock.Renew = renew
			c := open(t, s.URL(), o)
			l := enter(t, of(c, kind))
			if hears(s, c) {
				t.Error("the client listens, which makes this test an easy one")
			}
			if _, err := c.ForceRelease(t.Context(), l.Name(), ""); err != nil {
				t.Fatal(err)
			}
			receive(t, l.Context().Done(), what)
			if !errors.As(l.Err(), new(*redlatch.LostError)) {
				t.Errorf("%s ends with %v, want a LostError", what, l.Err())
			}
		}
	})
}
