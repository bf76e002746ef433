package kinds

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestJobThatFails: a run that failed or panicked uses its window up as any other.
func TestJobThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	hourly := redlatch.JobOptions{Window: time.Hour}
	once := c.Job("once", hourly)
	if !help.RunJob(t, once, help.ErrFailed) || help.RunJob(t, once, nil) {
		t.Error("want one run, which failed, and no other")
	}
	if left, _ := c.Inspect(t.Context(), "once"); len(left.Holders) != 1 || !left.Holders[0].Resting || left.Remaining <= 59*time.Minute {
		t.Errorf("Inspect = %+v, want a window of nearly an hour", left)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Job("panics", hourly).Do(t.Context(), func(context.Context, *redlatch.Lease) error { panic("so it does") })
	}()
	check.That(t, !help.RunJob(t, c.Job("panics", hourly), nil), "another run in the window of one that panicked")
}

// endSoon has the lease of an owner in a sorted set end in 300 ms, whatever was left of it.
func endSoon(s *redistest.Server, name, owner string) {
	s.Do("EVAL", `local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + 300, ARGV[1])`, "1", locktest.StateKey(name), owner)
}

// TestJobOfAProcessThatDied: its lease ends, and the window goes on.
func TestJobOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	hourly := redlatch.JobOptions{Window: time.Hour}
	dead := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(help.Lasting))).OK(t)
	began := make(chan *redlatch.Lease, 1)
	over := make(chan error, 1)
	go func() {
		_, err := dead.Job("a", hourly).Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error {
			began <- l
			<-ctx.Done()
			return nil
		})
		over <- err
	}()
	owner := help.Receive(t, began, "the run").Owner()
	other := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	check.That(t, !help.RunJob(t, other.Job("a", hourly), nil), "a run beside another")
	if err := locktest.CloseLeaving(dead); err != nil { // its lease is not released, as if it had died
		t.Fatal(err)
	}
	check.Error(t, "Do", help.Receive(t, over, "the run"), redlatch.ErrNotHeld)
	endSoon(s, "a", owner)
	locktest.Eventually(t, "the lease is over", func() bool {
		info, err := other.Inspect(t.Context(), "a")
		return err == nil && len(info.Holders) == 1 && info.Holders[0].Resting
	})
	check.That(t, !help.RunJob(t, other.Job("a", hourly), nil), "a second run in the window")
}

// TestJobLostReply: a start whose reply was lost is sent again, and runs once.
func TestJobLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	c := locktest.Open(t, p.URL(), help.Sluggish())
	if !help.RunJob(t, c.Job("warm", redlatch.JobOptions{Window: time.Hour}), nil) {
		t.Fatal("the first start did not run")
	}
	p.Swallow(wire.Replies)
	runs, over := 0, make(chan error, 1)
	go func() {
		_, err := c.Job("a", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { runs++; return nil })
		over <- err
	}()
	locktest.Eventually(t, "it is inside", func() bool { return s.Do("EXISTS", locktest.StateKey("a")) == "1" })
	p.Heal()
	if err := help.Receive(t, over, "the run"); err != nil || runs != 1 {
		t.Errorf("Do = %v with %d runs, want one", err, runs)
	}
	if help.RunJob(t, c.Job("a", redlatch.JobOptions{Window: time.Hour}), nil) {
		t.Error("it ran again in the same window")
	}
}
