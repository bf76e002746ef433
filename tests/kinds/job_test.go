package kinds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestJobThatFails: a run that failed uses its window up, unless it is asked to be tried again.
func TestJobThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	once := c.Job("once", redlatch.JobOptions{Window: time.Hour})
	if !help.RunJob(t, once, help.ErrFailed) || help.RunJob(t, once, nil) {
		t.Error("without RetryFailed: want one run, which failed, and no other")
	}
	again := c.Job("again", redlatch.JobOptions{Window: time.Hour, RetryFailed: true})
	for i, want := range []bool{true, true, true, false} {
		result := help.ErrFailed
		if i >= 2 {
			result = nil
		}
		if ran := help.RunJob(t, again, result); ran != want {
			t.Errorf("with RetryFailed, after two runs that failed and one that did not: start %d ran %t, want %t", i, ran, want)
		}
	}
	if left, _ := c.Inspect(t.Context(), "again"); len(left.Holders) != 1 || !left.Holders[0].Resting || left.Remaining <= 59*time.Minute {
		t.Errorf("Inspect = %+v, want a window of nearly an hour", left)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Job("panics", redlatch.JobOptions{Window: time.Hour, RetryFailed: true}).Do(t.Context(),
			func(context.Context, *redlatch.Lease) error { panic("so it does") })
	}()
	if !help.RunJob(t, c.Job("panics", redlatch.JobOptions{Window: time.Hour, RetryFailed: true}), nil) {
		t.Error("after a panic, with RetryFailed: want another run")
	}
}

// endSoon has the lease of an owner in a sorted set end in 300 ms, whatever was left of it.
func endSoon(s *redistest.Server, name, owner string) {
	s.Do("EVAL", `local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + 300, ARGV[1])`, "1", locktest.StateKey(name), owner)
}

// TestJobOfAProcessThatDied: its lease ends; then the window decides.
func TestJobOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, retry := range []bool{false, true} {
		name := fmt.Sprint("retry ", retry)
		dead, err := redlatch.Open(t.Context(), s.URL(), help.Brisk(help.Lasting))
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan *redlatch.Lease, 1)
		over := make(chan error, 1)
		go func() {
			_, err := dead.Job(name, redlatch.JobOptions{Window: time.Hour, RetryFailed: retry}).Do(t.Context(),
				func(ctx context.Context, l *redlatch.Lease) error {
					began <- l
					<-ctx.Done()
					return nil
				})
			over <- err
		}()
		owner := help.Receive(t, began, "the run").Owner()
		j := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Job(name, redlatch.JobOptions{Window: time.Hour, RetryFailed: retry})
		if help.RunJob(t, j, nil) {
			t.Errorf("retry %t: a run beside another", retry)
		}
		if err := locktest.CloseLeaving(dead); err != nil { // its lease is not released, as if it had died
			t.Fatal(err)
		}
		if err := help.Receive(t, over, "the run"); !errors.Is(err, redlatch.ErrNotHeld) {
			t.Errorf("retry %t: Do = %v, want ErrNotHeld", retry, err)
		}
		endSoon(s, name, owner)
		if retry {
			locktest.Eventually(t, "another run", func() bool { return help.RunJob(t, j, nil) })
		} else {
			admin := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
			locktest.Eventually(t, "the lease is over", func() bool {
				info, err := admin.Inspect(t.Context(), name)
				return err == nil && len(info.Holders) == 1 && info.Holders[0].Resting
			})
			if help.RunJob(t, j, nil) {
				t.Error("a second run in the window")
			}
		}
	}
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
