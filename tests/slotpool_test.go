package tests

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestSlots: an instance gets its slot back, a released slot is free at once, one whose holder
// vanished rests, and a slot's number is not told any more once it is lost.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	pool := func(instance string) *redlatch.SlotPool {
		return c.SlotPool("p", 3, redlatch.SlotOptions{Instance: instance, Quarantine: time.Hour})
	}
	take := func(instance string, want int) *redlatch.Slot {
		t.Helper()
		slot, err := pool(instance).TryAcquire(t.Context())
		if err != nil {
			t.Fatalf("TryAcquire = %v, want slot %d", err, want)
		}
		if id, err := slot.ID(); id != want || err != nil {
			t.Fatalf("ID = %d, %v, want %d", id, err, want)
		}
		return slot
	}
	a, b := take("a", 0), take("b", 1)
	release(t, a.Lease)
	release(t, b.Lease)
	b = take("b", 1)
	d := take("d", 0) // the lowest free one, which was a's
	a = take("a", 2)
	release(t, d.Lease)
	release(t, a.Lease)
	a = take("a", 2)
	if _, err := pool("e").With(redlatch.LockOptions{TTL: time.Minute}).TryAcquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool("f").TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) || !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryAcquire of a full pool = %v, want ErrExhausted and ErrTaken", err)
	}
	// b vanishes: its lease is over, its rest is not.
	info, err := c.Inspect(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(info.Holders, func(h redlatch.Holder) bool { return h.Slot == 1 })
	vanish(s, "p", info.Holders[i].Owner, time.Hour)
	if err := b.Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend of a slot at rest = %v, want ErrNotHeld", err)
	}
	if id, err := b.ID(); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ID of a lost slot = %d, %v, want ErrNotHeld", id, err)
	}
	if _, err := pool("b").TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted: the slot rests", err)
	}
	if _, err := pool("").Resize(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if !a.Held() || a.Extend(t.Context()) != nil {
		t.Error("a slot that is too high now is lost")
	}
	release(t, a.Lease)
}

// vanish has the lease of a slot be over in Redis, and half of its quarantine.
func vanish(s *redistest.Server, name, owner string, quarantine time.Duration) {
	const shorten = "local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + ARGV[2], ARGV[1])"
	s.Do("EVAL", shorten, "1", stateKey(name), owner, strconv.FormatInt((quarantine/2).Milliseconds(), 10))
}

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however
// full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", bitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	before := evalshas(calls())
	slot, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	if got := evalshas(calls()) - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
	if _, err := pool.TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted", err)
	}
	release(t, slot.Lease)
	release(t, first.Lease)
}

// evalshas is how often EVALSHA was called, by INFO commandstats.
func evalshas(info string) (n int) {
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}
