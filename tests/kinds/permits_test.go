package kinds

import (
	"errors"
	"slices"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestPermitsAfterAResize: where more are out than there are now, none is free.
func TestPermitsAfterAResize(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := locktest.Open(t, server.URL(), help.Sluggish())
	ctx := locktest.Within(t, locktest.Patience)
	all, err := c.Semaphore("s", 10).TryAcquireAll(ctx)
	if err != nil || all.Permits() != 10 {
		t.Fatalf("TryAcquireAll = %v, want 10 permits", err)
	}
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

// TestPermitsMeetMishaps: a reply that is lost takes permits once, and those are what the lease
// says.
func TestPermitsMeetMishaps(t *testing.T) {
	p := trial.Subject{Kind: "all permits", Try: trial.Permits((*redlatch.Semaphore).TryAcquire, 3), Wait: trial.Permits((*redlatch.Semaphore).Acquire, 3)}
	mishaps := slices.DeleteFunc(trial.Mishaps(), func(m wire.Mishap) bool { return m.Name == wire.DiskFull.Name })
	trial.EachMishap(t, mishaps, []wire.Hits{wire.First, wire.FirstTwo, wire.Every}, func(r *trial.Trial, m wire.Mishap, h wire.Hits) {
		r.Harm(m, h)
		l, err := r.Near.Semaphore(r.Name, 3).TryAcquireAll(locktest.Within(r, locktest.Patience))
		r.Heal()
		r.WantUnknown("TryAcquireAll", err, m)
		if err == nil {
			if l.Permits() != 3 {
				r.Errorf("the lease has %d permits, want 3", l.Permits())
			}
			help.WantAvailable(r, r.Far.Semaphore(r.Name, 3), 0)
			r.WantReleaseError(l.Release(t.Context()))
		}
		r.WantFree(p, false)
	})
}
