package tests

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// run starts a job and returns whether it ran.
func run(t *testing.T, j *redlatch.Job, result error) bool {
	t.Helper()
	ran, err := j.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return result })
	if ran && !errors.Is(err, result) || !ran && err != nil {
		t.Fatalf("Do = %t, %v", ran, err)
	}
	return ran
}

// TestJobInAWindow: ten instances start a job at the same time, and one runs it; after the window,
// another.
func TestJobInAWindow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var jobs []*redlatch.Job
	for _, c := range several(t, s, 10, brisk(lasting)) {
		jobs = append(jobs, c.Job("draw", redlatch.JobOptions{Window: time.Hour}))
	}
	all := func() (runs int32) {
		var n atomic.Int32
		results := make(chan error, len(jobs))
		for _, j := range jobs {
			go func() {
				_, err := j.Do(t.Context(), func(context.Context, *redlatch.Lease) error { n.Add(1); return nil })
				results <- err
			}()
		}
		for range jobs {
			if err := receive(t, results, "a start"); err != nil {
				t.Errorf("Do = %v", err)
			}
		}
		return n.Load()
	}
	for range 3 {
		if n := all(); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		if n := all(); n != 0 {
			t.Errorf("%d runs in the same window, want none", n)
		}
		s.Do("ZADD", stateKey("draw"), "XX", "1", "window") // it is over
	}
}

// TestJobThatFails: a run that failed uses its window up, unless it is asked to be tried again.
func TestJobThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	once := c.Job("once", redlatch.JobOptions{Window: time.Hour})
	if !run(t, once, errFailed) || run(t, once, nil) {
		t.Error("without RetryFailed: want one run, which failed, and no other")
	}
	again := c.Job("again", redlatch.JobOptions{Window: time.Hour, RetryFailed: true})
	for i, want := range []bool{true, true, true, false} {
		result := errFailed
		if i >= 2 {
			result = nil
		}
		if ran := run(t, again, result); ran != want {
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
	if !run(t, c.Job("panics", redlatch.JobOptions{Window: time.Hour, RetryFailed: true}), nil) {
		t.Error("after a panic, with RetryFailed: want another run")
	}
}

// endSoon has the lease of an owner in a sorted set end in 300 ms, whatever was left of it.
func endSoon(s *redistest.Server, name, owner string) {
	s.Do("EVAL", `local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + 300, ARGV[1])`, "1", stateKey(name), owner)
}

// TestJobOfAProcessThatDied: its lease ends; then the window decides.
func TestJobOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, retry := range []bool{false, true} {
		name := fmt.Sprint("retry ", retry)
		dead, err := redlatch.Open(t.Context(), s.URL(), brisk(lasting))
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
		owner := receive(t, began, "the run").Owner()
		j := open(t, s.URL(), brisk(lasting)).Job(name, redlatch.JobOptions{Window: time.Hour, RetryFailed: retry})
		if run(t, j, nil) {
			t.Errorf("retry %t: a run beside another", retry)
		}
		if err := closeLeaving(dead); err != nil { // its lease is not released, as if it had died
			t.Fatal(err)
		}
		if err := receive(t, over, "the run"); !errors.Is(err, redlatch.ErrNotHeld) {
			t.Errorf("retry %t: Do = %v, want ErrNotHeld", retry, err)
		}
		endSoon(s, name, owner)
		if retry {
			eventually(t, "another run", func() bool { return run(t, j, nil) })
		} else {
			admin := open(t, s.URL(), brisk(lasting))
			eventually(t, "the lease is over", func() bool {
				info, err := admin.Inspect(t.Context(), name)
				return err == nil && len(info.Holders) == 1 && info.Holders[0].Resting
			})
			if run(t, j, nil) {
				t.Error("a second run in the window")
			}
		}
	}
}

// TestJobLostReply: a start whose reply was lost is sent again, and runs once.
func TestJobLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	c := open(t, p.url(), sluggish())
	if !run(t, c.Job("warm", redlatch.JobOptions{Window: time.Hour}), nil) {
		t.Fatal("the first start did not run")
	}
	p.swallow(replies)
	runs, over := 0, make(chan error, 1)
	go func() {
		_, err := c.Job("a", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { runs++; return nil })
		over <- err
	}()
	eventually(t, "it is inside", func() bool { return s.Do("EXISTS", stateKey("a")) == "1" })
	p.heal()
	if err := receive(t, over, "the run"); err != nil || runs != 1 {
		t.Errorf("Do = %v with %d runs, want one", err, runs)
	}
	if run(t, c.Job("a", redlatch.JobOptions{Window: time.Hour}), nil) {
		t.Error("it ran again in the same window")
	}
}
