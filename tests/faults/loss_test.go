package faults

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// lossy loses the answers to scripts whose names contain a text. The server runs them.
type lossy struct {
	conn.Conn
	loses atomic.Pointer[string]
	slow  time.Duration // how long an extend takes to arrive
}

func (c *lossy) lose(text string) { c.loses.Store(&text) }

func (c *lossy) keep() { c.loses.Store(nil) }

func (c *lossy) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if strings.Contains(calls[0].Script.Name, "renew") {
		time.Sleep(c.slow)
	}
	all := c.Conn.Eval(ctx, calls...)
	text := c.loses.Load()
	if text == nil || !strings.Contains(calls[0].Script.Name, *text) {
		return all
	}
	<-ctx.Done()
	return wire.Failing(len(calls), ctx.Err())
}

// withLosses runs a test in virtual time, with a client that loses answers and another.
func withLosses(t *testing.T, test func(t *testing.T, c *lossy, one, other *redlatch.Client)) {
	t.Helper()
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := &lossy{Conn: s.Conn()}
		test(t, c, wire.Wrap(t, c, redlatch.Options{}), s.Client(t, redlatch.Options{}))
	})
}

// brief is how long the leases of these tests last.
var brief = redlatch.LockOptions{TTL: 10 * time.Second}

// TestSlotThatIsLostRests, whatever its client does to let others in early: an extend had no answer, or
// the lease was made longer than its TTL, and ended.
func TestSlotThatIsLostRests(t *testing.T) {
	t.Parallel()
	quarantine := redlatch.SlotOptions{Quarantine: time.Minute}
	for how, lose := range map[string]func(t *testing.T, c *lossy, s *redlatch.Slot){
		"an extend has no answer": func(_ *testing.T, c *lossy, _ *redlatch.Slot) { c.lose("renew") },
		"a longer lease ends": func(t *testing.T, c *lossy, s *redlatch.Slot) {
			c.slow = 50 * time.Millisecond
			check.OK(t, "ExtendTo", s.ExtendTo(t.Context(), 20*time.Second))
			c.lose("renew")
		},
	} {
		t.Run(how, func(t *testing.T) {
			withLosses(t, func(t *testing.T, c *lossy, one, other *redlatch.Client) {
				slot := check.Value(one.SlotPool("ids", 1, quarantine).With(brief).Acquire(t.Context())).OK(t)
				lose(t, c, slot)
				<-slot.Context().Done()
				lost := time.Now()
				c.keep()
				again := check.Value(other.SlotPool("ids", 1, quarantine).With(brief).Acquire(t.Context())).OK(t)
				check.That(t, time.Since(lost) >= time.Minute, "given again %v after its loss, with a quarantine of a minute", time.Since(lost))
				check.OK(t, "Release", again.Release(t.Context()))
			})
		})
	}
}

// TestLossClosesNoLock: MinHold counts for a release. A lock that is lost opens when its lease ends, and a
// MultiMutex that does not get all of its names leaves none of them closed.
func TestLossClosesNoLock(t *testing.T) {
	t.Parallel()
	o := redlatch.LockOptions{TTL: brief.TTL, MinHold: time.Hour}
	t.Run("mutex", func(t *testing.T) {
		withLosses(t, func(t *testing.T, c *lossy, one, other *redlatch.Client) {
			l := check.Value(one.Mutex("a").With(o).Lock(t.Context())).OK(t)
			c.lose("renew")
			<-l.Context().Done()
			c.keep()
			time.Sleep(5 * time.Second)
			check.OK(t, "TryLock", check.ErrorOf(other.Mutex("a").TryLock(t.Context())))
		})
	})
	t.Run("several", func(t *testing.T) {
		withLosses(t, func(t *testing.T, c *lossy, one, other *redlatch.Client) {
			held := check.Value(other.Mutex("b").Lock(t.Context())).OK(t)
			failed := make(chan error, 1)
			go func() { failed <- check.ErrorOf(one.MultiMutex("a", "b").With(o).Lock(t.Context())) }()
			time.Sleep(time.Second)
			c.lose("renew")
			time.Sleep(12 * time.Second)
			c.keep()
			time.Sleep(10 * time.Second)
			check.OK(t, "Release", held.Release(t.Context()))
			check.Error(t, "Lock of several of which one was lost", <-failed, redlatch.ErrNotHeld)
			time.Sleep(time.Minute)
			for _, name := range []string{"a", "b"} {
				check.OK(t, "TryLock of "+name, check.ErrorOf(other.Mutex(name).TryLock(t.Context())))
			}
		})
	})
}

// TestMaxHoldOfWorkAroundOther: an inner lease extends the entry that it shares with an outer one, which
// has reached its MaxHold, and is released. The outer one ends, and the lock is free within another TTL.
func TestMaxHoldOfWorkAroundOther(t *testing.T) {
	withLosses(t, func(t *testing.T, _ *lossy, one, other *redlatch.Client) {
		begun := time.Now()
		r := one.ReentrantMutex("r").With(redlatch.LockOptions{TTL: brief.TTL, MaxHold: 20 * time.Second})
		outer := check.Value(r.Lock(t.Context())).OK(t)
		time.Sleep(19 * time.Second)
		inner := check.Value(r.Lock(outer.Context())).OK(t)
		for time.Since(begun) < 25*time.Second {
			time.Sleep(time.Until(outer.Deadline()) - time.Second/2)
		}
		check.OK(t, "Release", inner.Release(t.Context()))
		free := check.Value(other.ReentrantMutex("r").Lock(t.Context())).OK(t)
		check.That(t, time.Since(begun) <= 31*time.Second, "the lock is free after %v", time.Since(begun))
		check.OK(t, "Release", free.Release(t.Context()))
	})
}

// TestDepthAfterAReleaseIsRepeated: an entry whose release is called again, since it had no answer, counts
// as one that has left.
func TestDepthAfterAReleaseIsRepeated(t *testing.T) {
	withLosses(t, func(t *testing.T, c *lossy, one, _ *redlatch.Client) {
		ctx := redlatch.WithOwner(t.Context(), "me")
		r := one.ReentrantMutex("r").WithDepth(2)
		enter := func(ttl time.Duration) (*redlatch.Lease, error) {
			return r.With(redlatch.LockOptions{TTL: ttl}).Lock(ctx)
		}
		first, second := check.Value(enter(10*time.Second)).OK(t), check.Value(enter(20*time.Second)).OK(t)
		c.lose("release")
		check.Error(t, "Release", first.Release(ctx), redlatch.ErrUnreachable)
		c.keep()
		check.OK(t, "Release", first.Release(ctx))
		time.Sleep(5 * time.Second)
		third := check.Value(enter(10 * time.Second)).OK(t)
		_, err := enter(10 * time.Second)
		check.That(t, errors.Is(err, redlatch.ErrTooDeep), "Lock = %v with two leases held, want ErrTooDeep", err)
		check.OK(t, "Release", errors.Join(second.Release(ctx), third.Release(ctx)))
	})
}
