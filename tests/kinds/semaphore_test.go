package kinds

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestResizeOutlivesTheLastHolder: who waits was told the size of before, and does not bring it
// back when it is let in.
func TestResizeOutlivesTheLastHolder(t *testing.T) {
	t.Parallel()
	s, c, other := locktest.StartTwo(t, help.Sluggish())
	held := check.Value(c.Semaphore("a", 2).Acquire(t.Context(), 2)).OK(t)
	next := help.GoAcquire(func() (*redlatch.Lease, error) { return other.Semaphore("a", 2).Acquire(t.Context(), 2) })
	locktest.InLine(t, s, "a", 1)
	larger := check.Value(c.Semaphore("a", 2).Resize(t.Context(), 3)).OK(t)
	locktest.Release(t, held)
	successor := help.Await(t, next)
	one := check.Value(larger.TryAcquire(t.Context(), 1)).From(t, "TryAcquire of the third permit")
	locktest.Release(t, one)
	locktest.Release(t, successor)
}

// TestPermitsAfterAResize: where more are out than there are now, none is free.
func TestPermitsAfterAResize(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := locktest.Open(t, server.URL(), help.Sluggish())
	ctx := locktest.Within(t, locktest.Patience)
	all, err := c.Semaphore("s", 10).TryAcquireAll(ctx)
	check.Must(t, err == nil && all.Permits() == 10, "TryAcquireAll = %v, want 10 permits", err)
	small := check.Value(c.Semaphore("s", 10).Resize(ctx, 4)).OK(t)
	help.WantAvailable(t, small, 0)
	check.Error(t, "TryAcquireAll of fewer than none", check.ErrorOf(small.TryAcquireAll(ctx)), redlatch.ErrExhausted)
	for what, ask := range map[string]func() error{
		"Available":     func() error { _, err := c.Semaphore("s", 10).Available(ctx); return err },
		"TryAcquireAll": func() error { _, err := c.Semaphore("s", 10).TryAcquireAll(ctx); return err },
	} {
		if kind := (*redlatch.KindError)(nil); !errors.As(ask(), &kind) || kind.GotSize != 4 {
			t.Errorf("%s of another number = %v, want a KindError that tells 4", what, ask())
		}
	}
	locktest.Release(t, all)
	help.WantAvailable(t, small, 4)
}

// TestPermitsThatAreShut are not free, beside those that are, and count through a Resize until they open.
func TestPermitsThatAreShut(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const hold = 10 * time.Second
		sem := s.Client(t, help.Sluggish()).Semaphore("a", 4)
		two := check.Value(sem.With(redlatch.LockOptions{MinHold: hold}).Acquire(t.Context(), 2)).OK(t)
		locktest.Release(t, two)
		help.WantAvailable(t, sem, 2)
		one := permit(t, sem)
		help.WantAvailable(t, sem, 1)
		rest := check.Value(sem.TryAcquireAll(t.Context())).OK(t)
		check.Equal(t, rest.Permits(), 1, "the permits that were free")
		check.Error(t, "TryAcquireAll of none", check.ErrorOf(sem.TryAcquireAll(t.Context())), redlatch.ErrExhausted)
		locktest.Release(t, rest)
		locktest.Release(t, one)
		larger := check.Value(sem.Resize(t.Context(), 6)).OK(t)
		help.WantAvailable(t, larger, 4)
		check.Error(t, "Available of the old number", check.ErrorOf(sem.Available(t.Context())), redlatch.ErrWrongKind)
		began := time.Now()
		locktest.Release(t, check.Value(larger.Acquire(t.Context(), 6)).OK(t))
		check.That(t, time.Since(began) >= hold-time.Second, "all permits after %v, want that the shut ones open first", time.Since(began))
		help.WantNothingLeft(t, s, "a")
	})
}

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however
// full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s, c := locktest.Start(t, help.Sluggish())
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first := check.Value(pool.Acquire(t.Context())).OK(t)
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", help.BitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	before := help.Evalshas(calls())
	slot := check.Value(pool.Acquire(t.Context())).OK(t)
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	check.Equal(t, help.Evalshas(calls())-before, 1, "requests")
	check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
	locktest.Release(t, slot.Lease)
	locktest.Release(t, first.Lease)
}

// TestPlaceAfterAResize: a waiter that lost its place takes it again, though the size is another now.
func TestPlaceAfterAResize(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, o := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		held := check.Value(o.Semaphore("s", 3).Acquire(t.Context(), 3)).OK(t)
		result := help.GoAcquire(func() (*redlatch.Lease, error) { return c.Semaphore("s", 3).Acquire(t.Context(), 1) })
		locktest.InLine(t, s, "s", 1)
		resized := check.Value(o.Semaphore("s", 3).Resize(t.Context(), 2)).OK(t)
		s.Cut(c)
		time.Sleep(time.Second)
		_, err := resized.TryAcquire(t.Context(), 1) // finds a client that does not listen
		check.Error(t, "a try", err, redlatch.ErrExhausted)
		locktest.InLine(t, s, "s", 0)
		s.Mend(c)
		time.Sleep(10 * time.Second)
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, result))
	})
}

// TestResizeTellsWhoWantsTooMuch: a waiter that wants more permits than there are by now is refused at
// once, not at its next heartbeat.
func TestResizeTellsWhoWantsTooMuch(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, o := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish())
		held := check.Value(c.Semaphore("s", 3).Acquire(t.Context(), 3)).OK(t)
		wait := func(c *redlatch.Client, permits int64, place int) <-chan help.Outcome {
			result := help.GoAcquire(func() (*redlatch.Lease, error) { return c.Semaphore("s", 3).Acquire(t.Context(), permits) })
			locktest.InLine(t, s, "s", place)
			return result
		}
		three, two, one := wait(o, 3, 1), wait(c, 2, 2), wait(o, 1, 3)
		began := time.Now()
		check.OK(t, "Resize", check.ErrorOf(c.Semaphore("s", 3).Resize(t.Context(), 1)))
		check.Error(t, "a wait for three", help.AwaitError(t, three), redlatch.ErrWrongKind)
		check.Error(t, "a wait for two", help.AwaitError(t, two), redlatch.ErrWrongKind)
		check.That(t, time.Since(began) < time.Second, "both are told after %v, want at once", time.Since(began))
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, one))
		help.WantNothingLeft(t, s, "s")
	})
}
