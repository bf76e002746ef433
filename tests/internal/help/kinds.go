package help

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// ClosesSoon checks that the channel of an observer is closed, whatever it tells before that.
func ClosesSoon[T any](t *testing.T, told <-chan T) {
	t.Helper()
	locktest.Eventually(t, "the channel is closed", func() bool {
		select {
		case _, open := <-told:
			return !open
		default:
			return false
		}
	})
}

// RunJob starts a job and returns whether it ran.
func RunJob(t *testing.T, j *redlatch.Job, result error) bool {
	t.Helper()
	ran, err := j.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return result })
	if ran && !errors.Is(err, result) || !ran && err != nil {
		t.Fatalf("Do = %t, %v", ran, err)
	}
	return ran
}

// EachKind runs a test for every kind of lock that has a line, each on a server of its own.
func EachKind(t *testing.T, test func(t *testing.T, s *redistest.Server, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t), i)
		})
	}
}

// LockOf is the lock of a kind, as a client knows it. Its name is that of the kind.
func LockOf(c *redlatch.Client, kind int) kindtest.Lock { return kindtest.Locks(c, "")[kind] }

// Enter acquires a lock that must be free, or become free.
func Enter(t *testing.T, l kindtest.Lock) *redlatch.Lease {
	t.Helper()
	return check.Value(l.Acquire(locktest.Within(t, locktest.Patience))).From(t, l.Kind)
}

// GoEnter acquires a lock on another goroutine.
func GoEnter(ctx context.Context, l kindtest.Lock) <-chan Outcome {
	return GoAcquire(func() (*redlatch.Lease, error) { return l.Acquire(ctx) })
}

// WantNext waits for the lease of the next holder, whose token must be larger than that of the one
// before, and releases it.
func WantNext(t locktest.Reporter, next <-chan Outcome, token int64) {
	t.Helper()
	l := Await(t, next)
	check.That(t, l.Token() > token, "token %d after %d, want more", l.Token(), token)
	locktest.Release(t, l)
}

// WantSuccessor checks that the next holder has a larger token, and that nothing is left once it is
// gone.
func WantSuccessor(t *testing.T, s *redistest.Server, next <-chan Outcome, token int64) {
	t.Helper()
	l := Await(t, next)
	check.That(t, l.Token() > token, "token %d after %d, want more", l.Token(), token)
	locktest.Release(t, l)
	WantNothingLeft(t, s, l.Name())
}

// ErrFailed is what work returns that fails.
var ErrFailed = errors.New("failed")

// WantAvailable checks how many permits of a semaphore are free.
func WantAvailable(t locktest.Reporter, s *redlatch.Semaphore, want int64) {
	t.Helper()
	if n, err := s.Available(locktest.Within(t, locktest.Patience)); n != want || err != nil {
		t.Errorf("Available = %d, %v, want %d", n, err, want)
	}
}

// Campaign makes the caller the leader of an election.
func Campaign(t *testing.T, e *redlatch.Election, value string) *redlatch.Lease {
	t.Helper()
	return check.Value(e.Campaign(locktest.Within(t, locktest.Patience), value)).OK(t)
}

// TokensGrow wants the tokens of a name to grow, whatever happens in between.
func TokensGrow(t *testing.T, lock func(*redlatch.Client) *redlatch.Lease) {
	t.Helper()
	s := redistest.Start(t)
	a, b := locktest.Open(t, s.URL(), InOrder(Sluggish())), locktest.Open(t, s.URL(), InOrder(Sluggish()))
	var last int64
	acquired := func(after string, l *redlatch.Lease) *redlatch.Lease {
		t.Helper()
		if token := l.Token(); token <= last {
			t.Errorf("token %d after %d, over %s, want more", token, last, after)
		} else {
			last = token
		}
		return l
	}
	steps := []struct {
		what string
		do   func(*redlatch.Lease)
	}{
		{"a release", func(l *redlatch.Lease) { locktest.Release(t, l) }},
		{"an expiry", func(*redlatch.Lease) {
			s.Do("PEXPIRE", locktest.StateKey("a"), "1")
			// A waiter that comes before it is gone waits for the end of the lease.
			locktest.Eventually(t, "the key has expired", func() bool { return s.Do("EXISTS", locktest.StateKey("a")) == "0" })
		}},
		{"a deleted key", func(*redlatch.Lease) { s.Do("DEL", locktest.StateKey("a")) }},
		{"a force-release", func(l *redlatch.Lease) {
			check.Nil(t, "ForceRelease", check.ErrorOf(b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: l.Owner()})))
		}},
		{"FLUSHALL", func(*redlatch.Lease) { s.Do("FLUSHALL") }},
		{"kill -9 and a restart without data", func(*redlatch.Lease) { s.Kill(); s.Restart() }},
		{"a deleted fence", func(l *redlatch.Lease) { s.Do("DEL", FenceKey("a")); locktest.Release(t, l) }},
		{"a fence ahead of the clock", func(l *redlatch.Lease) {
			s.Do("SET", FenceKey("a"), "4000000000000000")
			locktest.Release(t, l)
			last = 4000000000000000
		}},
		{"that, and again", func(l *redlatch.Lease) { locktest.Release(t, l) }},
	}
	l := acquired("nothing", lock(a))
	for i, step := range steps {
		step.do(l)
		c := a
		if i%2 == 0 {
			c = b
		}
		l = acquired(step.what, lock(c))
	}
	locktest.Release(t, l)
}
