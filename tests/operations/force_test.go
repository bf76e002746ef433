package operations

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// wantForced checks that a lease was taken by an operator, for this reason, and returns its owner.
func wantForced(t *testing.T, err error, reason string) (owner string) {
	t.Helper()
	lost := (*redlatch.LostError)(nil)
	if !errors.As(err, &lost) || lost.Reason != redlatch.LossForced || lost.Force == nil {
		t.Fatalf("the lease ends with %v, want a LostError that tells by whom it was taken", err)
	}
	if f := lost.Force; f.By.PID != os.Getpid() || f.By.Program != "operator" || f.Reason != reason || f.At.IsZero() || f.Owner != lost.Owner {
		t.Errorf("the lease was taken %+v, want this process, a time, and the reason %q", f, reason)
	}
	if text := err.Error(); !strings.Contains(text, "taken by force by operator (pid ") || !strings.Contains(text, reason) {
		t.Errorf("the error says %q, want by whom and why", text)
	}
	return lost.Owner
}

// TestQuorumForcedLossTellsByWhom: a holder that listens is told by the message. One that does not
// is told by no node that counts, and does not guess.
func TestQuorumForcedLossTellsByWhom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		open := func(program string) *redlatch.Client {
			o := help.Sluggish()
			o.Program = program
			return wire.WrapQuorum(t, conns, o)
		}
		holder, admin := open("holder"), open("operator")
		force := func(l *redlatch.Lease) {
			t.Helper()
			check.OK(t, "ForceRelease", check.ErrorOf(admin.ForceRelease(t.Context(), l.Name(), redlatch.ForceOptions{Reason: "why"})))
			if info := look(t, admin, l.Name()); info.Forced == nil || info.Forced.Owner != l.Owner() {
				t.Errorf("Inspect tells of %+v, want the owner %s", info.Forced, l.Owner())
			}
		}
		deaf := locktest.Lock(t, holder.Mutex("deaf"))
		force(deaf)
		_ = deaf.Extend(t.Context())
		lost := help.WantLost(t, deaf)
		check.That(t, lost.Reason == redlatch.LossGone && lost.Force == nil, "a holder that does not listen ends with %v, want the reason gone", lost)
		before := locktest.Lock(t, admin.Mutex("heard"))
		next := help.GoLock(t.Context(), holder.Mutex("heard"))
		time.Sleep(time.Second) // until the holder listens
		locktest.Release(t, before)
		l := help.Await(t, next)
		force(l)
		help.Receive(t, l.Context().Done(), "the lease")
		wantForced(t, l.Err(), "why")
	})
}

// takeByForce takes a mutex from its holder.
func takeByForce(t *testing.T, m *redlatch.Mutex, o redlatch.ForceOptions) *redlatch.Lease {
	t.Helper()
	return check.Value(m.TakeByForce(locktest.Within(t, locktest.Patience), o)).OK(t)
}

// TestTakeByForceIsOneStep: the mutex goes from its holder to the caller, past all that wait; the
// holder is told by which process and why; the token is larger; and the line goes on afterwards.
func TestTakeByForceIsOneStep(t *testing.T) {
	t.Parallel()
	s, holder, admin := locktest.StartTwo(t, help.Sluggish())
	help.Hearing(t, s, holder)
	l := locktest.Lock(t, holder.Mutex("a"))
	token := l.Token()
	next := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	taken := takeByForce(t, admin.Mutex("a"), redlatch.ForceOptions{Owner: l.Owner(), Reason: "it hangs"})
	if got := s.Do("GET", locktest.StateKey("a")); got != taken.Owner() || taken.Token() <= token {
		t.Errorf("%s is inside with token %d after %d, want %s, and a larger one", got, taken.Token(), token, taken.Owner())
	}
	lost := help.WantLost(t, l)
	if lost.Reason != redlatch.LossForced || lost.Force == nil || lost.Force.Reason != "it hangs" {
		t.Errorf("the holder is told %v, want LossForced for the reason given", lost)
	}
	info, err := admin.Inspect(t.Context(), "a")
	if err != nil || info.Forced == nil || info.Forced.Owner != l.Owner() || len(info.Waiters) != 1 {
		t.Errorf("Inspect = %+v, %v, want the forced release and one waiter", info, err)
	}
	check.That(t, s.Do("PTTL", help.ForcedKey("a")) != "-1", "the note of the force stays for ever")
	locktest.Release(t, taken)
	last := help.Await(t, next)
	if last.Token() <= taken.Token() && taken.Token() != 0 {
		t.Errorf("token %d follows %d, want more", last.Token(), taken.Token())
	}
	locktest.Release(t, last)
	help.WantNothingLeft(t, s, "a")
}

