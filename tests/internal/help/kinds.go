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

// ClosesSoon checks that the channel of an observer is closed, whatever it sends before that.
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

// LockOf returns the lock of a kind, as a client knows it. Its name is that of the kind.
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

// WantNext waits for the lease of the next holder, whose token must be larger than that of the
// holder before, and releases it.
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

// ErrFailed is the error of work that fails.
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
