package demo

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// TestHoldEndsAtItsDeadline: on a busy machine the end of a hold is noted late. What counts is until
// when the lease was held.
func TestHoldEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, redlatchtest.Start(t).URL(), redlatch.Options{
		Lock: redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off},
	})
	lease := locktest.Lock(t, client.Mutex(Name))
	var h history
	end := h.begin(1, lease)
	h.mu.Lock() // keeps the end from being noted in time
	locktest.Eventually(t, "the lease over", func() bool { return time.Now().After(lease.Deadline()) })
	h.mu.Unlock()
	end()
	over := h.holds[0].end
	check.That(t, over.Equal(lease.Deadline()), "the hold ended %v after the lease", over.Sub(lease.Deadline()))
}
