package help

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Detach returns the text of a lease that goes on elsewhere.
func Detach(t locktest.Reporter, l *redlatch.Lease) string {
	t.Helper()
	text, err := l.Detach(locktest.Within(t, locktest.Patience))
	check.Must(t, err == nil, "Detach(%q) = %v, want a text", l.Name(), err)
	return text
}

// Adopt adopts the lease that a text names.
func Adopt(t locktest.Reporter, c *redlatch.Client, text string) *redlatch.Lease {
	t.Helper()
	return check.Value(c.Adopt(locktest.Within(t, locktest.Patience), text, redlatch.LockOptions{})).OK(t)
}

// WantOver checks that a text can no longer be used.
func WantOver(t locktest.Reporter, c *redlatch.Client, text string) {
	t.Helper()
	check.Error(t, "Adopt of a lease that is over", check.ErrorOf(c.Adopt(locktest.Within(t, locktest.Patience), text, redlatch.LockOptions{})), redlatch.ErrNotHeld)
}

// DetachRun starts a run of a job and detaches its lease.
func DetachRun(t *testing.T, j *redlatch.Job) (text string) {
	t.Helper()
	ran, err := j.Do(locktest.Within(t, locktest.Patience), func(ctx context.Context, l *redlatch.Lease) (err error) {
		text, err = l.Detach(ctx)
		return err
	})
	check.Must(t, ran && err == nil && text != "", "Do = %t, %v, want a run whose lease was detached", ran, err)
	return text
}

// Together runs f for each of n numbers at the same time.
func Together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// Lasting is a TTL so long that nothing becomes free because it expires.
const Lasting = time.Hour

// Brisk returns options with which a waiting client looks often. A machine that is busy with other
// tests may take seconds for an answer, so a request is given up late.
func Brisk(ttl time.Duration) redlatch.Options {
	return redlatch.Options{Heartbeat: 500 * time.Millisecond, RequestTimeout: 9 * time.Second, Lock: redlatch.LockOptions{TTL: ttl}}
}

// Attentive returns options with which a waiting client soon finds out what was lost. A lease that
// is granted to a waiter lasts three heartbeats at first, which a machine that pauses must not use
// up.
func Attentive() redlatch.Options {
	return redlatch.Options{Heartbeat: 2 * time.Second, Lock: redlatch.LockOptions{TTL: Lasting}}
}

// Sluggish returns options with which neither an expiry nor a heartbeat can be what lets a waiter
// in while a test is patient.
func Sluggish() redlatch.Options {
	return redlatch.Options{Heartbeat: time.Minute, RequestTimeout: locktest.Patience, Lock: redlatch.LockOptions{TTL: Lasting}}
}

// InOrder makes each goroutine of a client stand in the line of all processes by itself, for tests
// that look at that line, or at a mutex that was taken from a holder of the same client.
func InOrder(o redlatch.Options) redlatch.Options {
	o.Lock.StrictOrder = redlatch.On
	return o
}

// Insist calls until there is an answer, for a client with a short RequestTimeout: while the machine
// pauses, such a client gives up requests that nothing has happened to.
func Insist[T any](t locktest.Reporter, what string, call func() (T, error)) (got T) {
	t.Helper()
	locktest.Eventually(t, "an answer to "+what, func() bool {
		var err error
		got, err = call()
		check.Must(t, err == nil || errors.Is(err, redlatch.ErrUnreachable), "%s = %v, want an answer", what, err)
		return err == nil
	})
	return got
}

// InsistLock is [Insist] for an acquisition that waits. A try could meet what an earlier attempt
// has left in Redis.
func InsistLock(t locktest.Reporter, acquire func(context.Context) (*redlatch.Lease, error)) *redlatch.Lease {
	t.Helper()
	return Insist(t, "an acquisition", func() (*redlatch.Lease, error) { return acquire(locktest.Within(t, locktest.Patience)) })
}

// InsistRelease is [Insist] for the release of a lease that must be held.
func InsistRelease(t locktest.Reporter, l *redlatch.Lease) {
	t.Helper()
	Insist(t, "Release", func() (struct{}, error) { return struct{}{}, l.Release(context.Background()) })
}

