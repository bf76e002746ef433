// Package waitgraph refuses a wait that could never end, within one client.
//
// A goroutine that waits for a lock under the context of a lease on another one keeps that other
// lock until it gets the first. The client remembers such waits. When one begins, it checks whether
// the wait closes a cycle: whether every holder of the lock is one of these leases, whose goroutine
// waits as well, and so on back to the new wait. Then that wait can never end, and is refused.
//
//	goroutine 1   holds a, waits for b -----> b is held by goroutine 2
//	goroutine 2   holds b, waits for a -----> a is held by goroutine 1: ErrDeadlock
//
// Only a wait closes a cycle, never a grant: a goroutine that was granted a lock does not wait.
// So a look at the beginning of each wait finds every cycle of locks that have one holder.
//
// A mutex has one holder, and this client knows it. For other kinds, other goroutines and processes
// may hold a part: before it refuses such a wait, the client asks Redis for all holders. If one of
// them is in no cycle, the wait goes on, and the client looks again while it lasts.
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
	// Shut asks Redis about these names. by reports whether a name has no room, and all its owners
	// are in inside.
	Shut func(ctx context.Context, names []string) (by func(name string, inside map[string]bool) bool)

	mu      sync.Mutex // guards what is below
	waits   map[uint64]*wait
	holding map[string]map[*wait]struct{} // by the key of a latch: the waits under a lease on it
}

// wait is a wait under leases.
type wait struct {
	lock  *lock.Lock
	holds []*lease.Lease
	over  bool // guarded by the graph's mu
}

// HeldUnder returns the held leases under whose contexts a caller is, the innermost first.
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

// Enter notes that the acquisition with this number waits for a lock while it holds these leases.
// It returns what Look does.
func (g *Graph) Enter(ctx context.Context, id uint64, on *lock.Lock, holds []*lease.Lease) (cycle string, unsure bool) {
	g.add(id, &wait{lock: on, holds: holds})
	return g.Look(ctx, id)
}

// Look returns, in words, the cycle because of which a wait can never end, or "" if it can. (The
// root's checkDeadlock finds waits for the caller's own lease, and survey.Deadlocks processes that
// wait for each other.) unsure says that a holder outside the cycle, or room, may break it. When
// that holder has gone, perhaps no other wait begins, so the caller looks again.
func (g *Graph) Look(ctx context.Context, id uint64) (cycle string, unsure bool) {
	g.mu.Lock()
	first, knot := g.knotLocked(id)
	g.mu.Unlock()
	if len(knot) == 0 {
		return "", false
	}
	stuck := g.stuck(ctx, knot)
	if !slices.Contains(stuck, first) {
		return "", true
	}
	// Of waits that look at the same time, only the first to come here is refused. The others may be able
	// to go on then, and look again.
	g.mu.Lock()
	defer g.mu.Unlock()
	all := shortest(first, stuck)
	if len(all) == 0 || slices.ContainsFunc(stuck, func(w *wait) bool { return w.over }) {
		return "", true
	}
	g.leaveLocked(id)
	return describe(all), false
}

// Leave notes that the acquisition no longer waits.
func (g *Graph) Leave(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(id)
}

// leaveLocked is Leave. The caller holds g.mu.
func (g *Graph) leaveLocked(id uint64) {
	if w := g.waits[id]; w != nil {
		delete(g.waits, id)
		w.over = true
		for _, h := range w.holds {
			key := h.Lock().Keys.State()
			if delete(g.holding[key], w); len(g.holding[key]) == 0 {
				delete(g.holding, key)
			}
		}
	}
}

// add remembers a wait.
func (g *Graph) add(id uint64, w *wait) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waits == nil {
		g.waits, g.holding = make(map[uint64]*wait), make(map[string]map[*wait]struct{})
	}
	g.waits[id] = w
	for _, h := range w.holds {
		key := h.Lock().Keys.State()
		if g.holding[key] == nil {
			g.holding[key] = make(map[*wait]struct{})
		}
		g.holding[key][w] = struct{}{}
	}
}

