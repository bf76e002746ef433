package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// waited has the acquisition allowed to wait.
func waited(k *history.Hold) { k.Waited = true }

// turns has two workers hand a lock to each other n times from a time on. Each waits in line for
// 100 ms before the release. took is from the call of a release until the waiter has the lock, and
// release what that call takes.
func (s *script) turns(kind string, begin int64, n int, took, release int64, more ...func(*history.Hold)) *script {
	at := begin
	for i := range n + 1 {
		s.hold(string("12"[i%2]), kind, int64(len(s.h.Holds)+1), at-100, at, at, at+5, append([]func(*history.Hold){waited, func(k *history.Hold) {
			k.Name, k.Released = kind, k.Release+ms(release)
		}}, more...)...)
		at += 5 + took
	}
	return s
}

// TestHandOverTimes has hand-overs found that take part of a heartbeat, while releases are quick.
func TestHandOverTimes(t *testing.T) {
	t.Parallel()
	mutex, reentrant := history.Mutex, history.Reentrant
	// Half of the hand-overs are to take less than 10 ms, and the waiters to be in line for 2.5 ms.
	beat := history.Rules{Heartbeat: 80 * time.Millisecond, Settle: 100 * time.Millisecond}
	const calm = 1000
	for name, c := range map[string]struct {
		script  *script
		rules   history.Rules
		looked  int
		bad     string // in what it tells; "" for nothing
		unknown string // likewise
	}{
		"told":                  {newScript().turns(mutex, 1200, 20, 2, 1), beat, 20, "", ""},
		"not told":              {newScript().turns(mutex, 1200, 20, 40, 1), beat, 20, "half of 20 hand-overs of kind mutex in the quiet part took 40ms or more", ""},
		"some are slow":         {newScript().turns(mutex, 1200, 11, 2, 1).turns(mutex, 2000, 7, 70, 1), beat, 18, "", ""},
		"few are quick":         {newScript().turns(mutex, 1200, 7, 2, 1).turns(mutex, 2000, 13, 70, 1), beat, 20, "took 70ms or more", ""},
		"so are releases":       {newScript().turns(mutex, 1200, 20, 40, 10), beat, 0, "", "too slow to tell"},
		"releases a bit slow":   {newScript().turns(mutex, 1200, 20, 40, 9), beat, 20, "9ms or less", ""},
		"too few":               {newScript().turns(mutex, 1200, 9, 40, 1), beat, 0, "", "fewer than 10"},
		"none":                  {newScript().hold("1", mutex, 1, 0, 10, 10, 20), beat, 0, "", "fewer than 10"},
		"under faults":          {newScript().turns(mutex, 200, 16, 40, 1), beat, 0, "", "under faults took 40ms or more"},
		"right after faults":    {newScript().turns(mutex, 980, 3, 40, 1).turns(mutex, 1050, 9, 40, 1), beat, 0, "", "only 8 were in the quiet part"},
		"told under faults":     {newScript().turns(mutex, 200, 16, 2, 1), beat, 16, "", ""},
		"quiet part counts":     {newScript().turns(mutex, 200, 50, 2, 1).turns(mutex, 1200, 12, 40, 1), beat, 12, "in the quiet part took 40ms", ""},
		"one kind of two":       {newScript().turns(mutex, 1200, 50, 2, 1).turns(history.Election, 1200, 12, 40, 1), beat, 62, "kind election", ""},
		"a kind that is slow":   {newScript().turns(mutex, 1200, 50, 2, 1).turns(history.Election, 1200, 12, 40, 20), beat, 50, "", "kind election"},
		"a kind under faults":   {newScript().turns(mutex, 1200, 50, 2, 1).turns(history.Election, 200, 12, 40, 1), beat, 50, "", ""},
		"within a worker":       {newScript().turns(mutex, 1200, 20, 40, 1, func(k *history.Hold) { k.Worker = "1" }), beat, 0, "", "fewer than 10"},
		"no waiter in line":     {newScript().turns(mutex, 1200, 20, 40, 1, func(k *history.Hold) { k.Called = k.Granted - ms(41) }), beat, 0, "", "fewer than 10"},
		"tries":                 {newScript().turns(mutex, 1200, 20, 40, 1, func(k *history.Hold) { k.Waited = false }), beat, 0, "", "fewer than 10"},
		"releases that fail":    {newScript().turns(mutex, 1200, 20, 40, 1, func(k *history.Hold) { k.Released = history.Never }), beat, 0, "", "fewer than 10"},
		"leases that ran out":   {newScript().turns(mutex, 1200, 20, 40, 1, func(k *history.Hold) { k.Release += ms(41); k.Released = k.Release }), beat, 0, "", "fewer than 10"},
		"a quorum":              {newScript().turns(mutex, 1200, 20, 40, 1), history.Rules{Settle: beat.Settle}, 0, "", ""},
		"no messages arrive":    {newScript().turns(mutex, 1200, 20, 40, 1), history.Rules{Heartbeat: beat.Heartbeat, Settle: beat.Settle, Silent: true}, 0, "", ""},
		"no kind that does":     {newScript().turns(history.Semaphore, 1200, 20, 40, 1), beat, 0, "", ""},
		"entries of two owners": {newScript().turns(reentrant, 1200, 20, 40, 1), beat, 20, "kind reentrant", ""},
		"an entry within": {
			newScript().turns(reentrant, 1200, 20, 2, 1, func(k *history.Hold) { k.Owner = "x" + k.Worker }).inner(30), beat, 20, "", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := c.script.h
			h.Calm, h.End = ms(calm), ms(5000)
			h.Arrange()
			f := h.HandOverTimes(c.rules)
			check.Equal(t, f.Looked, c.looked, "HandOverTimes looked at")
			if f.Bad > 0 != (c.bad != "") || !strings.Contains(f.First, c.bad) {
				t.Errorf("HandOverTimes found %d: %q, want something with %q", f.Bad, f.First, c.bad)
			}
			if (f.Unknown == "") != (c.unknown == "") || !strings.Contains(f.Unknown, c.unknown) {
				t.Errorf("HandOverTimes cannot tell %q, want something with %q", f.Unknown, c.unknown)
			}
		})
	}
	endless := newScript().turns(mutex, 1200, 20, 40, 1).h
	endless.Arrange()
	if f := endless.HandOverTimes(beat); f.Looked != 0 || f.Bad != 0 || f.Unknown != "" {
		t.Errorf("HandOverTimes of a run without a quiet part = %+v, want nothing", f)
	}
}

// inner adds an entry within each lease, and releases it before the lease.
func (s *script) inner(before int64) *script {
	for _, k := range s.h.Holds {
		entry := *k
		entry.Op += 1000
		entry.Release -= ms(before)
		entry.Released = entry.Release + ms(1)
		s.h.Holds = append(s.h.Holds, &entry)
	}
	return s
}
