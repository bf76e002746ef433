package kinds

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

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
	if err != nil || len(info.Holders) != 1 {
		t.Fatalf("Inspect = %+v, %v, want one holder", info.Holders, err)
	}
	there, after := info.Holders[0].Remaining, l.Remaining()
	if here < least || there > most || after > there {
		t.Errorf("it lasts for %v here and %v in Redis, want at least %v, at most %v, and no longer here", here, there, least, most)
	}
}

// TestExtendToEveryKind: the lease lasts for as long as was asked, and nothing shortens it: no
// Extend, no shorter ExtendTo, no request of before that is late.
func TestExtendToEveryKind(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, late := wire.OpenStraggling(t, s, manual())
		far := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		name := help.LockOf(c, kind).Name
		late.Keep(name + " acquire")
		l := help.Enter(t, help.LockOf(c, kind))
		ctx := locktest.Within(t, locktest.Patience)
		check.OK(t, "ExtendTo", l.ExtendTo(ctx, time.Hour))
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		late.Deliver(t)
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		late.Keep(name + " renew")
		check.Nil(t, "Extend", l.Extend(ctx))
		check.Nil(t, "ExtendTo less than is left", l.ExtendTo(ctx, time.Minute))
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		check.OK(t, "ExtendTo", l.ExtendTo(ctx, 2*time.Hour))
		late.Deliver(t)
		wantLength(t, far, l, 118*time.Minute, 2*time.Hour)
		locktest.Release(t, l)
		help.AwaitNothingLeft(t, s, name)
	})
}

// TestExtendToLessThanTheTTL: a length of its own may be short, too.
func TestExtendToLessThanTheTTL(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o := manual()
		o.Lock.TTL = 3 * time.Second
		c := s.Client(t, o)
		l := locktest.Lock(t, c.Mutex("a"))
		time.Sleep(1500 * time.Millisecond)
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), 2*time.Second))
		wantLength(t, c, l, 1900*time.Millisecond, 2*time.Second)
		time.Sleep(1900 * time.Millisecond)
		check.That(t, l.Held(), "lost before its end: %v", l.Err())
		time.Sleep(100 * time.Millisecond)
		if lost := help.WantLost(t, l); lost.Reason != redlatch.LossNotRenewed {
			t.Errorf("lost for the reason %v, want LossNotRenewed", lost.Reason)
		}
	})
}

// TestExtendToAndTheWatchdog: it goes on as often as before, shortens nothing, and finds out that
// the lease was deleted.
func TestExtendToAndTheWatchdog(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const ttl = 600 * time.Millisecond
		o, seen := help.Watched(help.Brisk(ttl))
		c := s.Client(t, o)
		l := locktest.Lock(t, c.Mutex("a"))
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), time.Hour))
		extended := len(seen.Of(redlatch.EventExtended, "a"))
		const thirds = 30
		time.Sleep(thirds * ttl / 3)
		// Each is due after a third of the TTL, less a hundredth and 2 ms, give or take a tenth.
		if n := len(seen.Of(redlatch.EventExtended, "a")) - extended; n < thirds*8/10 || n > thirds*12/10 {
			t.Errorf("the watchdog extended %d times in %d thirds of the TTL, want as often as before", n, thirds)
		}
		wantLength(t, c, l, time.Hour-time.Minute-11*ttl, time.Hour-10*ttl)
		s.Lose(locktest.StateKey("a"))
		lost := help.WantLost(t, l)
		if lost.Reason != redlatch.LossDeleted {
			t.Errorf("lost for the reason %v, want LossDeleted", lost.Reason)
		}
	})
}

// TestExtendToOutlastsAnOutage: while Redis is silent for longer than the TTL the lease is held,
// and it is released afterwards.
func TestExtendToOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o := trial.Losing()
		o.Lock.TTL = time.Second
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		l := locktest.Lock(t, wire.Wrap(t, link, o).Mutex("a"))
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), time.Hour))
		link.Harm(wire.Swallowed, wire.Every)
		time.Sleep(time.Minute)
		if !l.Held() || l.Remaining() < 58*time.Minute {
			t.Errorf("after an outage of a minute, %v are left: %v, want almost 59 more", l.Remaining(), l.Err())
		}
		link.Harm(wire.Mishap{}, wire.None)
		locktest.Release(t, l)
		locktest.Release(t, check.Value(s.Client(t, help.Sluggish()).Mutex("a").TryLock(t.Context())).OK(t))
	})
}

