package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// hurried returns a client, and a context that is cancelled when Redis grants the client something.
func hurried(t *testing.T, s *redistest.Server) (*redlatch.Client, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return wire.Wrap(t, &wire.Heeding{Conn: wire.Dial(t, s.Addr()), Heard: cancel}, help.Sluggish()), ctx
}

// TestGrantThatIsGivenBackIsNotTaken: the context of an acquisition that does not have to wait ends
// when Redis has granted it. The lock goes back, and no other holder may be named as the reason.
func TestGrantThatIsGivenBackIsNotTaken(t *testing.T) {
	t.Parallel()
	acquisitions := map[string]func(*redlatch.Client, context.Context) error{
		"TryLock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Mutex("a").TryLock(ctx)
			return err
		},
		"Lock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Mutex("a").Lock(ctx)
			return err
		},
		"TryAcquire": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Semaphore("a", 3).TryAcquire(ctx, 2)
			return err
		},
		"Multi.TryLock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.MultiMutex("a", "b").TryLock(ctx)
			return err
		},
	}
	for what, acquire := range acquisitions {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c, ctx := hurried(t, s)
			if err := acquire(c, ctx); !errors.Is(err, context.Canceled) || errors.Is(err, redlatch.ErrTaken) {
				t.Errorf("%s = %v, want context.Canceled and not ErrTaken", what, err)
			}
			help.WantNothingLeft(t, s, "a", "b")
		})
	}
}

// TestJobWhoseContextEnds: Do must not say that another run is the reason when its own context
// ended before the work began. The window stays open for the next start.
func TestJobWhoseContextEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, ctx := hurried(t, s)
	job := c.Job("a", redlatch.JobOptions{Window: time.Hour})
	ran, err := job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if ran || !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %t, %v, want false and context.Canceled", ran, err)
	}
	locktest.Eventually(t, "the window is open", func() bool { return help.RunJob(t, job, nil) })
}
