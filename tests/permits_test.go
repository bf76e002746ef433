package tests

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// wantAvailable checks how many permits of a semaphore are free.
func wantAvailable(t reporter, s *redlatch.Semaphore, want int64) {
	t.Helper()
	if n, err := s.Available(within(t, patience)); n != want || err != nil {
		t.Errorf("Available = %d, %v, want %d", n, err, want)
	}
}

// TestPermitsThatAreFree: all of them go to one lease, and come back with it, also where another
// holder expired; with none free there is no lease.
func TestPermitsThatAreFree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.URL(), sluggish()).Semaphore("s", 10)
	wantAvailable(t, s, 10)
	ctx := within(t, patience)
	three, err := s.Acquire(ctx, 3)
	if err != nil {
		t.Fatalf("Acquire = %v, want a lease", err)
	}
	wantAvailable(t, s, 7)
	dying := open(t, server.URL(), sluggish()).Semaphore("s", 10)
	two, err := dying.TryAcquire(ctx, 2)
	if err != nil {
		t.Fatalf("TryAcquire = %v, want a lease", err)
	}
	wantAvailable(t, s, 5)
	server.Do("ZADD", stateKey("s"), "XX", "1", two.Owner()) // it has expired in Redis
	wantAvailable(t, s, 7)
	if err := two.Extend(ctx); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend of what has expired = %v, want ErrNotHeld", err)
	}
	_ = wantLost(t, two)
	all, err := s.TryAcquireAll(ctx)
	if err != nil || all.Permits() != 7 || three.Permits() != 3 || two.Permits() != 0 {
		t.Fatalf("TryAcquireAll = %v permits, %v, beside %d and %d, want 7, 3 and 0", all.Permits(), err, three.Permits(), two.Permits())
	}
	wantAvailable(t, s, 0)
	if _, err := s.TryAcquireAll(ctx); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquireAll of none = %v, want ErrExhausted", err)
	}
	release(t, three)
	wantAvailable(t, s, 3)
	next := goAcquire(func() (*redlatch.Lease, error) { return s.Acquire(ctx, 9) })
	queued(t, server, "s", 1)
	wantAvailable(t, s, 3)
	if _, err := s.TryAcquireAll(ctx); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquireAll past the line = %v, want ErrExhausted", err)
	}
	release(t, all)
	release(t, await(t, next))
	wantNothingLeft(t, server, "s")
}

// TestPermitsAfterAResize: where more are out than there are now, none is free.
func TestPermitsAfterAResize(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := open(t, server.URL(), sluggish())
	ctx := within(t, patience)
	all, err := c.Semaphore("s", 10).TryAcquireAll(ctx)
	if err != nil || all.Permits() != 10 {
		t.Fatalf("TryAcquireAll = %v, want 10 permits", err)
	}
	small, err := c.Semaphore("s", 10).Resize(ctx, 4)
	if err != nil {
		t.Fatalf("Resize = %v, want nil", err)
	}
	wantAvailable(t, small, 0)
	if _, err := small.TryAcquireAll(ctx); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquireAll of fewer than none = %v, want ErrExhausted", err)
	}
	for what, ask := range map[string]func() error{
		"Available":     func() error { _, err := c.Semaphore("s", 10).Available(ctx); return err },
		"TryAcquireAll": func() error { _, err := c.Semaphore("s", 10).TryAcquireAll(ctx); return err },
	} {
		if kind := (*redlatch.KindError)(nil); !errors.As(ask(), &kind) || kind.GotSize != 4 {
			t.Errorf("%s of another number = %v, want a KindError that tells 4", what, ask())
		}
	}
	release(t, all)
	wantAvailable(t, small, 4)
}

// TestPermitsMeetMishaps: a reply that is lost takes permits once, and those are what the lease
// says.
func TestPermitsMeetMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	p := subject{kind: "all permits", try: permits((*redlatch.Semaphore).TryAcquire, 3), wait: permits((*redlatch.Semaphore).Acquire, 3)}
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly} {
		for _, h := range []hits{first, firstTwo, every} {
			rs.run(1, func(r *trial) {
				r.harm(m, h)
				l, err := r.near.Semaphore(r.name, 3).TryAcquireAll(within(r, patience))
				r.heal()
				r.wantUnknown("TryAcquireAll", err, m)
				if err == nil {
					if l.Permits() != 3 {
						r.Errorf("the lease has %d permits, want 3", l.Permits())
					}
					wantAvailable(r, r.far.Semaphore(r.name, 3), 0)
					r.wantReleaseError(l.Release(t.Context()))
				}
				r.wantFree(p, false)
			}, m.name, h.name)
		}
	}
	rs.wait()
}
