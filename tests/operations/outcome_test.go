package operations

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestOutcomes: the outcome of the errors that calls return for it, and of the event that tells the
// same.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	// A wait of this length is answered by Redis before it is over, also on a slow machine.
	const enough = 4 * time.Second
	type call = func(ctx context.Context, c *redlatch.Client) error
	lock := func(name string, o redlatch.LockOptions) call {
		return func(ctx context.Context, c *redlatch.Client) error {
			_, err := c.Mutex(name).With(o).Lock(ctx)
			return err
		}
	}
	try := func(name string) call {
		return func(ctx context.Context, c *redlatch.Client) error {
			_, err := c.Mutex(name).TryLock(ctx)
			return err
		}
	}
	for what, does := range map[string]struct {
		want   redlatch.Outcome
		mishap wire.Mishap // of every request
		call   call
	}{
		"a mutex that is free":    {want: redlatch.OutcomeGranted, call: try("free")},
		"a mutex that is held":    {want: redlatch.OutcomeTaken, call: try("held")},
		"MaxWait passes":          {want: redlatch.OutcomeTimeout, call: lock("held", redlatch.LockOptions{MaxWait: enough})},
		"no answer":               {want: redlatch.OutcomeUnreachable, mishap: wire.Unsent, call: try("free")},
		"no answer while waiting": {want: redlatch.OutcomeUnreachable, mishap: wire.Swallowed, call: lock("free", redlatch.LockOptions{MaxWait: enough})},
		"writes are refused":      {want: redlatch.OutcomeError, mishap: wire.DiskFull, call: try("free")},
		"the server refuses":      {want: redlatch.OutcomeError, mishap: wire.Mishap{Refusal: "NOPERM no"}, call: try("free")},
		"no replica":              {want: redlatch.OutcomeNotReplicated, call: lock("free", redlatch.LockOptions{Replicas: 1})},
		"another type of key":     {want: redlatch.OutcomeMisuse, call: try("text")},
		"the deadline passes": {want: redlatch.OutcomeTimeout, call: func(ctx context.Context, c *redlatch.Client) error {
			ctx, cancel := context.WithTimeout(ctx, enough)
			defer cancel()
			return lock("held", redlatch.LockOptions{})(ctx, c)
		}},
		"the context is canceled": {
			want: redlatch.OutcomeCanceled, mishap: wire.Mishap{Runs: true, Answers: true, Cancels: true}, call: lock("free", redlatch.LockOptions{}),
		},
		"the client is closed": {want: redlatch.OutcomeClosed, call: func(ctx context.Context, c *redlatch.Client) error {
			go func() {
				for waits := false; !waits && ctx.Err() == nil; {
					info, err := c.Inspect(ctx, "held")
					waits = err == nil && len(info.Waiters) > 0
				}
				_ = c.Close()
			}()
			return lock("held", redlatch.LockOptions{})(ctx, c)
		}},
		"no slot": {want: redlatch.OutcomeExhausted, call: func(ctx context.Context, c *redlatch.Client) error {
			for { // the first one is free
				if _, err := c.SlotPool("pool", 1, redlatch.SlotOptions{}).TryAcquire(ctx); err != nil {
					return err
				}
			}
		}},
		"more permits than there are left": {want: redlatch.OutcomeExhausted, call: func(ctx context.Context, c *redlatch.Client) error {
			for {
				if _, err := c.Semaphore("permits", 3).TryAcquire(ctx, 2); err != nil {
					return err
				}
			}
		}},
		"another size": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			if _, err := c.Semaphore("sized", 3).TryAcquire(ctx, 1); err != nil {
				return err
			}
			_, err := c.Semaphore("sized", 4).TryAcquire(ctx, 1)
			return err
		}},
		"entered too often": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			m := c.ReentrantMutex("deep").WithDepth(1)
			l, err := m.TryLock(ctx)
			if err != nil {
				return err
			}
			_, err = m.TryLock(l.Context())
			return err
		}},
		"a reader that would write": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			m := c.RWMutex("read")
			l, err := m.RLock(ctx)
			if err != nil {
				return err
			}
			_, err = m.Lock(l.Context())
			return err
		}},
		"a run beside another": {want: redlatch.OutcomeTaken, call: func(ctx context.Context, c *redlatch.Client) error {
			job := c.Job("job", redlatch.JobOptions{Window: time.Hour})
			for range 2 { // the second is skipped, which is no error
				_, err := job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
				if err != nil {
					return err
				}
			}
			return redlatch.ErrTaken
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			course := trial.NewCourse(t, 1)
			held := check.Value(course.Far.Mutex("held").Lock(t.Context())).OK(t)
			course.Nodes[0].Do("RPUSH", locktest.StateKey("text"), "x")
			o, seen := help.Watched(patient())
			c, links := course.Client(t, o)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			links[0].Cancel = cancel
			if does.mishap.Name+does.mishap.Refusal != "" || does.mishap.Cancels {
				links[0].Harm(does.mishap, wire.Every)
			}
			err := does.call(ctx, c)
			links[0].Harm(wire.Mishap{}, wire.None)
			check.Equal(t, redlatch.OutcomeOf(err), does.want, "the outcome of %v", err)
			if last := seen.Ends(); len(last) == 0 || last[len(last)-1].Outcome != does.want {
				t.Errorf("the hook was told of %v, want the last to end as %s", last, does.want)
			}
			locktest.Release(t, held)
		})
	}
	if got := redlatch.OutcomeOf(fmt.Errorf("the name: %w", redlatch.ErrInvalid)); got != redlatch.OutcomeMisuse {
		t.Errorf("the outcome of ErrInvalid is %s, want %s", got, redlatch.OutcomeMisuse)
	}
}
