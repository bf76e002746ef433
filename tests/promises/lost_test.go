package promises

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestEveryKindLostReplies: a request whose reply was lost means one when it is sent again,
// whatever it asks. Redisson tells real owners "not locked by current thread" (redisson#6651).
func TestEveryKindLostReplies(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		p := wire.StartProxy(t, s)
		c := locktest.Open(t, p.URL(), help.Sluggish())
		l := help.LockOf(c, kind)
		warm := help.Enter(t, l)
		check.OK(t, "Extend", warm.Extend(t.Context()))
		locktest.Release(t, warm)

		p.Swallow(wire.Replies)
		result := help.GoEnter(t.Context(), l)
		locktest.Eventually(t, "it is inside", func() bool { return s.Do("EXISTS", locktest.StateKey(l.Name)) == "1" })
		p.Heal()
		lease := help.Await(t, result)
		info, err := c.Inspect(t.Context(), l.Name)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != lease.Token() {
			t.Errorf("Inspect = %+v, %v, want one holder with token %d", info.Holders, err, lease.Token())
		}
		other := help.LockOf(locktest.Open(t, s.URL(), help.Sluggish()), kind)
		token := lease.Token()
		next := help.GoEnter(t.Context(), other)
		locktest.InLine(t, s, l.Name, 1)
		if err := lease.Extend(t.Context()); err != nil { // the connection is up again: else the release would not arrive at all
			t.Fatalf("Extend = %v", err)
		}

		p.Swallow(wire.Replies)
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		successor := help.Await(t, next)
		p.Heal()
		check.Nil(t, "Release", help.Receive(t, released, "the release"))
		check.That(t, successor.Token() > token && successor.Held(), "the successor has token %d after %d, held %t", successor.Token(), token, successor.Held())
		locktest.Release(t, successor)
		help.WantNothingLeft(t, s, l.Name)
	})
}

// TestEveryKindSubscriptionIsLost: a grant that is published while the waiter's subscription is
// down is found by asking.
func TestEveryKindSubscriptionIsLost(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
		held := help.Enter(t, help.LockOf(one, kind))
		token := held.Token()
		next := help.GoEnter(t.Context(), help.LockOf(other, kind))
		locktest.InLine(t, s, held.Name(), 1)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		locktest.Release(t, held)
		help.WantSuccessor(t, s, next, token)
	})
}

// lives is each phase by itself, and acquisitions that had to be resent with every way in which
// their release can fail. In make test it is the first three.
func lives() []trial.Phases {
	all := []trial.Phases{
		{Acquire: wire.First, Extend: wire.None, Release: wire.None},
		{Acquire: wire.None, Extend: wire.First, Release: wire.None},
		{Acquire: wire.None, Extend: wire.Every, Release: wire.Every},
		{Acquire: wire.Every, Extend: wire.None, Release: wire.None},
		{Acquire: wire.Second, Extend: wire.None, Release: wire.None},
		{Acquire: wire.FirstTwo, Extend: wire.None, Release: wire.Every},
	}
	if testing.Short() {
		return all[:3]
	}
	for _, acquire := range []wire.Hits{wire.None, wire.First} {
		for _, release := range []wire.Hits{wire.First, wire.Some, wire.Every} {
			all = append(all, trial.Phases{Acquire: acquire, Extend: wire.None, Release: release})
		}
	}
	return all
}

// TestLostRequests has each request of each operation of each kind meet each mishap. Afterwards the
// lock must be free, at once or when the client has cleaned up, long before anything expires: with
// tokens in order, never two inside, errors that claim nothing that is unknown, and nothing left
// behind.
func TestLostRequests(t *testing.T) {
	trial.EachSubject(t, func(rs *trial.Trials, p trial.Subject) {
		rs.Run(func(r *trial.Trial) {
			r.Life(p, wire.Unsent, trial.Phases{Acquire: wire.None, Extend: wire.None, Release: wire.None}, false)
		}, "no mishap")
		for _, m := range trial.Mishaps() {
			for _, at := range lives() {
				if m.Outlasts(at.Acquire) {
					continue
				}
				rs.Run(func(r *trial.Trial) { r.Life(p, m, at, false) }, m.Name, at)
			}
			rs.Run(func(r *trial.Trial) {
				r.Life(p, m, trial.Phases{Acquire: wire.First, Extend: wire.None, Release: wire.Every}, true)
			}, m.Name, "released again")
		}
	})
}

