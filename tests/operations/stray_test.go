package operations

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// traced are options with which leases that are forgotten are found.
func traced() (redlatch.Options, *help.Events) {
	o := help.Brisk(help.Lasting)
	o.TraceLeases = true
	return help.Watched(o)
}

// forget acquires a lock and drops the lease.
//
//go:noinline
func forget(t *testing.T, l kindtest.Lock) {
	t.Helper()
	check.OK(t, "Acquire", check.ErrorOf(l.Acquire(locktest.Within(t, locktest.Patience))))
}

// collected waits until the hook was told that a lease is forgotten.
func collected(t *testing.T, seen *help.Events, name string) redlatch.Event {
	t.Helper()
	locktest.Eventually(t, "the lease is collected", func() bool {
		runtime.GC()
		return len(seen.Of(redlatch.EventForgotten, name)) > 0
	})
	return seen.Of(redlatch.EventForgotten, name)[0]
}

// TestForgottenLeaseIsTold: a lease that no code has keeps its lock until the process ends. With
// TraceLeases the hook is told, with the line that acquired it, and Leases and Close name it. It
// stays held: its work may go on. A lease that is in use is not told.
func TestForgottenLeaseIsTold(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := traced()
		c := locktest.Open(t, s.URL(), o)
		used := locktest.Lock(t, c.Mutex("used"))
		l := help.LockOf(c, kind)
		forget(t, l)
		e := collected(t, seen, l.Name)
		if !strings.Contains(e.Stack, "stray_test.go") || strings.Contains(e.Stack, "redlatch.(*latch)") || e.Token == 0 || e.Remaining <= 0 {
			t.Errorf("%+v, want the call that acquired it", e)
		}
		all := c.Leases()
		if len(all) != 2 || all[0].Name != "used" || all[0].Forgotten || !all[1].Forgotten || all[1].Token != e.Token || all[1].Stack != e.Stack {
			t.Errorf("Leases = %+v, want the one that is used, and the one that is forgotten", all)
		}
		check.Error(t, "a lock whose lease is forgotten", check.ErrorOf(help.LockOf(locktest.Open(t, s.URL(), o), kind).Try(t.Context())), redlatch.ErrTaken)
		check.That(t, used.Held() && len(seen.Of(redlatch.EventForgotten, "used")) == 0, "a lease that is in use counts as forgotten")
		locktest.Release(t, used)
		left := (*redlatch.LeftError)(nil)
		if err := c.Close(); !errors.As(err, &left) || len(left.Leases) != 1 || !strings.Contains(err.Error(), "1 lease was held") {
			t.Errorf("Close = %v, want the lease that is left", err)
		}
		check.Equal(t, len(seen.Of(redlatch.EventForgotten, l.Name)), 1, "how often it was told")
		seen.WantEnds(t)
	})
}

// TestForgottenLeaseOfSeveralNames and of one that was adopted are told, too.
func TestForgottenLeaseOfSeveralNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := traced()
	c := locktest.Open(t, s.URL(), o)
	text := check.Value(locktest.Lock(t, c.Mutex("adopted")).Detach(t.Context())).OK(t)
	func() {
		check.OK(t, "Lock", check.ErrorOf(c.MultiMutex("a", "b").Lock(t.Context())))
		check.OK(t, "Adopt", check.ErrorOf(c.Adopt(t.Context(), text, redlatch.LockOptions{})))
	}()
	for _, name := range []string{"a", "b", "adopted"} {
		if e := collected(t, seen, name); !strings.Contains(e.Stack, "stray_test.go") {
			t.Errorf("%+v, want the call that acquired it", e)
		}
	}
}

// TestTracedLeaseIsALease: what the program gets with TraceLeases does all that a lease does.
func TestTracedLeaseIsALease(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := traced()
		c := locktest.Open(t, s.URL(), o)
		l := help.Enter(t, help.LockOf(c, kind))
		if err := l.Extend(t.Context()); err != nil || !l.Held() || l.Token() == 0 || l.Err() != nil || l.Deadline().IsZero() || l.Context().Err() != nil {
			t.Errorf("Extend = %v, and %v", err, l)
		}
		check.Nil(t, "Ensure", l.Ensure(t.Context(), time.Minute))
		text, err := l.Detach(t.Context())
		check.Must(t, err == nil && !l.Held() && errors.Is(l.Err(), redlatch.ErrDetached), "Detach = %v, and then %v", err, l)
		again := check.Value(c.Adopt(t.Context(), text, redlatch.LockOptions{})).OK(t)
		waits := help.GoEnter(t.Context(), help.LockOf(c, kind))
		seen.Await(t, redlatch.EventWait, l.Name(), 0)
		locktest.Release(t, again)
		if again.Held() || again.Context().Err() == nil || again.Token() != 0 || !errors.Is(again.Err(), redlatch.ErrNotHeld) {
			t.Errorf("a lease that was released: %v", again)
		}
		locktest.Release(t, help.Await(t, waits))
		if all := c.Leases(); len(all) != 0 {
			t.Errorf("Leases = %+v, want none", all)
		}
		check.Nil(t, "Close without a lease", c.Close())
		seen.WantEnds(t)
	})
}
