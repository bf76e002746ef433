package help

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Unhurried returns options with which a client looks often, and gives no request up because the
// machine is busy.
func Unhurried() redlatch.Options {
	o := Brisk(Lasting)
	o.RequestTimeout = locktest.Patience
	return o
}

// SetCount sets a count that must not be there, or be zero.
func SetCount(t locktest.Reporter, d *redlatch.CountDownLatch, n int64) {
	t.Helper()
	if set, err := d.TrySetCount(locktest.Within(t, locktest.Patience), n, Lasting); !set || err != nil {
		t.Fatalf("TrySetCount(%d) = %t, %v, want it set", n, set, err)
	}
}

// CountDown counts down to left.
func CountDown(t locktest.Reporter, d *redlatch.CountDownLatch, left int64) {
	t.Helper()
	if got, err := d.CountDown(locktest.Within(t, locktest.Patience)); got != left || err != nil {
		t.Errorf("CountDown = %d, %v, want %d", got, err, left)
	}
}

// WantCount checks a count.
func WantCount(t locktest.Reporter, d *redlatch.CountDownLatch, want int64) {
	t.Helper()
	if got, err := d.Count(locktest.Within(t, locktest.Patience)); got != want || err != nil {
		t.Errorf("Count = %d, %v, want %d", got, err, want)
	}
}

// GoAwait waits for a count on another goroutine.
func GoAwait(ctx context.Context, d *redlatch.CountDownLatch) <-chan error {
	result := make(chan error, 1)
	go func() { result <- d.Await(ctx) }()
	return result
}

// WantCountGone deletes a count and checks that nothing of the name is left, except the fence.
func WantCountGone(t *testing.T, s *redistest.Server, d *redlatch.CountDownLatch) {
	t.Helper()
	check.Nil(t, "Delete", d.Delete(locktest.Within(t, locktest.Patience)))
	for _, key := range []string{locktest.StateKey(d.Name()), QueueKey(d.Name()), ClientsKey(d.Name())} {
		check.That(t, s.Do("EXISTS", key) == "0", "%s is left behind", key)
	}
}