// TestLostReplyToTryLockIsAdopted: go-redis#2985 and redis/rueidis's rueidislock report "held by
// others" for their own orphan, and Redisson counts a resent acquire twice (redisson#7367).
func TestLostReplyToTryLockIsAdopted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	o, seen := help.Watched(help.Sluggish())
	c := wire.Behind(t, p, o)
	grants := len(seen.Of(redlatch.EventGranted, "a"))

	p.Swallow(wire.Replies)
	result := help.GoTryLock(t.Context(), c.Mutex("a"))
	owner := help.AwaitHolder(t, s, "a")
	token := s.Do("GET", help.FenceKey("a"))
	p.Heal()

	l := help.Await(t, result)
	if l.Owner() != owner || s.Do("GET", locktest.StateKey("a")) != owner {
		t.Errorf("owner %s, and %s in Redis, want %s, as the first request left it", l.Owner(), s.Do("GET", locktest.StateKey("a")), owner)
	}
	if got := strconv.FormatInt(l.Token(), 10); got != token || s.Do("GET", help.FenceKey("a")) != token {
		t.Errorf("token %s, and %s in Redis, want %s, as the first request left it", got, s.Do("GET", help.FenceKey("a")), token)
	}
	check.Equal(t, len(seen.Of(redlatch.EventGranted, "a"))-grants, 1, "grants")
	help.WantSoundDeadline(t, s, l)
	locktest.Release(t, l)
	help.AwaitFree(t, s, "a")
}

// TestSilentConnectionOfAWaiter: the grant vanishes with the connection over which the waiter would
// hear it, and over which it would ask. It must have the lock when it has asked, at its next
// heartbeat, and before its lease is over.
func TestSilentConnectionOfAWaiter(t *testing.T) {
	t.Parallel()
	wire.EachWay(t, func(t *testing.T, openBehind func(*wire.Proxy, redlatch.Options) *redlatch.Client) {
		s := redistest.Start(t)
		n := wire.StartProxy(t, s)
		// A lease that is granted to a waiter lasts three heartbeats at first.
		o := redlatch.Options{Heartbeat: 3 * time.Second, Lock: redlatch.LockOptions{TTL: help.Lasting}}
		a, b := locktest.Open(t, s.URL(), o), openBehind(n, o)
		help.Hearing(t, s, b)
		help.WantHandOver(t, s, a, b, n.Forget)
	})
}

