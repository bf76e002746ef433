package tests

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestResizeOutlivesTheLastHolder: who waits was told the size of before, and does not bring it
// back when it is let in.
func TestResizeOutlivesTheLastHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	held, err := c.Semaphore("a", 2).Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	next := goAcquire(func() (*redlatch.Lease, error) { return other.Semaphore("a", 2).Acquire(t.Context(), 2) })
	queued(t, s, "a", 1)
	larger, err := c.Semaphore("a", 2).Resize(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	release(t, held)
	successor := await(t, next)
	one, err := larger.TryAcquire(t.Context(), 1)
	if err != nil {
		t.Fatalf("TryAcquire of the third permit = %v, want a lease", err)
	}
	release(t, one)
	release(t, successor)
}

// TestPermitsExpireOneByOne, each for whoever is next.
func TestPermitsExpireOneByOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		c := s.Client(t, sluggish())
		s.hearing(c)
		sem := c.Semaphore("s", 3).With(redlatch.LockOptions{Renew: redlatch.Off})
		for i := range 3 {
			if _, err := sem.With(redlatch.LockOptions{TTL: time.Duration(i+1) * 5 * time.Second}).Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		one := goAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 1) })
		s.queued("s", "1")
		two := goAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 2) })
		first, second := await(t, one), await(t, two)
		if first.Token() >= second.Token() {
			t.Errorf("tokens %d and %d, want them in order", first.Token(), second.Token())
		}
		release(t, first)
		release(t, second)
		s.wantNothingLeft("s")
	})
}
