package faults

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