// TestFullServerKeepsWhatIsHeld: leases of all kinds but mutexes were lost when memory was short,
// though nothing new was asked for; permits and slots could not be given back. Here holders go on,
// release, and hand over to those who wait, who have been waiting for longer than they are believed alive; a
// new acquisition gets in, or is told why not.
func TestFullServerKeepsWhatIsHeld(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := help.InOrder(help.Unhurried())
		o.Heartbeat = time.Second // a waiter is believed alive for three: longer than a pause
		one, other := help.LockOf(locktest.Open(t, s.URL(), o), kind), help.LockOf(locktest.Open(t, s.URL(), o), kind)
		help.UseOnce(t, one)
		help.UseOnce(t, kindtest.Locks(locktest.Open(t, s.URL(), o), "new ")[kind])
		// What is refused is resent until its time is over, so this client gives up soon.
		hasty := locktest.Open(t, s.URL(), help.InOrder(help.Brisk(help.Lasting)))
		held := help.Enter(t, one)
		token := held.Token()
		next := help.GoEnter(t.Context(), other)
		locktest.InLine(t, s, one.Name, 1)
		last := help.GoEnter(t.Context(), one)
		locktest.InLine(t, s, one.Name, 2)
		began := time.Now()

		mend := help.FillMemory(t, s)
		new1, new2 := kindtest.Locks(hasty, "new 1 ")[kind], kindtest.Locks(hasty, "new 2 ")[kind]
		tried, acquired := help.GoAcquire(func() (*redlatch.Lease, error) { return new1.Try(t.Context()) }), help.GoEnter(t.Context(), new2)
		refused := help.GoAcquire(func() (*redlatch.Lease, error) { return help.LockOf(hasty, kind).Try(t.Context()) })
		for _, result := range []<-chan help.Outcome{tried, acquired} {
			got := help.Receive(t, result, "an acquisition")
			// Redis refuses a script for what it writes first, and that may have been allowed.
			if got.Err == nil {
				help.InsistRelease(t, got.Lease)
			} else {
				help.WantNotNow(t, "acquire", s, "OOM", got.Err)
			}
		}
		if err := help.AwaitError(t, refused); !errors.Is(err, redlatch.ErrTaken) {
			help.WantNotNow(t, "try of what is held", s, "OOM", err)
		}
		for time.Since(began) < 7*o.Heartbeat/2 { // longer than they are believed alive
			retry.Sleep(t.Context(), o.Heartbeat/2)
			if err := held.Extend(t.Context()); err != nil {
				t.Errorf("Extend = %v, want nil: it needs no memory", err)
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil: it needs no memory", err)
		}
		for _, waiter := range []<-chan help.Outcome{next, last} {
			lease := help.Await(t, waiter)
			check.That(t, lease.Token() > token, "token %d after %d, want more", lease.Token(), token)
			token = lease.Token()
			check.Nil(t, "Extend after a hand-over", lease.Extend(t.Context()))
			check.Nil(t, "Release after a hand-over", lease.Release(t.Context()))
		}
		help.WantNothingLeft(t, s, one.Name)
		mend()
		for _, l := range []kindtest.Lock{new1, new2} {
			help.InsistRelease(t, help.InsistLock(t, l.Acquire))
			help.WantNothingLeft(t, s, l.Name)
		}
	})
}

// TestEveryKindServerForgets: the server loses everything while one holds and others wait, in its process
// and in another. All are served, each with a larger token, and the holder is told. (rueidislock looped without end on the
// invalidation that a FLUSHALL sends; Redisson's waiters are not woken when the key is deleted by hand,
// redisson#3730, and it drops a lost lock from its list and tells no holder, redisson#4698.)
func TestEveryKindServerForgets(t *testing.T) {
	forget := map[string]func(*redistest.Server){
		"flush":              func(s *redistest.Server) { s.Do("FLUSHALL") },
		"kill and a restart": func(s *redistest.Server) { s.Restart() },
	}
	t.Parallel()
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
				// The holder is told at its next extend, after a third of the TTL: a pause of the
				// machine does not cost it the lease. The waiters find out at their heartbeats.
				o, seen := help.Watched(help.Attentive())
				o.Lock.TTL = 9 * time.Second
				one, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Attentive())
				held := help.Enter(t, help.LockOf(one, kind))
				token, waits := held.Token(), make(chan help.Outcome, 3)
				for i, c := range []*redlatch.Client{other, one, one} {
					go func() { waits <- <-help.GoEnter(t.Context(), help.LockOf(c, kind)) }()
					if c == other {
						locktest.InLine(t, s, held.Name(), 1)
					} else {
						seen.Await(t, redlatch.EventWait, held.Name(), i-1)
					}
				}
				forget(s)
				for range 3 {
					l := help.Await(t, waits)
					check.That(t, l.Token() > token, "token %d after %d, want more", l.Token(), token)
					token = l.Token()
					locktest.Release(t, l)
				}
				help.WantLost(t, held)
				help.WantNothingLeft(t, s, held.Name())
			})
		})
	}
}

// TestServerHangsForLongerThanTheTTL: with rueidislock's late cancel two held for 2.5 s.
func TestServerHangsForLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := locktest.Lock(t, locktest.Open(t, s.URL(), help.Brisk(time.Second)).Mutex("a"))
	other := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	s.Pause()
	help.WantLostAtDeadline(t, l)
	s.Resume()
	next := locktest.Lock(t, other.Mutex("a"))
	locktest.Release(t, next)
}
