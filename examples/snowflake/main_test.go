package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/redlatchtest"
)

// bench is a pool of one slot, and what a generator on it needs.
type bench struct {
	conn *redlatchrueidis.Conn
	pool *redlatch.SlotPool
	c    *redlatch.Client
}

func start(t *testing.T) bench {
	t.Helper()
	conn, err := redlatchrueidis.Open(rueidis.MustParseURL(redlatchtest.Start(t).URL()))
	if err != nil {
		t.Fatal(err)
	}
	c, err := redlatch.New(conn, redlatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return bench{conn, c.SlotPool("worker", 1, redlatch.SlotOptions{Quarantine: time.Millisecond}), c}
}

func (b bench) generator(t *testing.T, now func() time.Time) (*Generator, *redlatch.Slot) {
	t.Helper()
	slot, err := b.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGenerator(t.Context(), b.conn, slot, now)
	if err != nil {
		t.Fatal(err)
	}
	return g, slot
}

func at(at *time.Time) func() time.Time { return func() time.Time { return *at } }

func TestClockThatStepsBackMintsNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	now := time.Now()
	g, slot := b.generator(t, at(&now))
	first, err := g.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(-time.Second)
	if id, err := g.Next(t.Context()); !errors.Is(err, errClock) {
		t.Errorf("Next after the clock stepped back = %d, %v, want errClock", id, err)
	}
	now = now.Add(time.Second)
	if id, err := g.Next(t.Context()); err != nil || id <= first {
		t.Errorf("Next when it is back = %d, %v, want more than %d", id, err, first)
	}

	// The next holder of the slot has a clock that is behind: it mints nothing that this one may
	// have minted, nor in the time it claimed.
	slot.Release(t.Context())
	behind := now.Add(-time.Hour)
	other, _ := b.generator(t, at(&behind))
	if id, err := other.Next(t.Context()); !errors.Is(err, errClock) {
		t.Errorf("Next of the next holder, with a clock that is behind = %d, %v, want errClock", id, err)
	}
	behind = now.Add(2 * time.Second)
	if _, err := other.Next(t.Context()); err != nil {
		t.Errorf("Next when its clock is past the mark = %v, want an ID", err)
	}
}

func TestLostSlotMintsNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	now := time.Now()
	g, slot := b.generator(t, at(&now))
	if _, err := g.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	token := slot.Token()
	lose(b.c, slot)
	now = now.Add(time.Minute)
	if id, err := g.Next(t.Context()); err == nil {
		t.Errorf("Next without the slot = %d, want an error", id)
	}
	b.generator(t, at(&now)) // the next holder has shown its token
	var stale *fence.StaleError
	if err := fenceredis.Set(t.Context(), b.conn, g.key, "0", token, 0); !errors.As(err, &stale) {
		t.Errorf("moving the mark with the old token = %v, want a StaleError", err)
	}
}

func TestIDsGrowAndDoNotRepeatWithinAMillisecond(t *testing.T) {
	t.Parallel()
	b := start(t)
	g, _ := b.generator(t, time.Now)
	last := int64(0)
	for range 3 * perMillisecond {
		id, err := g.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if id <= last {
			t.Fatalf("%d after %d, want more", id, last)
		}
		last = id
	}
}
