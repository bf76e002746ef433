package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestJobWhoseEndGotNoAnswer: the reply to the acquisition was lost, so the client undoes that
// request once more after the end. If the end itself got no answer, this must not open the window:
// the job would run twice in it.
func TestJobWhoseEndGotNoAnswer(t *testing.T) {
	t.Parallel()
	window := redlatch.JobOptions{Window: time.Hour}
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	o := impatient()
	o.RequestTimeout = 3 * time.Second // in which a busy machine sends the first request again
	c := wire.Behind(t, p, o)
	nothing := func(context.Context, *redlatch.Lease) error { return nil }
	if _, err := c.Job("known", window).Do(t.Context(), nothing); err != nil { // so that the server knows the scripts
		t.Fatal(err)
	}
	runs := 0
	p.Swallow(wire.Replies)
	done := make(chan error, 1)
	go func() {
		_, err := c.Job("job", window).Do(t.Context(), func(context.Context, *redlatch.Lease) error {
			runs++
			p.Swallow(wire.Requests)
			return nil
		})
		done <- err
	}()
	locktest.Eventually(t, "the first request arrived", func() bool { return s.Do("EXISTS", locktest.StateKey("job")) == "1" })
	p.Heal()
	wantNoAnswer(t, help.Receive(t, done, "the run"), p.Listen)
	p.Heal()
	locktest.Eventually(t, "the end of the run is known", func() bool { return s.Do("ZRANGE", locktest.StateKey("job"), "0", "-1") == "job\t\nwindow" })
	ran, err := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Job("job", window).Do(t.Context(), func(context.Context, *redlatch.Lease) error {
		runs++
		return nil
	})
	if ran || err != nil || runs != 1 {
		t.Errorf("a second start = %v, %v, %d runs in the window, want false, nil, 1", ran, err, runs)
	}
}

// TestJobThatIsLostKeepsItsWindow: the lease of a run is lost, and then a copy of its request
// arrives, which lets its owner in again. What undoes that must not open the window: every start
// uses it up.
func TestJobThatIsLostKeepsItsWindow(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, late := s.Straggles(help.Brisk(help.Lasting))
		job := c.Job("job", redlatch.JobOptions{Window: time.Hour})
		late.Keep("job acquire")
		ran, err := job.Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error {
			s.Do("DEL", locktest.StateKey("job"), help.InsideKey("job"))
			return l.Extend(ctx)
		})
		if !ran || !errors.As(err, new(*redlatch.LostError)) {
			t.Fatalf("Do = %v, %v, want true and a LostError", ran, err)
		}
		late.Deliver(t)
		locktest.Eventually(t, "the owner is out, and the window closed", func() bool {
			return s.Do("ZRANGE", locktest.StateKey("job"), "0", "-1") == "job\t\nwindow"
		})
	})
}

// TestJobReleasedByItsJob: a job that releases its own lease uses the window up as any other.
func TestJobReleasedByItsJob(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Start(t).URL(), help.Brisk(help.Lasting))
	job := c.Job("job", redlatch.JobOptions{Window: time.Hour})
	if ran, err := job.Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error { return l.Release(ctx) }); !ran || err != nil {
		t.Fatalf("Do = %v, %v, want true, nil", ran, err)
	}
	if ran, err := job.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }); ran || err != nil {
		t.Errorf("Do in the same window = %v, %v, want false, nil", ran, err)
	}
}

// TestReleaseIsTriedUntilItIsKnown: a release that got no answer must not cost the next holder the
// TTL, once Redis answers again.
func TestReleaseIsTriedUntilItIsKnown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	c := wire.Behind(t, p, impatient())
	err := c.Mutex("a").Do(t.Context(), func(context.Context, *redlatch.Lease) error {
		p.Swallow(wire.Requests)
		return nil
	})
	wantNoAnswer(t, err, p.Listen)
	check.Must(t, s.Do("EXISTS", locktest.StateKey("a")) == "1", "the release arrived, so this shows nothing")
	p.Heal()
	help.AwaitFree(t, s, "a")
}

// TestStragglerAfterALoss: a request that arrives when its lease has been lost must not bring the
// lock back for a TTL.
func TestStragglerAfterALoss(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, late := s.Straggles(help.Brisk(help.Lasting))
		late.Keep("mutex acquire")
		l := locktest.Lock(t, c.Mutex("a"))
		s.Do("DEL", locktest.StateKey("a"))
		check.Refusal(t, "Extend of a lease whose key was deleted", l.Extend(t.Context()), redlatch.ErrNotHeld)
		late.Deliver(t)
		s.AwaitFree("a")
	})
}
