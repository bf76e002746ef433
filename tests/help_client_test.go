package tests

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// patience bounds every wait for what must happen. It only matters when something is broken.
const patience = 30 * time.Second

// lasting is a TTL with which nothing becomes free because it expires.
const lasting = time.Hour

// brisk are options with which a client that waits looks often. A request is given up after a
// second; on a machine that is busy with other tests, less would make faults of its own.
func brisk(ttl time.Duration) redlatch.Options {
	return redlatch.Options{Heartbeat: 500 * time.Millisecond, Lock: redlatch.LockOptions{TTL: ttl}}
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

// open returns a client that is closed with the test.
func open(t testing.TB, url string, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c, err := redlatch.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// reporter is what a check needs of a test. A property that rapid tries has it, too.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// within is a context for what must come to an end.
func within(t reporter, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// lock locks a mutex. It fails the test, so call it from the test's own goroutine.
func lock(t reporter, m *redlatch.Mutex) *redlatch.Lease {
	t.Helper()
	l, err := m.Lock(within(t, patience))
	if err != nil {
		t.Fatalf("Lock(%q) = %v, want a lease", m.Name(), err)
	}
	return l
}

func release(t reporter, l *redlatch.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("Release(%q) = %v, want nil", l.Name(), err)
	}
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

// eventually polls until a condition holds.
func eventually(t reporter, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// The keys of a name under the default prefix.
func stateKey(name string) string   { return "redlatch:" + name }
func fenceKey(name string) string   { return "{redlatch:" + name + "}:fence" }
func queueKey(name string) string   { return "{redlatch:" + name + "}:queue" }
func clientsKey(name string) string { return "{redlatch:" + name + "}:clients" }
func insideKey(name string) string  { return "{redlatch:" + name + "}:inside" }
func bitsKey(name string) string    { return "{redlatch:" + name + "}:bits" }

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
