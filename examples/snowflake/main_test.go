package main

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/redlatchtest"
)

// start returns a client of a server of its own, and what makes a generator on the only slot of a pool.
func start(t *testing.T, now func() time.Time) (c *redlatch.Client, next func() (*Generator, *redlatch.Slot)) {
	t.Helper()
	conn := check.Value(redlatchrueidis.Open(rueidis.MustParseURL(redlatchtest.Start(t).URL()))).OK(t)
	c = check.Value(redlatch.New(conn, redlatch.Options{RequestTimeout: time.Minute})).OK(t)
	t.Cleanup(func() { c.Close() })
	pool := c.SlotPool("worker", 1, redlatch.SlotOptions{Quarantine: time.Millisecond})
	return c, func() (*Generator, *redlatch.Slot) {
		t.Helper()
		slot := check.Value(pool.Acquire(t.Context())).OK(t)
		return check.Value(NewGenerator(t.Context(), conn, slot, now)).OK(t), slot
	}
}

func TestClockThatStepsBackMintsNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	_, next := start(t, func() time.Time { return now })
	g, slot := next()
	first := check.Value(g.Next(t.Context())).OK(t)
	now = now.Add(-time.Second)
	check.Error(t, "Next after the clock stepped back", check.ErrorOf(g.Next(t.Context())), errClock)
	now = now.Add(time.Second)
	check.That(t, check.Value(g.Next(t.Context())).OK(t) > first, "when the clock is back, an ID is no larger than the first")

	// The next holder of the slot has a clock that is behind: it mints nothing that this one may
	// have minted, nor in the time it claimed.
	check.OK(t, "Release", slot.Release(t.Context()))
	now = now.Add(-time.Hour)
	g, _ = next()
	check.Error(t, "Next of the next holder, with a clock that is behind", check.ErrorOf(g.Next(t.Context())), errClock)
	now = now.Add(time.Hour + 2*time.Second)
	check.Nil(t, "Next when its clock is past the mark", check.ErrorOf(g.Next(t.Context())))
}

func TestLostSlotMintsNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c, next := start(t, func() time.Time { return now })
	g, slot := next()
	check.OK(t, "Next", check.ErrorOf(g.Next(t.Context())))
	token := slot.Token()
	check.OK(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), slot.Name(), redlatch.ForceOptions{Owner: slot.Owner()})))
	_ = slot.Extend(t.Context()) // finds out
	now = now.Add(time.Minute)
	check.Error(t, "Next without the slot", check.ErrorOf(g.Next(t.Context())), redlatch.ErrNotHeld)
	next() // the next holder has shown its token
	var stale *fence.StaleError
	err := fenceredis.Set(t.Context(), g.conn, g.key, "0", token, 0)
	check.That(t, errors.As(err, &stale), "moving the mark with the old token = %v, want a StaleError", err)
}

func TestIDsGrowAndDoNotRepeatWithinAMillisecond(t *testing.T) {
	t.Parallel()
	_, next := start(t, time.Now)
	g, _ := next()
	last := int64(0)
	for range 3 * perMillisecond {
		id := check.Value(g.Next(t.Context())).OK(t)
		check.Must(t, id > last, "%d after %d, want more", id, last)
		last = id
	}
}
