package tests

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Leases with a length of their own.

// manual are brisk options with a short TTL, under which nothing is extended unasked.
func manual() redlatch.Options {
	o := brisk(3 * time.Second)
	o.Lock.Renew = redlatch.Off
	return o
}

// wantLength checks that a lease lasts for at least least here, for no more than most in Redis, and
// that it ends here before it does there.
func wantLength(t *testing.T, c *redlatch.Client, l *redlatch.Lease, least, most time.Duration) {
	t.Helper()
	here := l.Remaining()
	info, err := c.Inspect(within(t, patience), l.Name())
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
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, late := openStraggling(t, s, manual())
		far := open(t, s.URL(), brisk(lasting))
		name := of(c, kind).Name
		late.keep(name + " acquire")
		l := enter(t, of(c, kind))
		ctx := within(t, patience)
		if err := l.ExtendTo(ctx, time.Hour); err != nil {
			t.Fatalf("ExtendTo = %v, want nil", err)
		}
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		late.deliver(t)
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		late.keep(name + " renew")
		if err := l.Extend(ctx); err != nil {
			t.Errorf("Extend = %v, want nil", err)
		}
		if err := l.ExtendTo(ctx, time.Minute); err != nil {
			t.Errorf("ExtendTo less than is left = %v, want nil", err)
		}
		wantLength(t, far, l, 59*time.Minute, time.Hour)
		if err := l.ExtendBy(ctx, time.Hour); err != nil {
			t.Fatalf("ExtendBy = %v, want nil", err)
		}
		late.deliver(t)
		wantLength(t, far, l, 118*time.Minute, 2*time.Hour+time.Minute)
		release(t, l)
		free(t, s, name)
	})
}

// TestExtendToLessThanTheTTL: a length of its own may be short, too.
func TestExtendToLessThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := manual()
	o.Lock.TTL = 3 * time.Second
	c := open(t, s.URL(), o)
	l := lock(t, c.Mutex("a"))
	eventually(t, "half of it is over", func() bool { return l.Remaining() < 1500*time.Millisecond })
	if err := l.ExtendTo(t.Context(), 2*time.Second); err != nil {
		t.Fatalf("ExtendTo = %v, want nil", err)
	}
	wantLength(t, c, l, 0, 2*time.Second)
	if lost := wantLost(t, l); lost.Reason != redlatch.LossNotRenewed {
		t.Errorf("lost for the reason %v, want LossNotRenewed", lost.Reason)
	}
}

// TestExtendToAndTheWatchdog: it goes on as often as before, shortens nothing, and finds out that
// the lease was deleted.
func TestExtendToAndTheWatchdog(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var seen events
	o := brisk(600 * time.Millisecond)
	o.Hook = seen.hook
	c := open(t, s.URL(), o)
	l := lock(t, c.Mutex("a"))
	if err := l.ExtendTo(t.Context(), time.Hour); err != nil {
		t.Fatalf("ExtendTo = %v, want nil", err)
	}
	extended := len(seen.of(redlatch.EventExtended, "a"))
	eventually(t, "the watchdog goes on", func() bool { return len(seen.of(redlatch.EventExtended, "a")) >= extended+3 })
	wantLength(t, c, l, 58*time.Minute, time.Hour+time.Second)
	s.Do("DEL", stateKey("a"))
	if lost := wantLost(t, l); lost.Reason != redlatch.LossDeleted {
		t.Errorf("lost for the reason %v, want LossDeleted", lost.Reason)
	}
}

// TestExtendToOutlastsAnOutage: while Redis is silent for longer than the TTL the lease is held,
// and it is released afterwards.
func TestExtendToOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	r := newCourse(t, 1)
	o := losing()
	o.Lock.TTL = time.Second
	c, links := r.client(t, o)
	l := lock(t, c.Mutex("a"))
	if err := l.ExtendTo(t.Context(), time.Hour); err != nil {
		t.Fatalf("ExtendTo = %v, want nil", err)
	}
	links[0].harm(swallowed, every)
	begin := time.Now()
	eventually(t, "twice the TTL has passed", func() bool { return time.Since(begin) > 2*o.Lock.TTL })
	if !l.Held() || l.Remaining() < 59*time.Minute {
		t.Errorf("after an outage of twice the TTL, %v are left: %v, want almost an hour", l.Remaining(), l.Err())
	}
	links[0].harm(mishap{}, none)
	release(t, l)
	awaitFree(t, r.nodes[0], "a")
}

