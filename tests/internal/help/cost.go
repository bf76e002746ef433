package help

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// What a crash costs clients that are alive: the numbers of "Order and liveness" in
// docs/guarantees.md. Each test names its sentence. A broken promise costs at least a minute here:
// a heartbeat of the options Sluggish, or liveFor of a client with those, or an hour.

// slack is what a busy machine may add to a cost. It is half of the minute that a broken promise
// costs at least.
const slack = locktest.Patience

// WantCost checks that what began at began took no longer than cost, apart from slack.
func WantCost(t *testing.T, began time.Time, cost time.Duration) {
	t.Helper()
	took := time.Since(began)
	t.Logf("%v, of %v", took.Round(time.Millisecond), cost)
	check.That(t, took <= cost+slack, "it took %v, want %v and what a busy machine adds", took, cost)
}

// Lasts returns this TTL, with a heartbeat that cannot be what lets a waiter in.
func Lasts(ttl time.Duration) redlatch.Options {
	o := InOrder(Sluggish())
	o.Lock.TTL = ttl
	return o
}

// Beats returns this heartbeat, with a TTL that cannot be what lets a waiter in.
func Beats(heartbeat time.Duration) redlatch.Options {
	o := InOrder(Sluggish())
	o.Heartbeat = heartbeat
	return o
}

// TryUntil tries until it gets the lock.
func TryUntil(t *testing.T, l kindtest.Lock) <-chan Outcome {
	t.Helper()
	return GoAcquire(func() (lease *redlatch.Lease, err error) {
		for ctx := locktest.Within(t, locktest.Patience); ; retry.Sleep(ctx, 5*time.Millisecond) {
			if lease, err = l.Try(ctx); !errors.Is(err, redlatch.ErrTaken) {
				return lease, err
			}
		}
	})
}

// AwaitGone waits until the server knows that a client does not listen any more.
func AwaitGone(t *testing.T, s *redistest.Server, client string) {
	t.Helper()
	address := "{redlatch:" + client + "}:grants"
	locktest.Eventually(t, "the server knows that the waiter is gone", func() bool {
		return s.Do("PUBSUB", "NUMSUB", address) == address+"\n0"
	})
}

// listenToAll makes a tool listen to all channels, as a monitoring tool does.
func listenToAll(t *testing.T, s *redistest.Server) {
	t.Helper()
	tool := check.Value(net.Dial("tcp", s.Addr())).OK(t)
	t.Cleanup(func() { _ = tool.Close() })
	check.OK(t, "Write", check.ErrorOf(tool.Write([]byte("PSUBSCRIBE *\r\n"))))
	locktest.Eventually(t, "the tool listens", func() bool { return s.Do("PUBSUB", "NUMPAT") == "1" })
}

// WithAndWithoutATool runs a test on a server without other listeners, and on one where a tool
// listens to all channels.
func WithAndWithoutATool(t *testing.T, test func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	for _, name := range []string{"alone", "beside a tool that listens to everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			if name != "alone" {
				listenToAll(t, s)
			}
			test(t, s)
		})
	}
}

// WantFree makes a client acquire a lock in one of the ways, wait or try. There is room, and no
// waiter is alive.
func WantFree(t *testing.T, l kindtest.Lock, way string) {
	t.Helper()
	began, acquire := time.Now(), l.Acquire
	if way == "try" {
		acquire = l.Try
	}
	lease, err := acquire(locktest.Within(t, locktest.Patience))
	check.Must(t, err == nil, "%s = %v, want a lease: there is room, and no waiter is alive", way, err)
	WantCost(t, began, 0)
	locktest.Release(t, lease)
}
