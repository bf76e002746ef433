package kinds

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestPermitsThatAreShut are not free, beside those that are, and count through a Resize until they open.
func TestPermitsThatAreShut(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const hold = 10 * time.Second
		sem := s.Client(t, help.Sluggish()).Semaphore("a", 4)
		two := check.Value(sem.With(redlatch.LockOptions{MinHold: hold}).Acquire(t.Context(), 2)).OK(t)
		locktest.Release(t, two)
		help.WantAvailable(t, sem, 2)
		one := check.Value(sem.Acquire(t.Context(), 1)).OK(t)
		help.WantAvailable(t, sem, 1)
		rest := check.Value(sem.TryAcquireAll(t.Context())).OK(t)
		check.Equal(t, rest.Permits(), 1, "the permits that were free")
		check.Error(t, "TryAcquireAll of none", check.ErrorOf(sem.TryAcquireAll(t.Context())), redlatch.ErrExhausted)
		locktest.Release(t, rest)
		locktest.Release(t, one)
		small := check.Value(sem.Resize(t.Context(), 1)).OK(t)
		help.WantAvailable(t, small, 0)
		check.Error(t, "TryAcquireAll where more are out than there are", check.ErrorOf(small.TryAcquireAll(t.Context())), redlatch.ErrExhausted)
		larger := check.Value(small.Resize(t.Context(), 6)).OK(t)
		help.WantAvailable(t, larger, 4)
		check.Error(t, "Available of the old number", check.ErrorOf(sem.Available(t.Context())), redlatch.ErrWrongKind)
		began := time.Now()
		locktest.Release(t, check.Value(larger.Acquire(t.Context(), 6)).OK(t))
		check.That(t, time.Since(began) >= hold-time.Second, "all permits after %v, want that the shut ones open first", time.Since(began))
		help.WantNothingLeft(t, s, "a")
	})
}

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however
// full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s, c := locktest.Start(t, help.Sluggish())
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first := check.Value(pool.Acquire(t.Context())).OK(t)
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", help.BitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	before := help.Evalshas(calls())
	slot := check.Value(pool.Acquire(t.Context())).OK(t)
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	check.Equal(t, help.Evalshas(calls())-before, 1, "requests")
	check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
	locktest.Release(t, slot.Lease)
	locktest.Release(t, first.Lease)
}
