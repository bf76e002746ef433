package operations

import (
	"errors"
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

// takeByForce takes a mutex from its holder.
func takeByForce(t *testing.T, m *redlatch.Mutex, o redlatch.ForceOptions) *redlatch.Lease {
	t.Helper()
	return check.Value(m.TakeByForce(locktest.Within(t, locktest.Patience), o)).OK(t)
}

// TestTakeByForceIsOneStep: the mutex goes from its holder to the caller, past all that wait; the
// holder is told by which process and why; the token is larger; and the line goes on afterwards.
func TestTakeByForceIsOneStep(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, admin := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
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
		t.Errorf("the holder is told of %v by %v, want LossForced for the reason given", lost.Reason, lost.Force)
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

// TestTakeByForceOfWhatIsFreeOrShut needs no holder: it passes the line, and opens a mutex that its
// last holder left shut.
func TestTakeByForceOfWhatIsFreeOrShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	locktest.Release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	locktest.Release(t, locktest.Lock(t, c.Mutex("a").With(redlatch.LockOptions{MinHold: help.Lasting})))
	check.Error(t, "TryLock of what is shut", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrTaken)
	locktest.Release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	s.Do("SET", locktest.StateKey("a"), "of another library", "PX", "3600000")
	locktest.Release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	help.WantNothingLeft(t, s, "a")
}

// TestTakeByForceOfOnesOwn: the lease of a client that listens to nothing is told at once.
func TestTakeByForceOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), help.InOrder(help.Sluggish())).Mutex("a")
	l := locktest.Lock(t, m)
	taken := takeByForce(t, m, redlatch.ForceOptions{})
	help.Receive(t, l.Context().Done(), "the word that it was taken")
	check.That(t, taken.Held(), "the lease that was taken by force is lost: %v", taken.Err())
	locktest.Release(t, taken)
}

// TestTakeByForceIsRefused: another owner is not robbed, nor is another kind, nor a mutex over a
// quorum.
func TestTakeByForceIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	l := locktest.Lock(t, c.Mutex("a"))
	ctx := locktest.Within(t, locktest.Patience)
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Owner: "rl-X-1"}); !errors.Is(err, redlatch.ErrNotHeld) || !l.Held() {
		t.Errorf("TakeByForce from another owner = %v, want ErrNotHeld", err)
	}
	if _, err := c.Mutex("a").TakeByForce(l.Context(), redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrDeadlock) {
		t.Errorf("TakeByForce under its own lease = %v, want ErrDeadlock", err)
	}
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Reason: "\n"}); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("TakeByForce for no reason that can be = %v, want ErrInvalid", err)
	}
	locktest.Release(t, l)
	term := help.Campaign(t, c.Election("a"), "")
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrWrongKind) {
		t.Errorf("TakeByForce of an election = %v, want ErrWrongKind", err)
	}
	locktest.Release(t, term)
	far := help.OpenQuorum(t, help.StartNodes(t, 3), help.Sluggish())
	if _, err := far.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TakeByForce over a quorum = %v, want ErrUnsupported", err)
	}
}

// TestTakeByForceMeetsMishaps: whatever happens to its requests, two never hold at the end, no lock
// stays behind, and a holder that was not named keeps its lock.
func TestTakeByForceMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := trial.NewCourse(t, 1).At(t)
	mutex := trial.Subjects()[0]
	fourth := wire.Hits{Name: "fourth", Hit: func(n int) bool { return n == 3 }} // the first that takes; before it are three that look
	fromFourth := wire.Hits{Name: "all from the fourth", Hit: func(n int) bool { return n >= 3 }}
	for _, m := range []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.Straggles, wire.ReadOnly, wire.DiskFull} {
		for _, h := range []wire.Hits{wire.First, wire.Second, wire.Third, fourth, fromFourth, wire.Every} {
			for _, named := range []bool{true, false} {
				rs.Run(1, func(r *trial.Trial) {
					l, err := r.Far.Mutex(r.Name).TryLock(locktest.Within(r, locktest.Patience))
					if err != nil {
						r.Fatalf("TryLock = %v, want a lease", err)
					}
					r.Token = l.Token()
					var o redlatch.ForceOptions
					if named {
						o.Owner = l.Owner()
					}
					r.Harm(m, h)
					taken, err := r.Near.Mutex(r.Name).TakeByForce(locktest.Within(r, locktest.Patience), o)
					r.Heal()
					r.WantUnknown("TakeByForce", err, m)
					if err == nil {
						got := trial.Claim{Leases: []*redlatch.Lease{taken}, Release: taken.Release}
						r.WantNewer(got)
						r.WantAlone(mutex, got)
						help.InsistRelease(r, taken)
					}
					if err := l.Release(t.Context()); err != nil && !errors.Is(err, redlatch.ErrNotHeld) {
						r.Errorf("Release by the first holder = %v, want nil or ErrNotHeld", err)
					}
					r.WantFree(mutex, false)
				}, m.Name, h.Name, strings.Repeat("named", map[bool]int{true: 1}[named]))
			}
		}
	}
	rs.Wait()
}
