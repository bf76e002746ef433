package demo

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest"
)

// TestHoldEndsAtItsDeadline: on a busy machine the end of a hold is noted late. What counts is until
// when the lease was held.
func TestHoldEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	client, err := redlatch.Open(t.Context(), redlatchtest.Start(t).URL(), redlatch.Options{
		Lock: redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lease := check.Value(client.Mutex(Name).Lock(t.Context())).OK(t)
	defer lease.Release(t.Context())
	var h history
	end := h.begin(1, 0, lease)
	h.mu.Lock() // keeps the end from being noted in time
	<-lease.Context().Done()
	time.Sleep(50 * time.Millisecond)
	h.mu.Unlock()
	end()
	over := h.holds[0].end
	check.That(t, over.Equal(lease.Deadline()), "the hold ended %v after the lease", over.Sub(lease.Deadline()))
}
