package tests

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/locktest"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// The short names of what these tests have in common with those of other packages.
const patience = locktest.Patience

type reporter = locktest.Reporter

var (
	open       = locktest.Open
	within     = locktest.Within
	lock       = locktest.Lock
	release    = locktest.Release
	eventually = locktest.Eventually
	queued     = locktest.InLine
	line       = locktest.Line
	tickets    = locktest.Tickets

	closeLeaving = locktest.CloseLeaving
)

// lasting is a TTL with which nothing becomes free because it expires.
const lasting = time.Hour

// brisk are options with which a client that waits looks often. A request is given up after a
// second; on a machine that is busy with other tests, less would make faults of its own.
func brisk(ttl time.Duration) redlatch.Options {
	return redlatch.Options{Heartbeat: 500 * time.Millisecond, Lock: redlatch.LockOptions{TTL: ttl}}
}

// attentive are options with which a client that waits finds out soon what was lost. A lease that is
// granted to a waiter lasts three heartbeats at first, which a machine that pauses must not use up.
func attentive() redlatch.Options {
	return redlatch.Options{Heartbeat: 2 * time.Second, Lock: redlatch.LockOptions{TTL: lasting}}
}

// sluggish are options with which neither an expiry nor a heartbeat can be what lets a waiter in
// while a test is patient.
func sluggish() redlatch.Options {
	return redlatch.Options{Heartbeat: time.Minute, RequestTimeout: patience, Lock: redlatch.LockOptions{TTL: lasting}}
}

// inOrder has each goroutine of a client stand in the line of all processes by itself, for tests
// that look at that line, or at a mutex that was taken from a holder of the same client.
func inOrder(o redlatch.Options) redlatch.Options {
	o.Lock.StrictOrder = redlatch.On
	return o
}

// inMemory runs a test in a bubble of testing/synctest, on a server in memory. Its time passes when
// all goroutines wait, so no machine is too slow for it.
func inMemory(t *testing.T, test func(t *testing.T, s *redlatchtest.Memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, redlatchtest.InMemory(t)) })
}

// insist calls until there is an answer, for a client with a short RequestTimeout: while the machine
// pauses, such a client gives up requests that nothing has happened to.
func insist[T any](t reporter, what string, call func() (T, error)) (got T) {
	t.Helper()
	eventually(t, "an answer to "+what, func() bool {
		var err error
		got, err = call()
		if err != nil && !errors.Is(err, redlatch.ErrUnreachable) {
			t.Fatalf("%s = %v, want an answer", what, err)
		}
		return err == nil
	})
	return got
}

// insistLock is [insist] for an acquisition that waits. One that tries could meet what an earlier
// attempt has left in Redis.
func insistLock(t reporter, acquire func(context.Context) (*redlatch.Lease, error)) *redlatch.Lease {
	t.Helper()
	return insist(t, "an acquisition", func() (*redlatch.Lease, error) { return acquire(within(t, patience)) })
}

// insistRelease is [insist] for the release of a lease that must be held.
func insistRelease(t reporter, l *redlatch.Lease) {
	t.Helper()
	insist(t, "Release", func() (struct{}, error) { return struct{}{}, l.Release(context.Background()) })
}

// outcome is what an acquisition came to.
type outcome struct {
	lease *redlatch.Lease
	err   error
}

// goLock locks a mutex on another goroutine.
func goLock(ctx context.Context, m *redlatch.Mutex) <-chan outcome {
	return goAcquire(func() (*redlatch.Lease, error) { return m.Lock(ctx) })
}

// goTryLock tries a mutex on another goroutine.
func goTryLock(ctx context.Context, m *redlatch.Mutex) <-chan outcome {
	return goAcquire(func() (*redlatch.Lease, error) { return m.TryLock(ctx) })
}

func goAcquire(acquire func() (*redlatch.Lease, error)) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		l, err := acquire()
		result <- outcome{l, err}
	}()
	return result
}

// await waits for the lease that an acquisition must come to.
func await(t reporter, result <-chan outcome) *redlatch.Lease {
	t.Helper()
	got := receive(t, result, "an acquisition")
	if got.err != nil {
		t.Fatalf("an acquisition ended with %v, want a lease", got.err)
	}
	return got.lease
}

// awaitError waits for the error that an acquisition must come to.
func awaitError(t reporter, result <-chan outcome) error {
	t.Helper()
	got := receive(t, result, "an acquisition")
	if got.err == nil {
		t.Fatalf("an acquisition got a lease with owner %s, want an error", got.lease.Owner())
	}
	return got.err
}

func receive[T any](t reporter, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come to an end within %v", what, patience)
		panic("unreachable")
	}
}

// The keys of a name under the default prefix.
func stateKey(name string) string   { return locktest.StateKey(name) }
func fenceKey(name string) string   { return locktest.SiblingKey(name, "fence") }
func queueKey(name string) string   { return locktest.SiblingKey(name, "queue") }
func clientsKey(name string) string { return locktest.SiblingKey(name, "clients") }
func insideKey(name string) string  { return locktest.SiblingKey(name, "inside") }
func forcedKey(name string) string  { return locktest.SiblingKey(name, "forced") }
func bitsKey(name string) string    { return locktest.SiblingKey(name, "bits") }

// awaitHolder waits until an owner holds the name, by what Redis says, and returns it.
func awaitHolder(t reporter, s *redistest.Server, name string) (owner string) {
	t.Helper()
	eventually(t, name+" is held", func() bool {
		owner = s.Do("GET", stateKey(name))
		return owner != ""
	})
	return owner
}

func awaitFree(t reporter, s *redistest.Server, name string) {
	t.Helper()
	eventually(t, name+" is free", func() bool { return s.Do("EXISTS", stateKey(name)) == "0" })
}

// cycles locks and releases a mutex so many times on each of some goroutines, each with a name of
// its own.
func cycles(t testing.TB, c *redlatch.Client, goroutines, turns int) {
	together(goroutines, func(i int) {
		name := strconv.Itoa(i)
		for range turns {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// timed is a context that ends with DeadlineExceeded when the test says so.
type timed struct {
	context.Context
	over chan struct{}
}

func (c timed) Done() <-chan struct{} { return c.over }

func (c timed) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
