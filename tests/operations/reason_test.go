package operations

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestLossTellsItsReason: a program that cannot tell "taken by force" from "its client was closed"
// can only guess what to do, and what to count.
func TestLossTellsItsReason(t *testing.T) {
	t.Parallel()
	const brief = 300 * time.Millisecond
	for reason, c := range map[redlatch.LossReason]struct {
		options redlatch.LockOptions
		end     func(t *testing.T, s *redistest.Server, c *redlatch.Client, l *redlatch.Lease)
		matches error
	}{
		redlatch.LossExpired: {redlatch.LockOptions{TTL: brief}, func(_ *testing.T, s *redistest.Server, _ *redlatch.Client, _ *redlatch.Lease) {
			s.Pause()
		}, nil},
		redlatch.LossDeleted: {redlatch.LockOptions{}, func(_ *testing.T, s *redistest.Server, _ *redlatch.Client, l *redlatch.Lease) {
			s.Do("DEL", locktest.StateKey("a"))
			_ = l.Extend(context.Background())
		}, nil},
		redlatch.LossForgotten: {redlatch.LockOptions{}, func(_ *testing.T, s *redistest.Server, _ *redlatch.Client, l *redlatch.Lease) {
			s.Do("FLUSHALL")
			_ = l.Extend(context.Background())
		}, nil},
		redlatch.LossForced: {redlatch.LockOptions{}, func(t *testing.T, s *redistest.Server, _ *redlatch.Client, _ *redlatch.Lease) {
			if _, err := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
				t.Errorf("ForceRelease = %v", err)
			}
		}, nil},
		redlatch.LossMaxHold:    {redlatch.LockOptions{TTL: time.Second, MaxHold: brief}, nil, redlatch.ErrMaxHold},
		redlatch.LossNotRenewed: {redlatch.LockOptions{TTL: brief, Renew: redlatch.Off}, nil, nil},
		redlatch.LossClosed: {redlatch.LockOptions{}, func(_ *testing.T, _ *redistest.Server, c *redlatch.Client, _ *redlatch.Lease) {
			_ = c.Close()
		}, redlatch.ErrClosed},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			client := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
			help.Hearing(t, s, client)
			l := locktest.Lock(t, client.Mutex("a").With(c.options))
			if c.end != nil {
				c.end(t, s, client, l)
			}
			help.Receive(t, l.Context().Done(), "the lease")
			s.Resume() // if it was paused
			lost := (*redlatch.LostError)(nil)
			err := l.Err()
			if !errors.As(err, &lost) || lost.Reason != reason || !errors.Is(err, redlatch.ErrNotHeld) || context.Cause(l.Context()) != err {
				t.Fatalf("Err = %v, want a LostError for the reason %q, as the cause of the context", err, reason)
			}
			for _, sentinel := range []error{redlatch.ErrMaxHold, redlatch.ErrClosed} {
				check.Equal(t, errors.Is(err, sentinel), sentinel == c.matches, "Err = %v, matches %q", err, sentinel)
			}
		})
	}
}

// TestLossThatRedisTellsOfEveryKind: each kind has keys of its own, and Redis tells of all of them
// whether they were deleted or forgotten, at an extend and at the release.
func TestLossThatRedisTellsOfEveryKind(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), help.Sluggish())
		for way, end := range map[string]func(l *redlatch.Lease){
			"extend":  func(l *redlatch.Lease) { _ = l.Extend(t.Context()) },
			"release": func(l *redlatch.Lease) { _ = l.Release(t.Context()) },
		} {
			for reason, harm := range map[redlatch.LossReason]func(name string){
				redlatch.LossDeleted:   func(name string) { s.Do("DEL", locktest.StateKey(name), help.InsideKey(name), help.BitsKey(name)) },
				redlatch.LossForgotten: func(string) { s.Do("FLUSHALL") },
			} {
				l := help.Enter(t, help.LockOf(c, kind))
				harm(l.Name())
				end(l)
				lost := (*redlatch.LostError)(nil)
				if err := l.Err(); !errors.As(err, &lost) || lost.Reason != reason {
					t.Errorf("%s: Err = %v, want a LostError for the reason %q", way, err, reason)
				}
			}
		}
	})
}

