package operations

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// A hook may be slow. The client must not miss what happens meanwhile, nor tell it wrongly.

// hooked returns a client, and what sets its hook.
func hooked(t *testing.T, s *memory.Server) (c *redlatch.Client, set func(func(redlatch.Event))) {
	var hook atomic.Pointer[func(redlatch.Event)]
	c = s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
		if f := hook.Load(); f != nil {
			(*f)(e)
		}
	}})
	return c, func(f func(redlatch.Event)) { hook.Store(&f) }
}

// slowAt returns a hook that takes so long for an event of this type.
func slowAt(what redlatch.EventType, d time.Duration) func(redlatch.Event) {
	return func(e redlatch.Event) {
		if e.Type == what {
			time.Sleep(d)
		}
	}
}

// TestUnkeptHoldsUpNoMessages: a client gives a lock back that it kept, and its hook is slow. It hears of a
// grant all the same.
func TestUnkeptHoldsUpNoMessages(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		other := s.Client(t, redlatch.Options{})
		c, set := hooked(t, s)
		s.Hearing(c)
		kept := c.Mutex("kept").With(redlatch.LockOptions{Linger: 10 * time.Second})
		locktest.Eventually(t, "it is kept", func() bool {
			l := locktest.Lock(t, kept)
			locktest.Release(t, l)
			return strings.HasSuffix(l.Owner(), "~")
		})
		set(slowAt(redlatch.EventUnkept, 4*time.Second))
		held := locktest.Lock(t, other.Mutex("b"))
		begun := time.Now()
		wanted := help.GoTryLock(t.Context(), other.Mutex("kept"))
		time.AfterFunc(time.Second, func() { locktest.Release(t, held) })
		locktest.Release(t, locktest.Lock(t, c.Mutex("b")))
		check.Equal(t, time.Since(begun), time.Second, "when the grant was heard")
		locktest.Release(t, help.Await(t, wanted))
	})
}

// TestDetachOfAnEntryThatWasTaken: an inner lease is detached, and its owner is out for a moment, in which
// another has the lock. The client of the first does not listen. The text gives a larger token than that one had.
func TestDetachOfAnEntryThatWasTaken(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		other := s.Client(t, redlatch.Options{})
		c, set := hooked(t, s)
		m := c.ReentrantMutex("a")
		outer := check.Value(m.Lock(t.Context())).OK(t)
		inner := check.Value(m.Lock(outer.Context())).OK(t)
		var between int64
		set(func(e redlatch.Event) {
			if e.Type == redlatch.EventExtended && between == 0 {
				check.Value(other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})).OK(t)
				l := check.Value(other.ReentrantMutex("a").Lock(t.Context())).OK(t)
				between = l.Token()
				locktest.Release(t, l)
			}
		})
		l := help.Adopt(t, other, help.Detach(t, inner))
		check.That(t, l.Token() > between, "a lease that was adopted has the token %d after %d", l.Token(), between)
		locktest.Release(t, l)
	})
}

// TestLongHeldIsNotedOnce: of two leases that share an entry, one is released before the hook is told that
// it was extended.
func TestLongHeldIsNotedOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, set := hooked(t, s)
		m := c.ReentrantMutex("a")
		outer := check.Value(m.Lock(t.Context())).OK(t)
		inner := check.Value(m.Lock(outer.Context())).OK(t)
		time.Sleep(11 * time.Minute)
		var once atomic.Bool
		set(func(e redlatch.Event) {
			if e.Type == redlatch.EventExtended && once.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
			}
		})
		time.Sleep(time.Minute)
		locktest.Release(t, inner)
		time.Sleep(2 * time.Minute)
		locktest.Release(t, outer)
		time.Sleep(time.Minute)
		n := 0
		for _, e := range chronicle(t, c, redlatch.JournalQuery{}) {
			if e.Type == redlatch.JournalHeld {
				n++
			}
		}
		check.Equal(t, n, 2, "leases that were held for long, as noted")
	})
}

// isTold reports whether a holder was told that it is waited for.
func isTold(wanted <-chan struct{}) bool {
	select {
	case <-wanted:
		return true
	default:
		return false
	}
}

// TestReleaseLeavesWishesAlone: a permit is given back, with and without a minimal hold. The holder of
// another, which has asked, is told of a waiter that comes after that.
func TestReleaseLeavesWishesAlone(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"at once": 0, "shut": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				one, two := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
				o := redlatch.LockOptions{MinHold: hold}
				take := func(c *redlatch.Client) (*redlatch.Lease, error) {
					return c.Semaphore("a", 2).With(o).Acquire(t.Context(), 1)
				}
				held, other := check.Value(take(one)).OK(t), check.Value(take(two)).OK(t)
				wanted := held.Wanted()
				time.Sleep(time.Second)
				locktest.Release(t, other)
				for range 2 {
					help.GoAcquire(func() (*redlatch.Lease, error) { return take(two) })
				}
				time.Sleep(time.Second)
				check.That(t, isTold(wanted), "a holder is not told of a waiter")
			})
		})
	}
}