// TestExtendToIsNotPassedOn: the length is the holder's own. The next goroutine of the process has
// a lease as long as any, and of its own.
func TestExtendToIsNotPassedOn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := watched(brisk(3 * time.Second))
	m := open(t, s.URL(), o).Mutex("a")
	first := lock(t, m)
	results := goLocks(t, t.Context(), m, seen, 2)
	release(t, first)
	second := await(t, results[0])
	if err := second.ExtendTo(t.Context(), time.Hour); err != nil {
		t.Fatalf("ExtendTo = %v, want nil", err)
	}
	owner := second.Owner()
	release(t, second)
	third := await(t, results[1])
	if third.Owner() == owner {
		t.Error("a lease with a length of its own was passed on")
	}
	if ms, err := strconv.Atoi(s.Do("PTTL", stateKey("a"))); err != nil || ms > 3000 {
		t.Errorf("the next lease lasts for %d ms in Redis, want its TTL of 3000", ms)
	}
	release(t, third)
}

// TestExtendToMeetsMishaps: what Redis did not confirm moves no deadline, and nothing stays behind.
func TestExtendToMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly, diskFull} {
		for _, h := range []hits{first, firstTwo, every} {
			rs.run(1, func(r *trial) {
				l, err := r.near.Mutex(r.name).TryLock(within(r, patience))
				if err != nil {
					r.Fatalf("TryLock = %v, want a lease", err)
				}
				deadline := l.Deadline()
				r.harm(m, h)
				err = l.ExtendBy(within(r, patience), time.Hour)
				r.heal()
				r.wantUnknown("ExtendBy", err, m)
				if moved := l.Deadline().Sub(deadline); err != nil && moved != 0 || err == nil && moved < 58*time.Minute {
					r.Errorf("ExtendBy = %v, and the deadline moved by %v", err, moved)
				}
				if err := l.Extend(within(r, patience)); err != nil {
					r.Errorf("Extend = %v, want nil", err)
				}
				here := l.Remaining()
				info, err := r.far.Inspect(within(r, patience), r.name)
				if err != nil || len(info.Holders) != 1 || info.Holders[0].Remaining < here-time.Second {
					r.Errorf("it is held for %v here, and in Redis by %+v, %v", here, info.Holders, err)
				}
				if err := l.Release(t.Context()); err != nil {
					r.Errorf("Release = %v, want nil", err)
				}
				r.wantNothingLeft()
			}, m.name, h.name)
		}
	}
	rs.wait()
}

// TestExtendToIsRefused: lengths that cannot be, leases that are over, and what must not be long.
func TestExtendToIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), manual())
	l := lock(t, c.Mutex("a"))
	ctx := within(t, patience)
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 25 * time.Hour} {
		if err := l.ExtendTo(ctx, d); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("ExtendTo %v = %v, want ErrInvalid", d, err)
		}
		if err := l.ExtendBy(ctx, d); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("ExtendBy %v = %v, want ErrInvalid", d, err)
		}
	}
	release(t, l)
	if err := l.ExtendTo(ctx, time.Hour); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ExtendTo after Release = %v, want ErrNotHeld", err)
	}
	bounded := lock(t, c.Mutex("b").With(redlatch.LockOptions{MaxHold: time.Minute}))
	if err := bounded.ExtendTo(ctx, time.Hour); !errors.Is(err, redlatch.ErrMaxHold) || !bounded.Held() {
		t.Errorf("ExtendTo beyond MaxHold = %v, want ErrMaxHold", err)
	}
	if err := bounded.ExtendTo(ctx, 30*time.Second); err != nil {
		t.Errorf("ExtendTo within MaxHold = %v, want nil", err)
	}
	release(t, bounded)
	both, err := c.MultiMutex("m", "n").Lock(ctx)
	if err != nil {
		t.Fatalf("MultiMutex = %v, want a lease", err)
	}
	if err := both.ExtendTo(ctx, time.Hour); err != nil || both.Remaining() < 59*time.Minute {
		t.Errorf("ExtendTo of two names = %v, %v left, want an hour", err, both.Remaining())
	}
	if err := both.Release(ctx); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	far := lock(t, openQuorum(t, startNodes(t, 3), manual()).Mutex("c"))
	if err := far.ExtendTo(ctx, time.Hour); !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("ExtendTo over a quorum = %v, want ErrInvalid and ErrUnsupported", err)
	}
	if err := far.ExtendTo(ctx, 3*time.Second); err != nil {
		t.Errorf("ExtendTo the TTL over a quorum = %v, want nil", err)
	}
	release(t, far)
}
