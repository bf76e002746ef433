package faults

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// These tests are in bubbles. The client looks a second time for what it left behind, a third of
// RequestTimeout after the first, and a request that is later than that is not undone. On a real
// clock, a machine that pauses would make it so late.

func TestStragglerAfterTryLockFoundItTaken(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		held := locktest.Lock(t, s.Client(t, help.Brisk(help.Lasting)).Mutex("a"))
		c, late := s.Straggles(help.Brisk(help.Lasting))
		late.Keep("mutex acquire")
		check.Error(t, "TryLock", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrTaken)
		locktest.Release(t, held)
		late.AwaitUndo(t) // which finds nothing
		late.Deliver(t)
		s.AwaitFree("a")
	})
}

func TestStragglerAfterTheRelease(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, late := s.Straggles(help.Brisk(help.Lasting))
		late.Keep("mutex acquire")
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		late.Deliver(t)
		s.AwaitFree("a")
	})
}

// straggle has a client wait for a mutex, lock and release it, and has its first request for a place
// in line arrive after all that. It returns the lease of who holds the mutex by then.
func straggle(t *testing.T, s *memory.Server) *redlatch.Lease {
	t.Helper()
	other := s.Client(t, help.Sluggish()).Mutex("a")
	held := locktest.Lock(t, other)
	c, late := s.Straggles(help.Brisk(help.Lasting))
	s.Hearing(c)
	late.Keep("mutex acquire")
	result := help.GoLock(t.Context(), c.Mutex("a"))
	s.Queued("a", "1")
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, result))
	held = locktest.Lock(t, other)
	late.Deliver(t)
	return held
}

// TestStragglerBringsAServedWaiterBack: it takes a place in line for an owner that has been in and
// out.
func TestStragglerBringsAServedWaiterBack(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		locktest.Release(t, straggle(t, s))
		s.AwaitFree("a")
		s.WantNothingLeft("a")
	})
}

func TestStragglerAfterTheWaitWasGivenUp(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		held := locktest.Lock(t, s.Client(t, help.Brisk(help.Lasting)).Mutex("a"))
		c, late := s.Straggles(help.Brisk(help.Lasting))
		s.Hearing(c)
		late.Keep("mutex acquire")
		ctx, cancel := context.WithCancel(t.Context())
		result := help.GoLock(ctx, c.Mutex("a"))
		s.Queued("a", "1")
		cancel()
		help.AwaitError(t, result)
		s.Queued("a", "0")
		late.Deliver(t)
		locktest.Release(t, held)
		s.AwaitFree("a")
		if l, err := c.Mutex("a").TryLock(t.Context()); err != nil {
			t.Errorf("TryLock = %v, want a lease: no other client uses the name", err)
		} else {
			locktest.Release(t, l)
		}
	})
}

// TestStragglingRenewalIsNothing: an extend that arrives after the release must not bring the lock
// back (redisson#7272, RedLock.net#48, redis-semaphore#175).
func TestStragglingRenewalIsNothing(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, late := s.Straggles(help.Brisk(help.Lasting))
		l := locktest.Lock(t, c.Mutex("a"))
		late.Keep("mutex renew")
		check.OK(t, "Extend", l.Extend(t.Context()))
		locktest.Release(t, l)
		late.Deliver(t)
		if got := s.Do("EXISTS", locktest.StateKey("a")); got != "0" {
			t.Error("a late extend brought the lock back")
		}
		second := locktest.Lock(t, c.Mutex("a"))
		s.Do("PEXPIRE", locktest.StateKey("a"), "60000")
		late.Deliver(t)
		if got := s.Do("PTTL", locktest.StateKey("a")); len(got) > len("60000") {
			t.Errorf("PTTL = %s: a late extend of an old lease extended the new one", got)
		}
		locktest.Release(t, second)
	})
}

// TestStragglerWithATicket: it takes a place in line for an owner that has been in and out, while
// another client is inside.
func TestStragglerWithATicket(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		held := straggle(t, s)
		s.Queued("a", "0")
		locktest.Release(t, held)
	})
}

// TestStragglerAmongOthersWhoGiveUp: what is looked at a second time is looked at a while later,
// also when there is more to release until then.
func TestStragglerAmongOthersWhoGiveUp(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, late := s.Straggles(help.Brisk(help.Lasting))
		s.Hearing(c)
		held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("b"))
		late.Keep("mutex acquire")
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			result := help.GoLock(ctx, c.Mutex("b"))
			s.Queued("b", "1")
			cancel()
			_ = help.AwaitError(t, result)
			s.Queued("b", "0")
		}
		late.Deliver(t)
		s.AwaitFree("a")
		locktest.Release(t, held)
	})
}
