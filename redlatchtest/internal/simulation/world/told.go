package world

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// told is what the hook of a client was told of each attempt.
type told struct {
	world *World
	name  string

	mu       sync.Mutex // guards what is below
	attempts map[uint64]int
	leases   map[uint64]int
	kept     map[uint64]int  // locks that are kept, by the lease that was released
	away     map[uint64]bool // attempts that cannot reach Redis
	waits    map[uint64]int
}

// hook counts the attempts under way, and the leases.
func (t *told) hook(_ context.Context, e redlatch.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Type {
	case redlatch.EventAttempt:
		t.attempts[e.ID]++
	case redlatch.EventFailed:
		t.attempts[e.ID]--
	case redlatch.EventGranted:
		t.attempts[e.ID]--
		t.leases[e.ID]++
		t.world.Grants.Add(1)
	case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
		t.leases[e.ID]--
		if e.Kept {
			t.kept[e.ID]++
		}
	case redlatch.EventUnkept: // another goroutine may report this before this one reports the keeping
		t.kept[e.ID]--
	}
	t.world.mu.Lock()
	t.world.owners.note(e)
	t.world.mu.Unlock()
	t.look(e)
	if t.attempts[e.ID] < 0 || t.attempts[e.ID] > 1 || t.leases[e.ID] < 0 || t.leases[e.ID] > 1 {
		t.world.Fail("client %s: the hook is told %s of attempt %d when that cannot be", t.name, e.Type, e.ID)
	}
	t.world.tell("  %s is told %s: %s %q, token %d, %v %v", t.name, e.Type, e.Kind, e.Name, e.Token, e.Outcome, e.Err)
}

// look checks what an event says. The caller holds t.mu.
func (t *told) look(e redlatch.Event) {
	switch e.Type {
	case redlatch.EventWait:
		if t.waits[e.ID]++; t.waits[e.ID] > 1 {
			t.world.Fail("client %s: attempt %d is told to wait twice", t.name, e.ID)
		}
	case redlatch.EventUnreachable, redlatch.EventReachable:
		if gone := e.Type == redlatch.EventUnreachable; t.away[e.ID] == gone {
			t.world.Fail("client %s: attempt %d is told %s twice", t.name, e.ID, e.Type)
		} else {
			t.away[e.ID] = gone
		}
	case redlatch.EventGranted:
		if e.Token <= 0 || e.Outcome != redlatch.OutcomeGranted || e.Owner == "" {
			t.world.Fail("client %s: the hook is told of a grant %+v", t.name, e)
		}
	case redlatch.EventLost:
		if lost := (*redlatch.LostError)(nil); !errors.As(e.Err, &lost) || lost.Reason != e.Reason || e.Reason == "" {
			t.world.Fail("client %s: the hook is told of a loss %+v", t.name, e)
		} else if t.world.Plan.Harm == Calm && e.Reason != redlatch.LossNotRenewed && e.Reason != redlatch.LossMaxHold && e.Reason != redlatch.LossClosed && e.Name != "robbed" && e.Name != "fenced" {
			t.world.Fail("client %s: without a fault, a lease on %s %q was lost: %v", t.name, e.Kind, e.Name, e.Err)
		}
	case redlatch.EventFailed:
		if e.Err == nil || e.Outcome != redlatch.OutcomeOf(e.Err) {
			t.world.Fail("client %s: the hook is told of a failure %+v", t.name, e)
		}
	case redlatch.EventExtended:
		if e.Remaining <= 0 || e.Before <= 0 || e.Given < e.Before || e.HeldFor <= 0 {
			t.world.Fail("client %s: the hook is told of an extend %+v", t.name, e)
		}
	}
	if (e.Mode == "") == (e.Kind == "rwmutex") || e.Kind == "" || e.Name == "" || e.Waited < 0 || e.HeldFor < 0 {
		t.world.Fail("client %s: the hook is told %+v", t.name, e)
	}
}

// check is called when the client is closed.
func (t *told) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for what, counts := range map[string]map[uint64]int{
		"attempt": t.attempts, "lease of attempt": t.leases, "lock that is kept since attempt": t.kept,
	} {
		for id, n := range counts {
			if n != 0 {
				t.world.Fail("client %s: the %s %d has no end, or two: %d", t.name, what, id, n)
			}
		}
	}
}

// owners is what the hooks of a world were told about owners.
type owners struct {
	ended map[string]time.Time // leases that are over in Redis, too
	going map[string]time.Time // acquisitions that failed, and leases whose release has begun
	lost  map[string]error
	modes map[string]string // of an rwmutex, when it was granted last
}

// note records an event. The caller holds World.mu.
func (o *owners) note(e redlatch.Event) {
	switch e.Type {
	case redlatch.EventGranted: // also by a goroutine that the lease was passed on to
		delete(o.ended, e.Owner)
		o.modes[e.Owner] = e.Mode
	case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached, redlatch.EventUnkept:
		if !e.Kept { // if its client keeps the lock, Redis has a holder until EventUnkept
			o.ended[e.Owner] = time.Now()
		}
	case redlatch.EventFailed:
		o.going[e.Owner] = time.Now()
	}
	if e.Type == redlatch.EventLost {
		o.lost[e.Owner] = e.Err
	}
}