// TestCausesTell: a context that is done says why, and not only that.
func TestCausesTell(t *testing.T) {
	t.Parallel()
	memory.Run(t, causesTell)
}

func causesTell(t *testing.T, s *memory.Server) {
	c := s.Client(t, help.Brisk(help.Lasting))
	wantCause := func(what string, ctx context.Context, target error, text string) {
		t.Helper()
		if cause := context.Cause(ctx); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(cause, target) || !strings.Contains(cause.Error(), text) {
			t.Errorf("%s: the cause is %v, want %q", what, cause, text)
		}
	}
	l := locktest.Lock(t, c.Mutex("a"))
	locktest.Release(t, l)
	wantCause("a lease that was released", l.Context(), redlatch.ErrNotHeld, "\"a\" is not held: it was released")

	outer := check.Value(c.ReentrantMutex("nest").Lock(t.Context())).OK(t)
	inner := check.Value(c.ReentrantMutex("nest").Lock(outer.Context())).OK(t)
	locktest.Release(t, outer)
	wantCause("a lease whose outer lease was released", inner.Context(), redlatch.ErrNotHeld, "it was released")
	locktest.Release(t, inner)

	several := check.Value(c.MultiMutex("b", "c").Lock(t.Context())).OK(t)
	check.OK(t, "Release", several.Release(t.Context()))
	wantCause("several leases", several.Context(), redlatch.ErrNotHeld, "it was released")

	l = locktest.Lock(t, c.Mutex("a"))
	other := s.Client(t, help.Brisk(help.Lasting))
	for what, wait := range map[string]*redlatch.Mutex{
		"in a group": c.Mutex("a"), "in line": c.Mutex("a").With(redlatch.LockOptions{StrictOrder: redlatch.On}), "of another client": other.Mutex("a"),
	} {
		_, err := wait.With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlatch.ErrTaken) || !strings.Contains(err.Error(), "MaxWait of 1s has passed") {
			t.Errorf("%s: Lock = %v, want that its MaxWait has passed", what, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(help.ErrFailed)
	if _, err := c.Mutex("d").Lock(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, help.ErrFailed) || !strings.Contains(err.Error(), "canceled (failed)") {
		t.Errorf("Lock under a context with a cause = %v, want it in words", err)
	}
	locktest.Release(t, l)
}

// TestTooDeepIsNotTaken: a loop that tries again while the lock is taken would try for ever.
func TestTooDeepIsNotTaken(t *testing.T) {
	t.Parallel()
	m := locktest.Open(t, redistest.Start(t).URL(), help.Brisk(help.Lasting)).ReentrantMutex("a").WithDepth(1)
	outer := check.Value(m.Lock(t.Context())).OK(t)
	if _, err := m.Lock(outer.Context()); !errors.Is(err, redlatch.ErrTooDeep) || errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock beyond the depth = %v, want ErrTooDeep, and not ErrTaken", err)
	}
	locktest.Release(t, outer)
}

// TestForcedLossWithAnUnreadableNote: a holder believes the message of a forced release even if the
// client cannot parse its note, such as a note in the format of a later version.
func TestForcedLossWithAnUnreadableNote(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	help.Hearing(t, s, c)
	l := locktest.Lock(t, c.Mutex("a"))
	s.Do("DEL", locktest.StateKey("a"))
	if n := s.Do("PUBLISH", s.Do("PUBSUB", "CHANNELS"), "revoke\t"+l.Owner()+"\tnot a note"); n != "1" {
		t.Fatalf("%s clients heard the word, want 1", n)
	}
	if lost := help.WantLost(t, l); lost.Reason != redlatch.LossForced {
		t.Errorf("lost for the reason %q, want %q", lost.Reason, redlatch.LossForced)
	}
}
