package tests

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// takeByForce takes a mutex from its holder.
func takeByForce(t *testing.T, m *redlatch.Mutex, o redlatch.ForceOptions) *redlatch.Lease {
	t.Helper()
	l, err := m.TakeByForce(within(t, patience), o)
	if err != nil {
		t.Fatalf("TakeByForce = %v, want a lease", err)
	}
	return l
}

// TestTakeByForceIsOneStep: the mutex goes from its holder to the caller, past all that wait; the
// holder is told by which process and why; the token is larger; and the line goes on afterwards.
func TestTakeByForceIsOneStep(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, admin := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	hearing(t, s, holder)
	l := lock(t, holder.Mutex("a"))
	token := l.Token()
	next := goLock(t.Context(), open(t, s.URL(), sluggish()).Mutex("a"))
	queued(t, s, "a", 1)
	taken := takeByForce(t, admin.Mutex("a"), redlatch.ForceOptions{Owner: l.Owner(), Reason: "it hangs"})
	if got := s.Do("GET", stateKey("a")); got != taken.Owner() || taken.Token() <= token {
		t.Errorf("%s is inside with token %d after %d, want %s, and a larger one", got, taken.Token(), token, taken.Owner())
	}
	lost := wantLost(t, l)
	if lost.Reason != redlatch.LossForced || lost.Force == nil || lost.Force.Reason != "it hangs" {
		t.Errorf("the holder is told of %v by %v, want LossForced for the reason given", lost.Reason, lost.Force)
	}
	info, err := admin.Inspect(t.Context(), "a")
	if err != nil || info.Forced == nil || info.Forced.Owner != l.Owner() || len(info.Waiters) != 1 {
		t.Errorf("Inspect = %+v, %v, want the forced release and one waiter", info, err)
	}
	if s.Do("PTTL", forcedKey("a")) == "-1" {
		t.Error("the note of the force stays for ever")
	}
	release(t, taken)
	last := await(t, next)
	if last.Token() <= taken.Token() && taken.Token() != 0 {
		t.Errorf("token %d follows %d, want more", last.Token(), taken.Token())
	}
	release(t, last)
	wantNothingLeft(t, s, "a")
}

// TestTakeByForceOfWhatIsFreeOrShut needs no holder: it passes the line, and opens a mutex that its
// last holder left shut.
func TestTakeByForceOfWhatIsFreeOrShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	release(t, lock(t, c.Mutex("a").With(redlatch.LockOptions{MinHold: lasting})))
	if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock of what is shut = %v, want ErrTaken", err)
	}
	release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	s.Do("SET", stateKey("a"), "of another library", "PX", "3600000")
	release(t, takeByForce(t, c.Mutex("a"), redlatch.ForceOptions{}))
	wantNothingLeft(t, s, "a")
}

// TestTakeByForceOfOnesOwn: the lease of a client that listens to nothing is told at once.
func TestTakeByForceOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), inOrder(sluggish())).Mutex("a")
	l := lock(t, m)
	taken := takeByForce(t, m, redlatch.ForceOptions{})
	receive(t, l.Context().Done(), "the word that it was taken")
	if !taken.Held() {
		t.Errorf("the lease that was taken by force is lost: %v", taken.Err())
	}
	release(t, taken)
}

// TestTakeByForceIsRefused: another owner is not robbed, nor is another kind, nor a mutex over a
// quorum.
func TestTakeByForceIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	l := lock(t, c.Mutex("a"))
	ctx := within(t, patience)
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Owner: "rl-X-1"}); !errors.Is(err, redlatch.ErrNotHeld) || !l.Held() {
		t.Errorf("TakeByForce from another owner = %v, want ErrNotHeld", err)
	}
	if _, err := c.Mutex("a").TakeByForce(l.Context(), redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrDeadlock) {
		t.Errorf("TakeByForce under its own lease = %v, want ErrDeadlock", err)
	}
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{Reason: "\n"}); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("TakeByForce for no reason that can be = %v, want ErrInvalid", err)
	}
	release(t, l)
	term := campaign(t, c.Election("a"), "")
	if _, err := c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrWrongKind) {
		t.Errorf("TakeByForce of an election = %v, want ErrWrongKind", err)
	}
	release(t, term)
	far := openQuorum(t, startNodes(t, 3), sluggish())
	if _, err := far.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TakeByForce over a quorum = %v, want ErrUnsupported", err)
	}
}

// TestTakeByForceMeetsMishaps: whatever happens to its requests, two never hold at the end, no lock
// stays behind, and a holder that was not named keeps its lock.
func TestTakeByForceMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	mutex := subjects()[0]
	fourth := hits{"fourth", func(n int) bool { return n == 3 }} // the first that takes; before it are three that look
	fromFourth := hits{"all from the fourth", func(n int) bool { return n >= 3 }}
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly, diskFull} {
		for _, h := range []hits{first, second, third, fourth, fromFourth, every} {
			for _, named := range []bool{true, false} {
				rs.run(1, func(r *trial) {
					l, err := r.far.Mutex(r.name).TryLock(within(r, patience))
					if err != nil {
						r.Fatalf("TryLock = %v, want a lease", err)
					}
					r.token = l.Token()
					var o redlatch.ForceOptions
					if named {
						o.Owner = l.Owner()
					}
					r.harm(m, h)
					taken, err := r.near.Mutex(r.name).TakeByForce(within(r, patience), o)
					r.heal()
					r.wantUnknown("TakeByForce", err, m)
					if err == nil {
						got := claim{[]*redlatch.Lease{taken}, taken.Release}
						r.wantNewer(got)
						r.wantAlone(mutex, got)
						insistRelease(r, taken)
					}
					if err := l.Release(t.Context()); err != nil && !errors.Is(err, redlatch.ErrNotHeld) {
						r.Errorf("Release by the first holder = %v, want nil or ErrNotHeld", err)
					}
					r.wantFree(mutex, false)
				}, m.name, h.name, strings.Repeat("named", map[bool]int{true: 1}[named]))
			}
		}
	}
	rs.wait()
}
