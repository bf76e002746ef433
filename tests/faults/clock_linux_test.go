package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestEveryKindAndAClockThatSteps: a lease is held and others wait while the server's clock steps by an
// hour. Set back, the lease is held, and the line keeps its order. Set ahead, the lease is lost, and all
// waiters are served. When the clock is right again, and tokens are ahead of it or not, a minimal hold
// lasts as long as it should, and nothing is left behind.
func TestEveryKindAndAClockThatSteps(t *testing.T) {
	t.Parallel()
	const hold = time.Second
	for kind, name := range kindtest.Kinds() {
		for _, step := range []time.Duration{time.Hour, -time.Hour} {
			t.Run(name+" "+step.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.StartWithClock(t)
				o := help.Attentive()
				o.Lock.TTL = 20 * time.Minute
				c := locktest.Open(t, s.URL(), o)
				held := help.Enter(t, help.LockOf(c, kind))
				var waits []<-chan help.Outcome
				wait := func() {
					waits = append(waits, help.GoEnter(t.Context(), help.LockOf(locktest.Open(t, s.URL(), o), kind)))
					locktest.InLine(t, s, name, len(waits))
				}
				wait()
				wait()
				s.StepClock(step)
				if step > 0 {
					check.Error(t, "Extend", held.Extend(t.Context()), redlatch.ErrNotHeld)
					help.Together(len(waits), func(i int) { locktest.Release(t, help.Await(t, waits[i])) }) // in any order
				} else {
					check.That(t, held.Extend(t.Context()) == nil, "lost: %v", held.Err())
					wait()
					info, err := c.Inspect(t.Context(), name)
					future := slices.ContainsFunc(info.Waiters, func(w redlatch.Waiter) bool { return w.Since.After(info.At) })
					check.That(t, err == nil && len(info.Waiters) == 3 && !future, "Inspect = %+v, %v, want three that came before", info, err)
					locktest.Release(t, held)
					for _, next := range waits {
						locktest.Release(t, help.Await(t, next))
					}
				}
				help.WantNothingLeft(t, s, name)
				s.StepClock(0)
				if name == "slotpool" { // which has no minimal hold
					return
				}
				o.Lock.MinHold = hold
				l := help.LockOf(locktest.Open(t, s.URL(), o), kind)
				locktest.Release(t, help.Enter(t, l))
				info, err := c.Inspect(t.Context(), name)
				check.That(t, err == nil && info.Remaining <= hold+time.Millisecond, "shut for %v, %v, want %v at most", info.Remaining, err, hold)
				locktest.Release(t, help.Enter(t, l))
				help.WantExpiry(t, s)
			})
		}
	}
}

// TestYieldAndAClockThatIsSetBack: a lock that is left free for other libraries kept its own waiters out
// until the clock was there again.
func TestYieldAndAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	s := redistest.StartWithClock(t)
	o := help.Attentive()
	o.Lock.Yield = redlatch.Yield{Every: 1, For: 10 * time.Second}
	held := locktest.Lock(t, locktest.Open(t, s.URL(), o).Mutex("a"))
	next := help.GoLock(t.Context(), locktest.Open(t, s.URL(), o).Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Release(t, held)
	locktest.InLine(t, s, "a", 2) // the waiter, and the yield before it
	s.StepClock(-time.Hour)
	locktest.Release(t, help.Await(t, next))
}
