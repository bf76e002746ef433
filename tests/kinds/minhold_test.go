package kinds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// longHold is a minimal hold that ends with no test.
const longHold = 12 * time.Hour

// holding returns o with a minimal hold.
func holding(o redlatch.Options, d time.Duration) redlatch.Options {
	o.Lock.MinHold = d
	return o
}

// eachShutKind runs a test for every kind that a release can leave shut.
func eachShutKind(t *testing.T, test func(t *testing.T, s *redistest.Server, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		if name == "slotpool" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t), i)
		})
	}
}

// TestEveryKindOpensInTime: waiters of the same client and of another follow each other no faster
// than they may, by the server's clock, and ask for nothing but at that time: no heartbeat is near.
func TestEveryKindOpensInTime(t *testing.T) {
	const hold = 700 * time.Millisecond
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := locktest.Open(t, s.URL(), holding(help.Sluggish(), hold)), locktest.Open(t, s.URL(), holding(help.Sluggish(), hold))
		held := help.Enter(t, help.LockOf(c, kind))
		name, token := held.Name(), held.Token()
		one := help.GoEnter(t.Context(), help.LockOf(c, kind))
		locktest.InLine(t, s, name, 1)
		two := help.GoEnter(t.Context(), help.LockOf(other, kind))
		locktest.InLine(t, s, name, 2)
		stats := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
		before := help.Evalshas(stats())
		locktest.Release(t, held)
		for _, next := range []<-chan help.Outcome{one, two} {
			l := help.Await(t, next)
			if after := time.Duration(l.Token()-token) * time.Microsecond; after < hold {
				t.Errorf("it was granted %v after the last time, want %v at least", after, hold)
			}
			token = l.Token()
			locktest.Release(t, l)
		}
		// Three releases; for each of two waiters an await or two, and the record of its client.
		if n := help.Evalshas(stats()) - before; n > 12 {
			t.Errorf("%d requests, want one for each release and a few for each waiter", n)
		}
		help.WantNothingLeft(t, s, name)
	})
}

// TestSemaphoreBoundsHowOften: n permits, each of which is back a minimal hold after it was taken.
func TestSemaphoreBoundsHowOften(t *testing.T) {
	t.Parallel()
	const n, turns, hold = 3, 9, 400 * time.Millisecond
	s := redistest.Start(t)
	var tokens []int64
	for _, c := range help.Several(t, s, turns, holding(help.Sluggish(), hold)) {
		l := check.Value(c.Semaphore("a", n).Acquire(locktest.Within(t, locktest.Patience), 1)).OK(t)
		tokens = append(tokens, l.Token())
		locktest.Release(t, l)
	}
	for i := n; i < turns; i++ {
		if d := time.Duration(tokens[i]-tokens[i-n]) * time.Microsecond; d < hold {
			t.Errorf("%d acquisitions within %v, want %v at least", n+1, d, hold)
		}
	}
	help.WantNothingLeft(t, s, "a")
}

// TestMinHoldIsRefused where it means nothing, unless it is taken away again.
func TestMinHoldIsRefused(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, holding(help.Brisk(help.Lasting), longHold))
	none := redlatch.LockOptions{MinHold: redlatch.None}
	pool, job := c.SlotPool("pool", 1, redlatch.SlotOptions{}), c.Job("job", redlatch.JobOptions{Window: time.Hour})
	work := func(context.Context, *redlatch.Lease) error { return nil }
	_, slotErr := pool.TryAcquire(t.Context())
	_, jobErr := job.Do(t.Context(), work)
	for what, err := range map[string]error{"slot pool": slotErr, "job": jobErr} {
		check.That(t, errors.Is(err, redlatch.ErrInvalid) && errors.Is(err, errors.ErrUnsupported), "%s: %v, want ErrInvalid and ErrUnsupported", what, err)
	}
	check.Nil(t, "slot pool without it", check.ErrorOf(pool.With(none).TryAcquire(t.Context())))
	if ran, err := job.With(none).Do(t.Context(), work); !ran || err != nil {
		t.Errorf("job without it: %v, %v", ran, err)
	}
}

// Leases with a length of their own.

// manual are brisk options under which nothing is extended unasked.
func manual() redlatch.Options {
	o := help.Brisk(locktest.Patience)
	o.Lock.Renew = redlatch.Off
	return o
}

