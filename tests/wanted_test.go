package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// wished waits until Redis knows that so many holders of a name want to be told.
func wished(t *testing.T, s *redistest.Server, name string, n string) {
	t.Helper()
	eventually(t, "holders want to be told", func() bool { return s.Do("ZCOUNT", clientsKey(name), "-inf", "(0") == n })
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
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		near, far := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
		name := of(near, kind).Name
		l := enter(t, of(near, kind))
		wanted := l.Wanted()
		wished(t, s, name, "1")
		wantOpen(t, wanted, "before any waiter has come")
		if s.Do("PTTL", clientsKey(name)) == "-1" {
			t.Error("the wish of a holder stays for ever")
		}
		next := goEnter(t.Context(), of(far, kind))
		receive(t, wanted, "the word of a waiter")
		wished(t, s, name, "0")
		if l.Wanted() != wanted || !l.Held() {
			t.Errorf("held %t after the word of a waiter, want so, and the same channel again", l.Held())
		}
		token := l.Token()
		release(t, l)
		wantSuccessor(t, s, next, token)
	})
}

// TestWantedByOneThatWaits: a waiter that was there before the holder asked counts.
func TestWantedByOneThatWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := lock(t, open(t, s.URL(), sluggish()).Mutex("a"))
	next := goLock(t.Context(), open(t, s.URL(), sluggish()).Mutex("a"))
	queued(t, s, "a", 1)
	receive(t, l.Wanted(), "the word of a waiter")
	release(t, l)
	release(t, await(t, next))
}

// TestWantedByItsOwnProcess: goroutines of the same client count, also those that send nothing to
// Redis, whether they come before or after the holder asks.
func TestWantedByItsOwnProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	m := open(t, s.URL(), o).Mutex("a")
	first := lock(t, m)
	wanted := first.Wanted()
	wished(t, s, "a", "1")
	results := goLocks(t, t.Context(), m, seen, 2)
	receive(t, wanted, "the word of a goroutine")
	release(t, first)
	second := await(t, results[0])
	receive(t, second.Wanted(), "the word of a goroutine that waited before")
	release(t, second)
	third := await(t, results[1])
	wanted = third.Wanted()
	eventually(t, "the wish of the last is there", func() bool {
		return strings.Contains(s.Do("ZRANGE", clientsKey("a"), "0", "-1"), third.Owner())
	})
	wantOpen(t, wanted, "when no other is left")
	release(t, third)
}

// TestWantedWithoutMessages: a holder that cannot hear is told at its next extend.
func TestWantedWithoutMessages(t *testing.T) {
	t.Parallel()
	r := newCourse(t, 1)
	o := losing()
	o.RequestTimeout = patience
	c, links := r.client(t, o)
	links[0].mute(true)
	l := lock(t, c.Mutex("a"))
	wanted := l.Wanted()
	wished(t, r.nodes[0], "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next := goLock(ctx, r.far.Mutex("a"))
	queued(t, r.nodes[0], "a", 1)
	wantOpen(t, wanted, "though it cannot hear so")
	if err := l.Extend(t.Context()); err != nil {
		t.Errorf("Extend = %v", err)
	}
	receive(t, wanted, "the word of a waiter")
	release(t, l)
	release(t, await(t, next))
}

// TestWantedMeetsMishaps: whatever happens to the requests of a wish, the holder is told in the
// end, and of no waiter if there is none.
func TestWantedMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, readOnly} {
		for _, h := range []hits{first, every} {
			rs.run(1, func(r *trial) {
				l, err := r.near.Mutex(r.name).TryLock(within(r, patience))
				if err != nil {
					r.Fatalf("TryLock = %v, want a lease", err)
				}
				r.harm(m, h)
				wanted := l.Wanted()
				eventually(r, "the request of the wish", seldom(func() bool { return r.links[0].requests() > 0 }))
				r.heal()
				select {
				case <-wanted:
					r.Errorf("a holder that no other waits for is told so")
				default:
				}
				next := goLock(within(r, patience), r.far.Mutex(r.name))
				eventually(r, "the waiter is in line", seldom(func() bool { return r.remains(queueKey) > 0 }))
				// A request has little time here, and a machine that is busy may need more.
				eventually(r, "an extend", func() bool { return l.Extend(within(r, patience)) == nil })
				receive(r, wanted, "the word of a waiter")
				eventually(r, "a release", func() bool { return l.Release(t.Context()) == nil })
				last := await(r, next)
				eventually(r, "a release by the next", func() bool { return last.Release(t.Context()) == nil })
				r.wantNothingLeft()
			}, m.name, h.name)
		}
	}
	rs.wait()
}

// TestWantedIsForThoseThatAsk: where no holder has asked, a waiter publishes nothing. A holder is
// not told of a waiter of before its time. Each holder of a semaphore is told.
func TestWantedIsForThoseThatAsk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	near, far := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	l := lock(t, near.Mutex("a"))
	ctx, cancel := context.WithCancel(t.Context())
	next := goLock(ctx, far.Mutex("a"))
	queued(t, s, "a", 1)
	if strings.Contains(s.Do("INFO", "commandstats"), "cmdstat_publish:") {
		t.Error("a message was published for a holder that has not asked")
	}
	cancel()
	_ = awaitError(t, next)
	queued(t, s, "a", 0)
	wanted := l.Wanted()
	wished(t, s, "a", "1")
	wantOpen(t, wanted, "after the waiter gave up")
	release(t, l)

	held := make([]*redlatch.Lease, 2)
	for i := range held {
		held[i] = permit(t, near.Semaphore("s", 2))
		held[i].Wanted()
		wished(t, s, "s", []string{"1", "2"}[i])
	}
	third := goAcquire(func() (*redlatch.Lease, error) { return far.Semaphore("s", 2).Acquire(t.Context(), 1) })
	for _, l := range held {
		receive(t, l.Wanted(), "the word of a waiter")
		release(t, l)
	}
	release(t, await(t, third))
}

// permit takes one permit.
func permit(t *testing.T, s *redlatch.Semaphore) *redlatch.Lease {
	t.Helper()
	l, err := s.Acquire(within(t, patience), 1)
	if err != nil {
		t.Fatalf("Acquire = %v, want a permit", err)
	}
	return l
}

// TestWantedOfALockWithoutAnExpiry: an operator has taken the expiry from a lock. That its holder asks
// to be told of waiters changes nothing about it.
func TestWantedOfALockWithoutAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	l := lock(t, c.Mutex("a"))
	s.Do("PERSIST", stateKey("a"))
	l.Wanted()
	eventually(t, "the wish is noted", func() bool { return s.Do("EXISTS", clientsKey("a")) == "1" })
	if got := s.Do("GET", stateKey("a")); got != l.Owner() {
		t.Errorf("the lock has the owner %q, want %q", got, l.Owner())
	}
	release(t, l)
}