// knotLocked returns the wait of an acquisition, and all waits that keep it waiting, directly or
// indirectly, and that it keeps waiting in turn; none if it is in no cycle. The caller holds g.mu.
func (g *Graph) knotLocked(id uint64) (first *wait, knot []*wait) {
	first = g.waits[id]
	if first == nil {
		return nil, nil
	}
	met := make(map[*wait]bool)
	waiting := make(map[string][]*wait) // those that were met, and the first, by the latch that they wait for
	var todo []string                   // latches, each once: many may wait for one under leases on another
	visit := func(w *wait) {
		key := w.lock.Keys.State()
		if waiting[key] = append(waiting[key], w); len(waiting[key]) == 1 {
			todo = append(todo, key)
		}
	}
	visit(first)
	for ; len(todo) > 0; todo = todo[1:] {
		for other := range g.holding[todo[0]] {
			if met[other] || !other.keeps(waiting[todo[0]][0].lock) {
				continue
			}
			if met[other] = true; other != first {
				visit(other)
			}
		}
	}
	if !met[first] {
		return first, nil
	}
	knot = []*wait{first}
	in, done := map[*wait]bool{first: true}, make(map[string]bool)
	for i := 0; i < len(knot); i++ {
		for _, h := range knot[i].holds {
			key := h.Lock().Keys.State()
			if done[key] || !h.SeemsHeld() {
				continue
			}
			done[key] = true
			for _, w := range waiting[key] {
				if !in[w] {
					in[w] = true
					knot = append(knot, w)
				}
			}
		}
	}
	return first, knot
}

// stuck returns the waits of a knot that can never go on: the lock has no room, and every holder of
// it is one of their leases. It asks Redis where that is not certain from the kind alone.
func (g *Graph) stuck(ctx context.Context, knot []*wait) []*wait {
	var names []string
	for _, w := range knot {
		if !w.single() {
			names = append(names, w.lock.Name)
		}
	}
	var shut func(name string, inside map[string]bool) bool
	if len(names) > 0 {
		slices.Sort(names)
		shut = g.Shut(ctx, slices.Compact(names))
	}
	for before := -1; before != len(knot); { // until only those are left that keep each other
		before = len(knot)
		inside, latches := make(map[string]bool), make(map[string]bool) // of the leases: owners, and keys
		for _, w := range knot {
			for _, l := range w.holds {
				if l.SeemsHeld() {
					inside[l.Owner()], latches[l.Lock().Keys.State()] = true, true
				}
			}
		}
		knot = slices.DeleteFunc(knot, func(w *wait) bool {
			if w.single() {
				return !latches[w.lock.Keys.State()]
			}
			return !shut(w.lock.Name, inside)
		})
	}
	return knot
}

// single reports whether a wait is for a lock that has one holder at a time.
func (w *wait) single() bool {
	return w.lock.Kind.Name == script.Mutex.Name || w.lock.Kind.Name == script.Election.Name
}

// shortest returns the shortest cycle through a wait, if there is any: the wait itself first, and then
// each whose leases keep the one before it waiting.
func shortest(first *wait, among []*wait) []*wait {
	before := map[*wait]*wait{first: nil}
	for next := []*wait{first}; len(next) > 0; next = next[1:] {
		w := next[0]
		if first.keeps(w.lock) {
			var cycle []*wait
			for ; w != nil; w = before[w] {
				cycle = append(cycle, w)
			}
			slices.Reverse(cycle)
			return cycle
		}
		for _, other := range among {
			if _, seen := before[other]; !seen && other.keeps(w.lock) {
				before[other] = w
				next = append(next, other)
			}
		}
	}
	return nil // a lease has ended since
}

// keeps reports whether a wait is under a held lease on that latch.
func (w *wait) keeps(l *lock.Lock) bool {
	return slices.ContainsFunc(w.holds, func(h *lease.Lease) bool { return l.Same(h.Lock()) && h.SeemsHeld() })
}

// describe describes a cycle in words.
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
