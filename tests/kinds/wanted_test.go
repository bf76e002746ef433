package kinds

import (
	"context"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// wished waits until Redis knows that so many holders of a name want to be told.
func wished(t *testing.T, s *redistest.Server, name string, n string) {
	t.Helper()
	locktest.Eventually(t, "holders want to be told", func() bool { return s.Do("ZCOUNT", help.ClientsKey(name), "-inf", "(0") == n })
}

// wantOpen checks that a holder was not told.
func wantOpen(t *testing.T, wanted <-chan struct{}, when string) {
	t.Helper()
	select {
	case <-wanted:
		t.Errorf("a holder is told that it is waited for %s", when)
	default:
	}
}

// TestWantedIsPushed: a holder of each kind is told as soon as a waiter of another process comes,
// with no heartbeat and no extend, and keeps what it holds; what it asked for does not stay.
func TestWantedIsPushed(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		near, far := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
		name := help.LockOf(near, kind).Name
		l := help.Enter(t, help.LockOf(near, kind))
		wanted := l.Wanted()
		wished(t, s, name, "1")
		wantOpen(t, wanted, "before any waiter has come")
		check.That(t, s.Do("PTTL", help.ClientsKey(name)) != "-1", "the wish of a holder stays for ever")
		next := help.GoEnter(t.Context(), help.LockOf(far, kind))
		help.Receive(t, wanted, "the word of a waiter")
		wished(t, s, name, "0")
		if l.Wanted() != wanted || !l.Held() {
			t.Errorf("held %t after the word of a waiter, want so, and the same channel again", l.Held())
		}
		token := l.Token()
		locktest.Release(t, l)
		help.WantSuccessor(t, s, next, token)
	})
}

// TestWantedByOneThatWaits: a waiter that was there before the holder asked counts.
func TestWantedByOneThatWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := locktest.Lock(t, locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	next := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	help.Receive(t, l.Wanted(), "the word of a waiter")
	locktest.Release(t, l)
	locktest.Release(t, help.Await(t, next))
}

// TestWantedByItsOwnProcess: goroutines of the same client count, also those that send nothing to
// Redis, whether they come before or after the holder asks.
func TestWantedByItsOwnProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	first := locktest.Lock(t, m)
	wanted := first.Wanted()
	wished(t, s, "a", "1")
	results := help.GoLocks(t, t.Context(), m, seen, 2)
	help.Receive(t, wanted, "the word of a goroutine")
	locktest.Release(t, first)
	second := help.Await(t, results[0])
	help.Receive(t, second.Wanted(), "the word of a goroutine that waited before")
	locktest.Release(t, second)
	third := help.Await(t, results[1])
	wanted = third.Wanted()
	locktest.Eventually(t, "the wish of the last is there", func() bool {
		return strings.Contains(s.Do("ZRANGE", help.ClientsKey("a"), "0", "-1"), third.Owner())
	})
	wantOpen(t, wanted, "when no other is left")
	locktest.Release(t, third)
}

