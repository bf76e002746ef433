// Package waitgraph refuses a wait that could never end, within one client.
//
// A goroutine that waits for a lock under the context of a lease on another one keeps that other lock
// until it gets the first. The client remembers such waits. When one begins, it looks whether the
// wait closes a cycle: whether every holder of the lock is one of these leases, whose goroutine waits
// as well, and so on until the wait that has just begun. Then that wait can never end, and is refused.
//
//	goroutine 1   holds a, waits for b -----> b is held by goroutine 2
//	goroutine 2   holds b, waits for a -----> a is held by goroutine 1: ErrDeadlock
//
// Only a wait closes a cycle, never a grant: a goroutine that was granted a lock does not wait.
// So a look at the beginning of each wait finds every cycle.
//
// A mutex has one holder, and this client knows it. Of other kinds, other processes may hold a
// part: before such a wait is refused, Redis is asked for all holders.
package waitgraph

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Graph is the waits of a client under leases.
type Graph struct {
	// Shut reports whether Redis says that none of these names has room, and that every owner inside
	// is one of these.
	Shut func(ctx context.Context, names []string, inside map[string]bool) bool

	mu    sync.Mutex // guards waits
	waits map[uint64]*wait
}

// wait is a wait under leases.
type wait struct {
	lock  *lock.Lock
	holds []*lease.Lease
}

// HeldUnder returns the leases under whose context a caller is and which are held, the innermost
// first.
func HeldUnder(ctx context.Context) (leases []*lease.Lease) {
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

// Enter notes that the acquisition of this number waits for a lock while it holds these leases. It
// returns in words which cycle that wait closes, or "" if the wait can end.
func (g *Graph) Enter(ctx context.Context, id uint64, on *lock.Lock, holds []*lease.Lease) string {
	cycle := g.add(id, &wait{on, holds})
	if len(cycle) == 0 || !g.certain(ctx, cycle) {
		return ""
	}
	return describe(cycle)
}

// Leave notes that the acquisition waits no more.
func (g *Graph) Leave(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waits, id)
}

// add remembers a wait, and returns the cycle that it closes: the wait itself first, and then each
// whose leases keep the one before it waiting. It returns none if there is none.
func (g *Graph) add(id uint64, w *wait) []*wait {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits == nil {
		g.waits = make(map[uint64]*wait)
	}
	g.waits[id] = w
	return g.cycleLocked(w)
}

// cycleLocked returns the shortest cycle through a wait. The caller holds g.mu.
func (g *Graph) cycleLocked(first *wait) []*wait {
	before := map[*wait]*wait{first: nil}
	for next := []*wait{first}; len(next) > 0; next = next[1:] {
		w := next[0]
		for _, other := range g.waits {
			if !other.keeps(w.lock) {
				continue
			}
			if other == first {
				var cycle []*wait
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
func (w *wait) keeps(l *lock.Lock) bool {
	return slices.ContainsFunc(w.holds, func(h *lease.Lease) bool { return l.Same(h.Lock()) && h.SeemsHeld() })
}

// certain reports whether no lock of a cycle has a holder outside of it, and none has room. It
// asks Redis where that is not certain from the kind alone.
func (g *Graph) certain(ctx context.Context, cycle []*wait) bool {
	var names []string
	for _, w := range cycle {
		if k := w.lock.Kind.Name; k != script.Mutex.Name && k != script.Election.Name {
			names = append(names, w.lock.Name)
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
	return g.Shut(ctx, slices.Compact(names), inside)
}

// describe tells a cycle in words.
func describe(cycle []*wait) string {
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
		fmt.Fprintf(&b, "%q is held by %s", w.lock.Name, holder)
		if by != cycle[0] {
			fmt.Fprintf(&b, ", which waits for %q", by.lock.Name)
		}
	}
	b.WriteString("; lock them in the same order everywhere, or together with a MultiMutex")
	return b.String()
}
