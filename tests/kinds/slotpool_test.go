package kinds

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however
// full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first := check.Value(pool.Acquire(t.Context())).OK(t)
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", help.BitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
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
