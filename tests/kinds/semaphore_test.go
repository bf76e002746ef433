package kinds

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestResizeOutlivesTheLastHolder: who waits was told the size of before, and does not bring it
// back when it is let in.
func TestResizeOutlivesTheLastHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	held := check.Value(c.Semaphore("a", 2).Acquire(t.Context(), 2)).OK(t)
	next := help.GoAcquire(func() (*redlatch.Lease, error) { return other.Semaphore("a", 2).Acquire(t.Context(), 2) })
	locktest.InLine(t, s, "a", 1)
	larger := check.Value(c.Semaphore("a", 2).Resize(t.Context(), 3)).OK(t)
	locktest.Release(t, held)
	successor := help.Await(t, next)
	one := check.Value(larger.TryAcquire(t.Context(), 1)).From(t, "TryAcquire of the third permit")
	locktest.Release(t, one)
	locktest.Release(t, successor)
}

// TestPermitsExpireOneByOne, each for whoever is next.
func TestPermitsExpireOneByOne(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, help.Sluggish())
		s.Hearing(c)
		sem := c.Semaphore("s", 3).With(redlatch.LockOptions{Renew: redlatch.Off})
		for i := range 3 {
			if _, err := sem.With(redlatch.LockOptions{TTL: time.Duration(i+1) * 5 * time.Second}).Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		one := help.GoAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 1) })
		s.Queued("s", "1")
		two := help.GoAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 2) })
		first, second := help.Await(t, one), help.Await(t, two)
		if first.Token() >= second.Token() {
			t.Errorf("tokens %d and %d, want them in order", first.Token(), second.Token())
		}
		locktest.Release(t, first)
		locktest.Release(t, second)
		s.WantNothingLeft("s")
	})
}