// wantLength checks that a lease lasts for at least least here, for no more than most in Redis, and
// that it ends here before it does there.
func wantLength(t *testing.T, c *redlatch.Client, l *redlatch.Lease, least, most time.Duration) {
	t.Helper()
	here := l.Remaining()
	info, err := c.Inspect(locktest.Within(t, locktest.Patience), l.Name())
	check.Must(t, err == nil && len(info.Holders) == 1, "Inspect = %+v, %v, want one holder", info.Holders, err)
	there, after := info.Holders[0].Remaining, l.Remaining()
	if here < least || there > most || after > there {
		t.Errorf("it lasts for %v here and %v in Redis, want at least %v, at most %v, and no longer here", here, there, least, most)
	}
}

// TestExtendToItsOwnLength: it may be shorter than the TTL. Where it is longer, nothing shortens it: no
// Extend, no shorter ExtendTo, no request of before that is late. The lease is held through an outage that is
// longer than the TTL, and is released afterwards.
func TestExtendToItsOwnLength(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o := manual()
		o.Lock.TTL = 3 * time.Second
		c, late := s.Straggles(o)
		l := locktest.Lock(t, c.Mutex("a"))
		time.Sleep(1500 * time.Millisecond)
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), 2*time.Second))
		wantLength(t, c, l, 1900*time.Millisecond, 2*time.Second)
		time.Sleep(1900 * time.Millisecond)
		check.That(t, l.Held(), "lost before its end: %v", l.Err())
		time.Sleep(100 * time.Millisecond)
		check.Equal(t, help.WantLost(t, l).Reason, redlatch.LossNotRenewed, "reason")

		l = locktest.Lock(t, c.Mutex("a"))
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), time.Hour))
		late.Keep("mutex renew")
		check.Nil(t, "Extend", l.Extend(t.Context()))
		check.Nil(t, "ExtendTo less than is left", l.ExtendTo(t.Context(), time.Minute))
		wantLength(t, c, l, 59*time.Minute, time.Hour)
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), 2*time.Hour))
		late.Deliver(t)
		wantLength(t, c, l, 118*time.Minute, 2*time.Hour)
		s.Hang()
		time.Sleep(time.Minute)
		check.That(t, l.Held() && l.Remaining() >= 117*time.Minute, "after an outage of a minute, %v are left: %v, want almost two hours", l.Remaining(), l.Err())
		s.Resume()
		locktest.Release(t, l)
		help.AwaitFree(t, s, "a")
	})
}

// TestExtendToIsNotPassedOn: the length is the holder's own. The next goroutine of the process has
// a lease as long as any, and of its own.
func TestExtendToIsNotPassedOn(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Brisk(time.Minute))
		m := s.Client(t, o).Mutex("a")
		first := locktest.Lock(t, m)
		results := help.GoLocks(t, t.Context(), m, seen, 2)
		locktest.Release(t, first)
		second := help.Await(t, results[0])
		check.OK(t, "ExtendTo", second.ExtendTo(t.Context(), time.Hour))
		owner := second.Owner()
		locktest.Release(t, second)
		third := help.Await(t, results[1])
		check.That(t, third.Owner() != owner, "a lease with a length of its own was passed on")
		check.Equal(t, s.Do("PTTL", locktest.StateKey("a")), "60000", "the next lease lasts in Redis for")
		locktest.Release(t, third)
	})
}

// TestExtendToIsRefused: lengths that cannot be, leases that are over, and what must not be long.
func TestExtendToIsRefused(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, manual())
	l := locktest.Lock(t, c.Mutex("a"))
	ctx := locktest.Within(t, locktest.Patience)
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 25 * time.Hour} {
		check.Error(t, fmt.Sprintf("ExtendTo %v", d), l.ExtendTo(ctx, d), redlatch.ErrInvalid)
	}
	locktest.Release(t, l)
	check.Error(t, "ExtendTo after Release", l.ExtendTo(ctx, time.Hour), redlatch.ErrNotHeld)
	bounded := locktest.Lock(t, c.Mutex("b").With(redlatch.LockOptions{MaxHold: time.Minute}))
	if err := bounded.ExtendTo(ctx, time.Hour); !errors.Is(err, redlatch.ErrMaxHold) || !bounded.Held() {
		t.Errorf("ExtendTo beyond MaxHold = %v, want ErrMaxHold", err)
	}
	check.Nil(t, "ExtendTo within MaxHold", bounded.ExtendTo(ctx, 30*time.Second))
	locktest.Release(t, bounded)
}
