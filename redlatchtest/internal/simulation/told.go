package simulation

import (
	"context"
	"errors"
	"sync"

	"github.com/redlatch/redlatch"
)

// told is what the hook of a client was told of each attempt.
type told struct {
	world *World
	name  string

	mu       sync.Mutex // guards what is below
	attempts map[uint64]int
	leases   map[uint64]int
	away     map[uint64]bool // attempts that cannot reach Redis
	waits    map[uint64]int
}

// hook counts the attempts that go on, and the leases.
func (t *told) hook(ctx context.Context, e redlatch.Event) {
	if at, asked := ctx.Value(panicking{}).(redlatch.EventType); asked && at == e.Type {
		defer panic("as asked")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attempts == nil {
		t.attempts, t.leases = make(map[uint64]int), make(map[uint64]int)
		t.away, t.waits = make(map[uint64]bool), make(map[uint64]int)
	}
	switch e.Type {
	case redlatch.EventAttempt:
		t.attempts[e.ID]++
	case redlatch.EventFailed:
		t.attempts[e.ID]--
	case redlatch.EventGranted:
		t.attempts[e.ID]--
		t.leases[e.ID]++
		t.world.grants.Add(1)
	case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
		t.leases[e.ID]--
	}
	t.world.mu.Lock()
	t.world.owners.note(e)
	t.world.mu.Unlock()
	t.look(e)
	if t.attempts[e.ID] < 0 || t.attempts[e.ID] > 1 || t.leases[e.ID] < 0 || t.leases[e.ID] > 1 {
		t.world.fail("client %s: the hook is told %s of attempt %d when that cannot be", t.name, e.Type, e.ID)
	}
	t.world.tell("  %s is told %s: %s %q, token %d, %v %v", t.name, e.Type, e.Kind, e.Name, e.Token, e.Outcome, e.Err)
}

// look checks what an event says. The caller holds t.mu.
func (t *told) look(e redlatch.Event) {
	switch e.Type {
	case redlatch.EventWait:
		if t.waits[e.ID]++; t.waits[e.ID] > 1 {
			t.world.fail("client %s: attempt %d is told to wait twice", t.name, e.ID)
		}
	case redlatch.EventUnreachable, redlatch.EventReachable:
		if gone := e.Type == redlatch.EventUnreachable; t.away[e.ID] == gone {
			t.world.fail("client %s: attempt %d is told %s twice", t.name, e.ID, e.Type)
		} else {
			t.away[e.ID] = gone
		}
	case redlatch.EventGranted:
		if e.Token <= 0 || e.Outcome != redlatch.OutcomeGranted || e.Owner == "" {
			t.world.fail("client %s: the hook is told of a grant %+v", t.name, e)
		}
	case redlatch.EventLost:
		if lost := (*redlatch.LostError)(nil); !errors.As(e.Err, &lost) || lost.Reason != e.Reason || e.Reason == "" {
			t.world.fail("client %s: the hook is told of a loss %+v", t.name, e)
		} else if t.world.plan.harm == calm && e.Reason != redlatch.LossNotRenewed && e.Reason != redlatch.LossMaxHold && e.Reason != redlatch.LossClosed && e.Name != "robbed" && e.Name != "fenced" {
			t.world.fail("client %s: without a fault, a lease on %s %q was lost: %v", t.name, e.Kind, e.Name, e.Err)
		}
	case redlatch.EventFailed:
		if e.Err == nil || e.Outcome != redlatch.OutcomeOf(e.Err) {
			t.world.fail("client %s: the hook is told of a failure %+v", t.name, e)
		}
	case redlatch.EventExtended:
		if e.Remaining <= 0 || e.Before <= 0 || e.HeldFor <= 0 {
			t.world.fail("client %s: the hook is told of an extend %+v", t.name, e)
		}
	}
	if (e.Mode == "") == (e.Kind == "rwmutex") || e.Kind == "" || e.Name == "" || e.Waited < 0 || e.HeldFor < 0 {
		t.world.fail("client %s: the hook is told %+v", t.name, e)
	}
}

// check is called when the client is closed.
func (t *told) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, n := range t.attempts {
		if n != 0 {
			t.world.fail("client %s: attempt %d has no end", t.name, id)
		}
	}
	for id, n := range t.leases {
		if n != 0 {
			t.world.fail("client %s: the lease of attempt %d has no end", t.name, id)
		}
	}
}
