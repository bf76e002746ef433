package kinds

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// wantValue checks what all are told of the leader of an election.
func wantValue(t locktest.Reporter, c *redlatch.Client, name, value string) {
	t.Helper()
	ctx := locktest.Within(t, locktest.Patience)
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
	c, far := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), locktest.Open(t, s.URL(), help.Sluggish())
	e := c.Election("e")
	term := help.Campaign(t, e, "one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaders := far.Election("e").Observe(ctx)
	if l := help.Receive(t, leaders, "the leader"); l.Value != "one" {
		t.Errorf("the first leader is %+v, want the value one", l)
	}
	deadline := term.Deadline()
	for _, value := range []string{"two", "", "three"} {
		if err := e.Proclaim(t.Context(), term, value); err != nil {
			t.Fatalf("Proclaim %q = %v, want nil", value, err)
		}
		if l := help.Receive(t, leaders, "the value"); l.Value != value || l.Term != term.Token() {
			t.Errorf("the observer is told of %+v, want the value %q in term %d", l, value, term.Token())
		}
		wantValue(t, far, "e", value)
	}
	if !term.Deadline().Equal(deadline) {
		t.Errorf("the deadline moved from %v to %v by values alone", deadline, term.Deadline())
	}
	next := help.GoAcquire(func() (*redlatch.Lease, error) { return far.Election("e").Campaign(t.Context(), "four") })
	locktest.InLine(t, s, "e", 1)
	locktest.Release(t, term)
	second := help.Await(t, next)
	wantValue(t, c, "e", "four")
	locktest.Release(t, second)
	help.WantNothingLeft(t, s, "e")
}

// TestProclaimIsRefused: a value is for the caller's own term, and for as long as it is held.
func TestProclaimIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	e := c.Election("e")
	term := help.Campaign(t, e, "one")
	for value, lease := range map[string]*redlatch.Lease{"a\tb": term, "two": help.Campaign(t, c.Election("other"), "")} {
		if err := e.Proclaim(t.Context(), lease, value); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("Proclaim %q = %v, want ErrInvalid", value, err)
		}
	}
	s.Do("DEL", locktest.StateKey("e"), help.InsideKey("e"))
	far := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	next := help.Campaign(t, far.Election("e"), "next")
	check.Error(t, "Proclaim in a term that is over", e.Proclaim(t.Context(), term, "late"), redlatch.ErrNotHeld)
	help.WantLost(t, term)
	wantValue(t, c, "e", "next")
	locktest.Release(t, next)
	check.Error(t, "Proclaim after Release", far.Election("e").Proclaim(t.Context(), next, "over"), redlatch.ErrNotHeld)
}

// TestProclaimLate: a request that reaches Redis after a later one does not bring its value back,
// nor does a request of a term that is over.
func TestProclaimLate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := wire.OpenStraggling(t, s, help.Brisk(help.Lasting))
	e := c.Election("e")
	term := help.Campaign(t, e, "one")
	late.Keep("election proclaim")
	for _, value := range []string{"two", "three"} {
		if err := e.Proclaim(t.Context(), term, value); err != nil {
			t.Fatalf("Proclaim %q = %v, want nil", value, err)
		}
	}
	late.Deliver(t)
	wantValue(t, c, "e", "three")
	locktest.Release(t, term)
	late.Deliver(t)
	help.WantNothingLeft(t, s, "e")
	term = help.Campaign(t, e, "four")
	late.Deliver(t)
	wantValue(t, c, "e", "four")
	locktest.Release(t, term)
}

// TestProclaimMeetsMishaps: whatever happens to its requests, Proclaim tells of success only if the
// value is there, and the next one puts things right.
func TestProclaimMeetsMishaps(t *testing.T) {
	trial.EachMishap(t, trial.Mishaps(), []wire.Hits{wire.First, wire.FirstTwo, wire.Every}, func(r *trial.Trial, m wire.Mishap, h wire.Hits) {
		e := r.Near.Election(r.Name)
		term := help.InsistLock(r, func(ctx context.Context) (*redlatch.Lease, error) { return e.Campaign(ctx, "one") })
		r.Harm(m, h)
		err := e.Proclaim(locktest.Within(r, locktest.Patience), term, "two")
		r.Heal()
		r.WantUnknown("Proclaim", err, m)
		if err == nil {
			wantValue(r, r.Far, r.Name, "two")
		}
		help.Insist(r, "Proclaim with nothing in its way", func() (struct{}, error) {
			return struct{}{}, e.Proclaim(locktest.Within(r, locktest.Patience), term, "three")
		})
		help.Insist(r, "Extend", func() (struct{}, error) { // whatever was late is there by now
			return struct{}{}, term.Extend(locktest.Within(r, locktest.Patience))
		})
		wantValue(r, r.Far, r.Name, "three")
		r.WantTTLs()
		help.InsistRelease(r, term)
		r.WantNothingLeft()
	})
}

// TestProclaimOverAQuorum is refused before anything is sent.
func TestProclaimOverAQuorum(t *testing.T) {
	t.Parallel()
	c := help.OpenQuorum(t, help.StartNodes(t, 3), help.Brisk(help.Lasting))
	e := c.Election("e")
	term := help.Campaign(t, e, "one")
	if err := e.Proclaim(t.Context(), term, "two"); !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Proclaim over a quorum = %v, want ErrInvalid and ErrUnsupported", err)
	}
	wantValue(t, c, "e", "one")
	locktest.Release(t, term)
}
