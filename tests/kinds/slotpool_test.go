package kinds

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
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
	first, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", help.BitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	before := help.Evalshas(calls())
	slot, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	if got := help.Evalshas(calls()) - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
	if _, err := pool.TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted", err)
	}
	locktest.Release(t, slot.Lease)
	locktest.Release(t, first.Lease)
}
