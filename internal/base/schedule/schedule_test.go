package schedule_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestEntriesAreHandedOverWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		fired := make(map[string]time.Duration)
		rounds, before := 0, 0
		s := schedule.Start(clock.Now, func() {
			if len(fired) > before {
				rounds, before = rounds+1, len(fired)
			}
		})
		defer s.Stop()
		entry := func(name string) *schedule.Entry {
			return &schedule.Entry{Owner: owner(func() { fired[name] = time.Since(start) })}
		}
		first, moved, removed, early, alone := entry("first"), entry("moved"), entry("removed"), entry("early"), entry("alone")
		s.Set(moved, start.Add(time.Second), 0)
		s.Set(first, start.Add(2*time.Second), time.Millisecond)
		s.Set(removed, start.Add(3*time.Second), 0)
		s.Set(early, start.Add(2500*time.Millisecond), time.Second)
		s.Set(moved, start.Add(5*time.Second), 0)
		s.Set(alone, start.Add(5500*time.Millisecond), time.Second) // neither moved nor a tick takes it along
		s.Remove(removed)
		s.Remove(removed)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for name, want := range map[string]time.Duration{
			"first": 2 * time.Second, "moved": 5 * time.Second, "early": 2 * time.Second, "alone": 5500 * time.Millisecond,
		} {
			check.That(t, fired[name] == want, "%s was handed over after %v, want %v", name, fired[name], want)
		}
		if at, ok := fired["removed"]; ok {
			t.Errorf("removed was handed over after %v, want never", at)
		}
		if rounds != 3 { // early goes along with first
			t.Errorf("%d rounds, want 3", rounds)
		}
	})
}

func TestWallClockJumpHandsOverEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var skew atomic.Int64
		var fired atomic.Bool
		now := func() clock.Reading { return clock.Now().Skewed(time.Duration(skew.Load())) }
		s := schedule.Start(now, func() {})
		defer s.Stop()
		s.Set(&schedule.Entry{Owner: owner(func() { fired.Store(true) })}, time.Now().Add(time.Hour), 0)
		time.Sleep(2 * schedule.Tick)
		check.Must(t, !fired.Load(), "the entry was handed over before its time")
		skew.Store(int64(30 * time.Second))
		time.Sleep(schedule.Tick)
		synctest.Wait()
		check.That(t, fired.Load(), "the wall clock jumped and the entry was not handed over within a tick")
	})
}

// owner is called when its entry is due.
type owner func()

func (o owner) Due(clock.Reading) { o() }