// TestForceReleaseOfALockOfRedisson: a hash with one owner is taken as a text is. One that is no lock
// stays as it is.
func TestForceReleaseOfALockOfRedisson(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, key := s.Client(t, redlatch.Options{}), locktest.StateKey("a")
		o := redlatch.ForceOptions{Owner: "uuid:1"}
		s.Do("HSET", key, o.Owner, "2")
		s.Do("PEXPIRE", key, "3600000")
		waits := help.GoAcquire(func() (*redlatch.Lease, error) { return c.ReentrantMutex("a").Lock(t.Context()) })
		locktest.InLine(t, s, "a", 1)
		check.Nil(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "a", o)))
		locktest.Release(t, help.Await(t, waits))
		help.WantNothingLeft(t, s, "a")
		s.Do("HSET", key, o.Owner, "2")
		check.Error(t, "ForceRelease of a hash without an expiry", check.ErrorOf(c.ForceRelease(t.Context(), "a", o)), redlatch.ErrNotHeld)
		check.Equal(t, s.Do("HGET", key, o.Owner), "2", "what is in the hash")
	})
}

// TestTakeByForceIsRefused: another owner is not robbed, nor is another kind.
func TestTakeByForceIsRefused(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, help.Sluggish())
	l := locktest.Lock(t, c.Mutex("a"))
	ctx := locktest.Within(t, locktest.Patience)
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Owner: "rl-X-1"}); !errors.Is(err, redlatch.ErrNotHeld) || !l.Held() {
		t.Errorf("TakeByForce from another owner = %v, want ErrNotHeld", err)
	}
	check.Error(t, "TakeByForce under its own lease", check.ErrorOf(c.Mutex("a").TakeByForce(l.Context(), redlatch.ForceOptions{})), redlatch.ErrDeadlock)
	check.Error(t, "TakeByForce for no reason that can be", check.ErrorOf(c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Reason: "\n"})), redlatch.ErrInvalid)
	locktest.Release(t, l)
	check.OK(t, "TrySetCount", check.ErrorOf(c.CountDownLatch("countdown").TrySetCount(ctx, 1, 0)))
	refused := func(name string) {
		check.Error(t, "TakeByForce of a "+name, check.ErrorOf(c.Mutex(name).TakeByForce(ctx, redlatch.ForceOptions{})), redlatch.ErrWrongKind)
	}
	refused("countdown")
	check.Error(t, "Available of a countdown", check.ErrorOf(c.Semaphore("countdown", 3).Available(ctx)), redlatch.ErrWrongKind)
	help.WantCount(t, c.CountDownLatch("countdown"), 1)
	text := help.DetachRun(t, trial.Hourly(c, "job"))
	refused("job")
	locktest.Release(t, help.Adopt(t, c, text))
	refused("job") // in its window
	for _, other := range kindtest.Locks(c, "")[1:] {
		l := check.Value(other.Acquire(ctx)).OK(t)
		refused(other.Name)
		check.Nil(t, "Extend of a "+other.Name, l.Extend(ctx))
		locktest.Release(t, l)
	}
}

// TestNameOfWhichOnlyTheDeadWait: the holder of a lock crashes, and so do all that wait. Whichever call
// looks at the name, it is free for a lock of another kind.
func TestNameOfWhichOnlyTheDeadWait(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, dying := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		check.Value(dying.RWMutex("a").TryLock(t.Context())).OK(t)
		help.GoAcquire(func() (*redlatch.Lease, error) { return dying.RWMutex("a").RLock(t.Context()) })
		locktest.InLine(t, s, "a", 1)
		looks := []struct {
			name string
			look func() error
			want error
		}{
			{"Leader", func() error { return check.ErrorOf(c.Election("a").Leader(t.Context())) }, redlatch.ErrNotHeld},
			{"Available", func() error { return check.ErrorOf(c.Semaphore("a", 1).Available(t.Context())) }, nil},
			{"TakeByForce", func() error { return check.ErrorOf(c.Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})) }, nil},
		}
		for _, l := range looks {
			check.Error(t, l.name+" while they live", l.look(), redlatch.ErrWrongKind)
		}
		s.Cut(dying)
		time.Sleep(time.Minute)
		for _, l := range looks {
			err := l.look()
			check.That(t, errors.Is(err, l.want), "%s = %v, want %v", l.name, err, l.want)
		}
	})
}

// TestCloseWhileALockIsTakenByForce: each answer takes nearly as long as it may, and Close does not
// wait for one after the other.
func TestCloseWhileALockIsTakenByForce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		one, two := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		locktest.Lock(t, one.Mutex("a"))
		locktest.Release(t, locktest.Lock(t, two.Mutex("b"))) // or it has no record to delete
		s.Delay(900 * time.Millisecond)
		taken := make(chan error)
		go func() { taken <- check.ErrorOf(two.Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})) }()
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		check.Nil(t, "Close", two.Close())
		check.That(t, time.Since(start) <= 3*time.Second, "Close took %v, want RequestTimeout at most", time.Since(start))
		check.Error(t, "TakeByForce", <-taken, redlatch.ErrClosed)
		s.Delay(0)
	})
}
