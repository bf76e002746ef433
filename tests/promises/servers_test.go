package promises

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
			help.Rest(t.Context(), o.Heartbeat/2)
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
		help.AwaitNothingLeft(t, s, one.Name)
		mend()
		for _, l := range []kindtest.Lock{new1, new2} {
			help.InsistRelease(t, help.InsistLock(t, l.Acquire))
			help.AwaitNothingLeft(t, s, l.Name)
		}
	})
}

// TestEveryKindServerForgets: the server loses everything while one holds and another waits. The
// waiter gets in with a larger token, and the holder is told.
func TestEveryKindServerForgets(t *testing.T) {
	forget := map[string]func(*redistest.Server){
		"flush":   func(s *redistest.Server) { s.Do("FLUSHALL") },
		"restart": func(s *redistest.Server) { s.Restart() },
	}
	t.Parallel()
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
				// The holder is told at its next extend, after a third of the TTL: a pause of the
				// machine does not cost it the lease. The waiter finds out at its heartbeat.
				one, other := locktest.Open(t, s.URL(), help.Brisk(9*time.Second)), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
				held := help.Enter(t, help.LockOf(one, kind))
				token := held.Token()
				next := help.GoEnter(t.Context(), help.LockOf(other, kind))
				locktest.InLine(t, s, held.Name(), 1)
				forget(s)
				help.WantSuccessor(t, s, next, token)
				help.WantLost(t, held)
			})
		})
	}
}

// TestServerKilledAndRestartedEmpty: Redisson drops a lost lock from its list and tells nobody
// (redisson#4698).
func TestServerKilledAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	help.WantTakeover(t, func(s *redistest.Server) {
		s.Kill()
		s.Restart()
	})
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