// TestWantedWithoutMessages: a holder that cannot hear is told at its next extend.
func TestWantedWithoutMessages(t *testing.T) {
	t.Parallel()
	r := trial.NewCourse(t, 1)
	o := trial.Losing()
	o.RequestTimeout = locktest.Patience
	c, links := r.Client(t, o)
	links[0].Mute(true)
	l := locktest.Lock(t, c.Mutex("a"))
	wanted := l.Wanted()
	wished(t, r.Nodes[0], "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := help.GoLock(ctx, r.Far.Mutex("a"))
	locktest.InLine(t, r.Nodes[0], "a", 1)
	wantOpen(t, wanted, "though it cannot hear so")
	check.Nil(t, "Extend", l.Extend(t.Context()))
	help.Receive(t, wanted, "the word of a waiter")
	locktest.Release(t, l)
	locktest.Release(t, help.Await(t, next))
}

// TestWantedMeetsMishaps: whatever happens to the requests of a wish, the holder is told in the
// end, and of no waiter if there is none.
func TestWantedMeetsMishaps(t *testing.T) {
	mishaps := []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.ReadOnly}
	trial.EachMishap(t, mishaps, []wire.Hits{wire.First, wire.Every}, func(r *trial.Trial, m wire.Mishap, h wire.Hits) {
		l, err := r.Near.Mutex(r.Name).TryLock(locktest.Within(r, locktest.Patience))
		if err != nil {
			r.Fatalf("TryLock = %v, want a lease", err)
		}
		r.Harm(m, h)
		wanted := l.Wanted()
		locktest.Eventually(r, "the request of the wish", trial.Seldom(func() bool { return r.Links[0].Requests() > 0 }))
		r.Heal()
		select {
		case <-wanted:
			r.Errorf("a holder that no other waits for is told so")
		default:
		}
		next := help.GoLock(locktest.Within(r, locktest.Patience), r.Far.Mutex(r.Name))
		locktest.Eventually(r, "the waiter is in line", trial.Seldom(func() bool { return r.Remains(help.QueueKey) > 0 }))
		// A request has little time here, and a machine that is busy may need more.
		locktest.Eventually(r, "an extend", func() bool { return l.Extend(locktest.Within(r, locktest.Patience)) == nil })
		help.Receive(r, wanted, "the word of a waiter")
		locktest.Eventually(r, "a release", func() bool { return l.Release(t.Context()) == nil })
		last := help.Await(r, next)
		locktest.Eventually(r, "a release by the next", func() bool { return last.Release(t.Context()) == nil })
		r.WantNothingLeft()
	})
}

// TestWantedIsForThoseThatAsk: where no holder has asked, a waiter publishes nothing. A holder is
// not told of a waiter of before its time. Each holder of a semaphore is told.
func TestWantedIsForThoseThatAsk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	near, far := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	l := locktest.Lock(t, near.Mutex("a"))
	ctx, cancel := context.WithCancel(t.Context())
	next := help.GoLock(ctx, far.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	if strings.Contains(s.Do("INFO", "commandstats"), "cmdstat_publish:") {
		t.Error("a message was published for a holder that has not asked")
	}
	cancel()
	_ = help.AwaitError(t, next)
	locktest.InLine(t, s, "a", 0)
	wanted := l.Wanted()
	wished(t, s, "a", "1")
	wantOpen(t, wanted, "after the waiter gave up")
	locktest.Release(t, l)

	held := make([]*redlatch.Lease, 2)
	for i := range held {
		held[i] = permit(t, near.Semaphore("s", 2))
		held[i].Wanted()
		wished(t, s, "s", []string{"1", "2"}[i])
	}
	third := help.GoAcquire(func() (*redlatch.Lease, error) { return far.Semaphore("s", 2).Acquire(t.Context(), 1) })
	for _, l := range held {
		help.Receive(t, l.Wanted(), "the word of a waiter")
		locktest.Release(t, l)
	}
	locktest.Release(t, help.Await(t, third))
}

// permit takes one permit.
func permit(t *testing.T, s *redlatch.Semaphore) *redlatch.Lease {
	t.Helper()
	return check.Value(s.Acquire(locktest.Within(t, locktest.Patience), 1)).OK(t)
}

// TestWantedOfALockWithoutAnExpiry: an operator has taken the expiry from a lock. That its holder asks
// to be told of waiters changes nothing about it.
func TestWantedOfALockWithoutAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	l := locktest.Lock(t, c.Mutex("a"))
	s.Do("PERSIST", locktest.StateKey("a"))
	l.Wanted()
	locktest.Eventually(t, "the wish is noted", func() bool { return s.Do("EXISTS", help.ClientsKey("a")) == "1" })
	check.Equal(t, s.Do("GET", locktest.StateKey("a")), l.Owner(), "the lock has the owner")
	locktest.Release(t, l)
}