// Outcome is the result of an acquisition.
type Outcome struct {
	Lease *redlatch.Lease
	Err   error
}

// GoLock locks a mutex on another goroutine.
func GoLock(ctx context.Context, m *redlatch.Mutex) <-chan Outcome {
	return GoAcquire(func() (*redlatch.Lease, error) { return m.Lock(ctx) })
}

// GoTryLock tries a mutex on another goroutine.
func GoTryLock(ctx context.Context, m *redlatch.Mutex) <-chan Outcome {
	return GoAcquire(func() (*redlatch.Lease, error) { return m.TryLock(ctx) })
}

// GoAcquire acquires on another goroutine.
func GoAcquire(acquire func() (*redlatch.Lease, error)) <-chan Outcome {
	result := make(chan Outcome, 1)
	go func() {
		l, err := acquire()
		result <- Outcome{l, err}
	}()
	return result
}

// Await waits for the lease that an acquisition must return.
func Await(t locktest.Reporter, result <-chan Outcome) *redlatch.Lease {
	t.Helper()
	got := Receive(t, result, "an acquisition")
	check.Must(t, got.Err == nil, "an acquisition ended with %v, want a lease", got.Err)
	return got.Lease
}

// AwaitError waits for the error that an acquisition must return.
func AwaitError(t locktest.Reporter, result <-chan Outcome) error {
	t.Helper()
	got := Receive(t, result, "an acquisition")
	if got.Err == nil {
		t.Fatalf("an acquisition got a lease with owner %s, want an error", got.Lease.Owner())
	}
	return got.Err
}

// Receive waits with patience for the next value of a channel, and returns it.
func Receive[T any](t locktest.Reporter, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(locktest.Patience):
		t.Fatalf("%s did not come to an end within %v", what, locktest.Patience)
		panic("unreachable")
	}
}

// AwaitHolder waits until an owner holds the name, according to Redis, and returns the owner.
func AwaitHolder(t locktest.Reporter, s *redistest.Server, name string) (owner string) {
	t.Helper()
	locktest.Eventually(t, name+" is held", func() bool {
		owner = s.Do("GET", locktest.StateKey(name))
		return owner != ""
	})
	return owner
}

// AwaitFree waits until Redis has no holder of a name.
func AwaitFree(t locktest.Reporter, s locktest.Doer, name string) {
	t.Helper()
	locktest.Eventually(t, name+" is free", func() bool { return s.Do("EXISTS", locktest.StateKey(name)) == "0" })
}

// Cycles locks and releases a mutex turns times on each of some goroutines, each with its own name.
func Cycles(t testing.TB, c *redlatch.Client, goroutines, turns int) {
	Together(goroutines, func(i int) {
		name := strconv.Itoa(i)
		for range turns {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			check.Nil(t, "Release", l.Release(t.Context()))
		}
	})
}

// Recovered calls f and returns what it panicked with, as the server of net/http does around a
// handler.
func Recovered(f func()) (cause any) {
	defer func() { cause = recover() }()
	f()
	return nil
}

// Waiting returns how many clients wait for a name, according to Inspect.
func Waiting(t locktest.Reporter, c *redlatch.Client, name string) int {
	t.Helper()
	info, err := c.Inspect(context.Background(), name)
	check.Must(t, err == nil, "Inspect(%q) = %v", name, err)
	return len(info.Waiters)
}

// Several returns n clients of a server.
func Several(t testing.TB, s *redistest.Server, n int, o redlatch.Options) []*redlatch.Client {
	t.Helper()
	clients := make([]*redlatch.Client, n)
	for i := range clients {
		clients[i] = locktest.Open(t, s.URL(), o)
	}
	return clients
}

// Order remembers in which order something happened.
type Order struct {
	mu   sync.Mutex // guards done
	done []string
}

// Add notes the next owner.
func (o *Order) Add(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, owner)
}

// List returns what was noted.
func (o *Order) List() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.done)
}
