package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
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
		redlatch.LossGone: {redlatch.LockOptions{}, func(_ *testing.T, s *redistest.Server, _ *redlatch.Client, l *redlatch.Lease) {
			s.Do("DEL", stateKey("a"))
			_ = l.Extend(context.Background())
		}, nil},
		redlatch.LossForced: {redlatch.LockOptions{}, func(t *testing.T, s *redistest.Server, _ *redlatch.Client, _ *redlatch.Lease) {
			if _, err := open(t, s.URL(), brisk(lasting)).ForceRelease(t.Context(), "a", ""); err != nil {
				t.Errorf("ForceRelease = %v", err)
			}
		}, nil},
		redlatch.LossMaxHold:    {redlatch.LockOptions{TTL: brief, MaxHold: brief}, nil, redlatch.ErrMaxHold},
		redlatch.LossNotRenewed: {redlatch.LockOptions{TTL: brief, Renew: redlatch.Off}, nil, nil},
		redlatch.LossClosed: {redlatch.LockOptions{}, func(_ *testing.T, _ *redistest.Server, c *redlatch.Client, _ *redlatch.Lease) {
			_ = c.Close()
		}, redlatch.ErrClosed},
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			client := open(t, s.URL(), brisk(lasting))
			hearing(t, s, client)
			l := lock(t, client.Mutex("a").With(c.options))
			if c.end != nil {
				c.end(t, s, client, l)
			}
			receive(t, l.Context().Done(), "the lease")
			s.Resume() // if it was paused
			lost := (*redlatch.LostError)(nil)
			err := l.Err()
			if !errors.As(err, &lost) || lost.Reason != reason || !errors.Is(err, redlatch.ErrNotHeld) || context.Cause(l.Context()) != err {
				t.Fatalf("Err = %v, want a LostError for the reason %q, as the cause of the context", err, reason)
			}
			for _, sentinel := range []error{redlatch.ErrMaxHold, redlatch.ErrClosed} {
				if got := errors.Is(err, sentinel); got != (sentinel == c.matches) {
					t.Errorf("Err = %v, matches %q: %v", err, sentinel, got)
				}
			}
		})
	}
}

// TestTooDeepIsNotTaken: a loop that tries again while the lock is taken would try for ever.
func TestTooDeepIsNotTaken(t *testing.T) {
	t.Parallel()
	m := open(t, redistest.Start(t).URL(), brisk(lasting)).ReentrantMutex("a").WithDepth(1)
	outer, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(outer.Context()); !errors.Is(err, redlatch.ErrTooDeep) || errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock beyond the depth = %v, want ErrTooDeep, and not ErrTaken", err)
	}
	release(t, outer)
}