// TestExtendToIsNotPassedOn: the length is the holder's own. The next goroutine of the process has
// a lease as long as any, and of its own.
func TestExtendToIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := help.Watched(help.Brisk(locktest.Patience))
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	first := locktest.Lock(t, m)
	results := help.GoLocks(t, t.Context(), m, seen, 2)
	locktest.Release(t, first)
	second := help.Await(t, results[0])
	check.OK(t, "ExtendTo", second.ExtendTo(t.Context(), time.Hour))
	owner := second.Owner()
	locktest.Release(t, second)
	third := help.Await(t, results[1])
	check.That(t, third.Owner() != owner, "a lease with a length of its own was passed on")
	if ms, err := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a"))); err != nil || ms > int(locktest.Patience.Milliseconds()) {
		t.Errorf("the next lease lasts for %d ms in Redis, want its TTL of %v", ms, locktest.Patience)
	}
	locktest.Release(t, third)
}

// TestExtendToMeetsMishaps: what Redis did not confirm moves no deadline, and nothing stays behind.
func TestExtendToMeetsMishaps(t *testing.T) {
	trial.EachMishap(t, trial.Mishaps(), []wire.Hits{wire.First, wire.FirstTwo, wire.Every}, func(r *trial.Trial, m wire.Mishap, h wire.Hits) {
		l := help.InsistLock(r, r.Near.Mutex(r.Name).Lock)
		deadline := l.Deadline()
		r.Harm(m, h)
		err := l.ExtendTo(locktest.Within(r, locktest.Patience), l.Remaining()+time.Hour)
		r.Heal()
		r.WantUnknown("ExtendTo", err, m)
		if moved := l.Deadline().Sub(deadline); err != nil && moved != 0 || err == nil && moved < 58*time.Minute {
			r.Errorf("ExtendTo = %v, and the deadline moved by %v", err, moved)
		}
		help.Insist(r, "Extend", func() (struct{}, error) { return struct{}{}, l.Extend(locktest.Within(r, locktest.Patience)) })
		info, err := r.Far.Inspect(locktest.Within(r, locktest.Patience), r.Name)
		if here := l.Remaining(); err != nil || len(info.Holders) != 1 || info.Holders[0].Remaining < here {
			r.Errorf("it is held for %v here, and in Redis by %+v, %v", here, info.Holders, err)
		}
		help.InsistRelease(r, l)
		r.WantNothingLeft()
	})
}

// TestExtendToIsRefused: lengths that cannot be, leases that are over, and what must not be long.
func TestExtendToIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), manual())
	l := locktest.Lock(t, c.Mutex("a"))
	ctx := locktest.Within(t, locktest.Patience)
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 25 * time.Hour} {
		if err := l.ExtendTo(ctx, d); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("ExtendTo %v = %v, want ErrInvalid", d, err)
		}
	}
	locktest.Release(t, l)
	check.Error(t, "ExtendTo after Release", l.ExtendTo(ctx, time.Hour), redlatch.ErrNotHeld)
	bounded := locktest.Lock(t, c.Mutex("b").With(redlatch.LockOptions{MaxHold: time.Minute}))
	if err := bounded.ExtendTo(ctx, time.Hour); !errors.Is(err, redlatch.ErrMaxHold) || !bounded.Held() {
		t.Errorf("ExtendTo beyond MaxHold = %v, want ErrMaxHold", err)
	}
	check.Nil(t, "ExtendTo within MaxHold", bounded.ExtendTo(ctx, 30*time.Second))
	locktest.Release(t, bounded)
	far := locktest.Lock(t, help.OpenQuorum(t, help.StartNodes(t, 3), manual()).Mutex("c"))
	check.Error(t, "ExtendTo over a quorum", far.ExtendTo(ctx, time.Hour), redlatch.ErrInvalid, errors.ErrUnsupported)
	check.Nil(t, "ExtendTo the TTL over a quorum", far.ExtendTo(ctx, locktest.Patience))
	locktest.Release(t, far)
}
