package redlatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// Deadlocks of several locks, within one client. A goroutine that waits for a lock under the
// context of a lease on another one keeps that other lock until it gets the first. The client
// remembers such waits. When one begins, it looks whether the wait closes a cycle: whether every
// holder of the lock is one of these leases, whose goroutine waits as well, and so on until the
// wait that has just begun. Then that wait can never end, and is refused.
//
//	goroutine 1   holds a, waits for b -----> b is held by goroutine 2
//	goroutine 2   holds b, waits for a -----> a is held by goroutine 1: ErrDeadlock
//
// Only a wait closes a cycle, never a grant: a goroutine that was granted a lock does not wait.
// So a look at the beginning of each wait finds every cycle.
//
// A mutex has one holder, and this client knows it. Of other kinds, other processes may hold a
// part: before such a wait is refused, Redis is asked for all holders.

// entangled is the waits of a client under leases.
type entangled struct {
	mu    sync.Mutex // guards waits
	waits map[*attempt]*entanglement
}

// entanglement is a wait under leases.
type entanglement struct {
	latch *latch
	holds []*lease.Lease
}

// Held implements [lease.Under].
func (c *multiContext) Held() ([]*lease.Lease, context.Context) { return c.lease.cores(), c.Context }

// heldUnder returns the leases under whose context a caller is and which are held, the innermost
// first.
func heldUnder(ctx context.Context) (leases []*lease.Lease) {
	for {
		h, ok := ctx.Value(lease.UnderKey{}).(lease.Under)
		if !ok {
			return leases
		}
		var some []*lease.Lease
		some, ctx = h.Held()
		for _, l := range some {
			if l.Held() && !slices.Contains(leases, l) {
				leases = append(leases, l)
			}
		}
	}
}

// maxHeld is how many leases a note tells at most.
const maxHeld = 64

// WithHeld returns a context that says under which leases of other processes a caller works, beside
// those that it has by the contexts of its own: those of a parent process, which keeps them until
// this one ends. If an acquisition under the context waits, [Waiter].Holds tells them, and
// [Client.Deadlocks] finds cycles through them. Lock itself looks at leases of its own client
// alone. `redlatch run` passes on what it holds in this way. At most 64 leases are told.
func WithHeld(ctx context.Context, held ...Held) context.Context {
	before, _ := ctx.Value(elsewhereKey{}).([]Held)
	return context.WithValue(ctx, elsewhereKey{}, slices.Concat(before, held))
}

type elsewhereKey struct{}

// entangle notes, when the attempt begins to wait, under which leases it does and with which
// labels. owner is that of its place in line. The error matches ErrDeadlock if the wait could never
// end. It may be called again when the owner has changed.
func (a *attempt) entangle(ctx context.Context, owner string) error {
	c := a.client
	if a.entangled {
		if a.noted != nil {
			c.notes.Rename(a.noted, owner)
		}
		return nil
	}
	holds := append(heldUnder(a.ctx), a.beside...)
	holds = slices.DeleteFunc(holds, func(l *lease.Lease) bool {
		return l.Lock().Prefix != c.options.Prefix // of a server that is not this one, perhaps
	})
	elsewhere, _ := a.ctx.Value(elsewhereKey{}).([]Held)
	labels := a.labels()
	if len(holds)+len(elsewhere)+len(labels) == 0 {
		return nil
	}
	a.entangled = true
	a.noted = c.notes.Set(owner, a.note(holds, elsewhere, labels))
	if len(holds) == 0 {
		return nil
	}
	cycle := c.entangled.add(a, holds)
	if len(cycle) == 0 || !c.certain(ctx, cycle) {
		return nil
	}
	return a.failed("wait for", fmt.Errorf("%w: %s", ErrDeadlock, describeCycle(cycle)))
}

// note is what is told of an attempt that waits.
func (a *attempt) note(holds []*lease.Lease, elsewhere []Held, labels map[string]string) notes.Note {
	n := notes.Note{Name: a.Name, Kind: a.Kind.Name, Since: time.Now().UnixMilli(), Labels: labels}
	for _, l := range holds {
		n.Holds = append(n.Holds, notes.Held{Name: l.Lock().Name, Kind: l.Lock().Kind.Name, Owner: l.Owner(), Token: l.Number()})
	}
	for _, h := range elsewhere {
		n.Holds = append(n.Holds, notes.Held(h))
	}
	n.Holds = n.Holds[:min(len(n.Holds), maxHeld)]
	return n
}

// disentangle notes that the attempt waits no more.
func (a *attempt) disentangle() {
	if a.entangled {
		a.client.notes.Erase(a.noted)
		a.client.entangled.remove(a)
		a.entangled, a.noted = false, nil
	}
}

// add remembers a wait, and returns the cycle that it closes: the wait itself first, and then each
// whose leases keep the one before it waiting. It returns none if there is none.
func (e *entangled) add(a *attempt, holds []*lease.Lease) []*entanglement {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits == nil {
		e.waits = make(map[*attempt]*entanglement)
	}
	w := &entanglement{a.latch, holds}
	e.waits[a] = w
	return e.cycleLocked(w)
}

func (e *entangled) remove(a *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waits, a)
}

// cycleLocked returns the shortest cycle through a wait. The caller holds e.mu.
func (e *entangled) cycleLocked(first *entanglement) []*entanglement {
	before := map[*entanglement]*entanglement{first: nil}
	for next := []*entanglement{first}; len(next) > 0; next = next[1:] {
		w := next[0]
		for _, other := range e.waits {
			if !other.keeps(w.latch) {
				continue
			}
			if other == first {
				var cycle []*entanglement
				for ; w != nil; w = before[w] {
					cycle = append(cycle, w)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := before[other]; !seen {
				before[other] = w
				next = append(next, other)
			}
		}
	}
	return nil
}

// keeps reports whether a wait is under a lease on that latch, which is held.
func (w *entanglement) keeps(l *latch) bool {
	return slices.ContainsFunc(w.holds, func(h *lease.Lease) bool { return l.Same(h.Lock()) && h.SeemsHeld() })
}

// certain reports whether no lock of a cycle has a holder outside of it, and none has room. It
// asks Redis where that is not certain from the kind alone.
func (c *Client) certain(ctx context.Context, cycle []*entanglement) bool {
	var names []string
	for _, w := range cycle {
		if k := w.latch.Kind.Name; k != script.Mutex.Name && k != script.Election.Name {
			names = append(names, w.latch.Name)
		}
	}
	if len(names) == 0 {
		return true
	}
	slices.Sort(names)
	inside := make(map[string]bool) // owners of the leases in the cycle
	for _, w := range cycle {
		for _, l := range w.holds {
			inside[l.Owner()] = true
		}
	}
	for _, v := range c.survey.lookAll(ctx, slices.Compact(names), nil) {
		if v.err != nil || !shutBy(v.info, func(h Holder) bool { return inside[h.Owner] }) {
			return false
		}
	}
	return true
}

// describeCycle tells a cycle in words.
func describeCycle(cycle []*entanglement) string {
	var b strings.Builder
	for i, w := range cycle {
		by := cycle[(i+1)%len(cycle)]
		if i > 0 {
			b.WriteString(", and ")
		}
		holder := "this caller"
		if by != cycle[0] {
			holder = "a goroutine of this client"
		}
		fmt.Fprintf(&b, "%q is held by %s", w.latch.Name, holder)
		if by != cycle[0] {
			fmt.Fprintf(&b, ", which waits for %q", by.latch.Name)
		}
	}
	b.WriteString("; lock them in the same order everywhere, or together with a MultiMutex")
	return b.String()
}
