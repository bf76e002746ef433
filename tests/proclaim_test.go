package tests

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// campaign makes the caller the leader of an election.
func campaign(t *testing.T, e *redlatch.Election, value string) *redlatch.Lease {
	t.Helper()
	term, err := e.Campaign(within(t, patience), value)
	if err != nil {
		t.Fatalf("Campaign = %v, want a term", err)
	}
	return term
}

// wantValue checks what all are told of the leader of an election.
func wantValue(t reporter, c *redlatch.Client, name, value string) {
	t.Helper()
	ctx := within(t, patience)
	if leader, err := c.Election(name).Leader(ctx); err != nil || leader.Value != value {
		t.Errorf("Leader = %+v, %v, want the value %q", leader, err, value)
	}
	if info, err := c.Inspect(ctx, name); err != nil || len(info.Holders) != 1 || info.Holders[0].Value != value {
		t.Errorf("Inspect = %+v, %v, want one holder with the value %q", info.Holders, err, value)
	}
}

// TestProclaimIsObserved: an observer is told of each value of a term, and the term stays the same;
// a new leader has its own value.
func TestProclaimIsObserved(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, far := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), sluggish())
	e := c.Election("e")
	term := campaign(t, e, "one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaders := far.Election("e").Observe(ctx)
	if l := receive(t, leaders, "the leader"); l.Value != "one" {
		t.Errorf("the first leader is %+v, want the value one", l)
	}
	deadline := term.Deadline()
	for _, value := range []string{"two", "", "three"} {
		if err := e.Proclaim(t.Context(), term, value); err != nil {
			t.Fatalf("Proclaim %q = %v, want nil", value, err)
		}
		if l := receive(t, leaders, "the value"); l.Value != value || l.Term != term.Token() {
			t.Errorf("the observer is told of %+v, want the value %q in term %d", l, value, term.Token())
		}
		wantValue(t, far, "e", value)
	}
	if !term.Deadline().Equal(deadline) {
		t.Errorf("the deadline moved from %v to %v by values alone", deadline, term.Deadline())
	}
	next := goAcquire(func() (*redlatch.Lease, error) { return far.Election("e").Campaign(t.Context(), "four") })
	queued(t, s, "e", 1)
	release(t, term)
	second := await(t, next)
	wantValue(t, c, "e", "four")
	release(t, second)
	wantNothingLeft(t, s, "e")
}

// TestProclaimIsRefused: a value is for the caller's own term, and for as long as it is held.
func TestProclaimIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	e := c.Election("e")
	term := campaign(t, e, "one")
	for value, lease := range map[string]*redlatch.Lease{"a\tb": term, "two": campaign(t, c.Election("other"), "")} {
		if err := e.Proclaim(t.Context(), lease, value); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("Proclaim %q = %v, want ErrInvalid", value, err)
		}
	}
	s.Do("DEL", stateKey("e"), insideKey("e"))
	far := open(t, s.URL(), brisk(lasting))
	next := campaign(t, far.Election("e"), "next")
	if err := e.Proclaim(t.Context(), term, "late"); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Proclaim in a term that is over = %v, want ErrNotHeld", err)
	}
	wantLost(t, term)
	wantValue(t, c, "e", "next")
	release(t, next)
	if err := far.Election("e").Proclaim(t.Context(), next, "over"); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Proclaim after Resign = %v, want ErrNotHeld", err)
	}
}

// TestProclaimLate: a request that reaches Redis after a later one does not bring its value back,
// nor does a request of a term that is over.
func TestProclaimLate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := openStraggling(t, s, brisk(lasting))
	e := c.Election("e")
	term := campaign(t, e, "one")
	late.keep("election proclaim")
	for _, value := range []string{"two", "three"} {
		if err := e.Proclaim(t.Context(), term, value); err != nil {
			t.Fatalf("Proclaim %q = %v, want nil", value, err)
		}
	}
	late.deliver(t)
	wantValue(t, c, "e", "three")
	release(t, term)
	late.deliver(t)
	wantNothingLeft(t, s, "e")
	term = campaign(t, e, "four")
	late.deliver(t)
	wantValue(t, c, "e", "four")
	release(t, term)
}

// TestProclaimMeetsMishaps: whatever happens to its requests, Proclaim tells of success only if the
// value is there, and the next one puts things right.
func TestProclaimMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly, diskFull} {
		for _, h := range []hits{first, firstTwo, every} {
			rs.run(1, func(r *trial) {
				e := r.near.Election(r.name)
				term := insistLock(r, func(ctx context.Context) (*redlatch.Lease, error) { return e.Campaign(ctx, "one") })
				r.harm(m, h)
				err := e.Proclaim(within(r, patience), term, "two")
				r.heal()
				r.wantUnknown("Proclaim", err, m)
				if err == nil {
					wantValue(r, r.far, r.name, "two")
				}
				insist(r, "Proclaim with nothing in its way", func() (struct{}, error) {
					return struct{}{}, e.Proclaim(within(r, patience), term, "three")
				})
				insist(r, "Extend", func() (struct{}, error) { // whatever was late is there by now
					return struct{}{}, term.Extend(within(r, patience))
				})
				wantValue(r, r.far, r.name, "three")
				r.wantTTLs()
				insistRelease(r, term)
				r.wantNothingLeft()
			}, m.name, h.name)
		}
	}
	rs.wait()
}

// TestProclaimOverAQuorum is refused before anything is sent.
func TestProclaimOverAQuorum(t *testing.T) {
	t.Parallel()
	c := openQuorum(t, startNodes(t, 3), brisk(lasting))
	e := c.Election("e")
	term := campaign(t, e, "one")
	if err := e.Proclaim(t.Context(), term, "two"); !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Proclaim over a quorum = %v, want ErrInvalid and ErrUnsupported", err)
	}
	wantValue(t, c, "e", "one")
	release(t, term)
}
