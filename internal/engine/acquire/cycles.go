package acquire

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/waitgraph"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// maxHeld is how many leases a note names at most.
const maxHeld = 64

// entangle notes, when the attempt begins to wait, under which leases and with which labels it
// waits. owner is that of its place in line. The error matches fault.ErrDeadlock if the wait could
// never end. It may be called again when the owner has changed.
func (a *attempt) entangle(ctx context.Context, owner string) error {
	c := a.by
	if a.entangled {
		if a.noted != nil {
			c.Notes.Rename(a.noted, owner)
		}
		return nil
	}
	holds := append(waitgraph.HeldUnder(a.ctx), a.beside...)
	holds = slices.DeleteFunc(holds, func(l *lease.Lease) bool {
		return l.Lock().Prefix != c.Prefix // perhaps of another server
	})
	if len(holds)+len(a.wish.Elsewhere)+len(a.wish.Labels) == 0 {
		return nil
	}
	a.entangled = true
	a.noted = c.Notes.Set(owner, a.note(holds))
	if len(holds) == 0 {
		return nil
	}
	return a.refuse(c.Waits.Enter(ctx, a.id, a.Lock, holds))
}

// refuse returns the error of a wait that can never end because of a cycle.
func (a *attempt) refuse(cycle string, unsure bool) error {
	if a.unsure = unsure; cycle != "" {
		return a.failed("wait for", fmt.Errorf("%w: %s", fault.ErrDeadlock, cycle))
	}
	return nil
}

// lookAgain returns a channel that delivers, after a heartbeat, what a look at the wait has found;
// nil if the wait is in no cycle. The look has a goroutine of its own: the lock may be granted
// before it ends.
func (a *attempt) lookAgain(ctx context.Context) <-chan look {
	if !a.unsure || a.looks == nil && a.by.Enter() != nil {
		return nil
	}
	if a.looks == nil {
		found := make(chan look, 1)
		looking, stop := context.WithCancel(ctx)
		a.looks, a.stopLooking = found, stop
		closing := context.AfterFunc(a.by.Closing, stop)
		go func(c *Acquirer, id uint64) { // not a, which is on the stack of an acquisition that costs little
			defer c.Leave()
			defer closing()
			retry.Sleep(looking, retry.Jitter(c.Heartbeat, 0.3))
			if looking.Err() == nil {
				cycle, unsure := c.Waits.Look(looking, id)
				found <- look{cycle, unsure}
			}
		}(a.by, a.id)
	}
	return a.looks
}

// found handles what a look has found.
func (a *attempt) found(l look) error {
	a.looks = nil
	a.stopLooking()
	return a.refuse(l.cycle, l.unsure)
}

// note returns the note of an attempt that waits.
func (a *attempt) note(holds []*lease.Lease) notes.Note {
	n := notes.Note{Name: a.Name, Kind: a.Kind.Name, Since: time.Now().UnixMilli(), Labels: a.wish.Labels}
	for _, l := range holds {
		n.Holds = append(n.Holds, notes.Held{Name: l.Lock().Name, Kind: l.Lock().Kind.Name, Owner: l.Owner(), Token: l.Number()})
	}
	n.Holds = append(n.Holds, a.wish.Elsewhere...)
	n.Holds = n.Holds[:min(len(n.Holds), maxHeld)]
	return n
}

// disentangle notes that the attempt no longer waits. It must not wait again after that: a look
// under way would find it by its number.
func (a *attempt) disentangle() {
	if a.entangled {
		if a.looks != nil {
			a.stopLooking()
		}
		a.by.Notes.Erase(a.noted)
		a.by.Waits.Leave(a.id)
		a.entangled, a.noted, a.unsure, a.looks = false, nil, false, nil
	}
}
