package redlatch

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/link/ask"
)

// keeper has the leases of a client that are held: a message or Close finds them by their owners,
// and the watchdog extends them.
type keeper struct {
	asker    *ask.Asker
	schedule *schedule.Schedule
	now      clock.Clock
	closing  context.Context         // no extend outlasts it
	spawn    func(f func())          // runs f on a goroutine that Close waits for
	node     func(key string) string // of a key, in a cluster; nil elsewhere
	ended    func(owner string)      // is told when a lease is not held any more

	due []*Lease // to be extended; only the schedule's goroutine touches it

	mu      sync.Mutex // guards what is below
	byOwner map[string]*Lease
	stacks  map[uint64][]uintptr // of acquisitions, by id, with Options.TraceLeases
	taken   map[string]*Force    // by force, by owner: what messages told of leases that are held still
}

// add remembers a lease. One that was passed on within a handoff takes the place of the one before
// it, whose owner it has.
func (k *keeper) add(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner == nil {
		k.byOwner = make(map[string]*Lease)
	}
	k.byOwner[l.owner] = l
}

// forget takes a lease that is not held any more off the schedule, and off the list of leases unless
// another one has its owner by now.
func (k *keeper) forget(l *Lease) {
	k.schedule.Remove(&l.entry)
	k.mu.Lock()
	delete(k.stacks, l.id)
	if k.byOwner[l.owner] == l {
		delete(k.byOwner, l.owner)
		delete(k.taken, l.owner)
	}
	k.mu.Unlock()
	k.ended(l.owner)
}

// noteStack remembers where a lease was acquired, unless it has ended already.
func (k *keeper) noteStack(l *Lease, callers []uintptr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner[l.owner] != l {
		return
	}
	if k.stacks == nil {
		k.stacks = make(map[uint64][]uintptr)
	}
	k.stacks[l.id] = callers
}

// stack returns where a lease was acquired, "" if that is not known.
func (k *keeper) stack(id uint64) string {
	k.mu.Lock()
	callers := k.stacks[id]
	k.mu.Unlock()
	return stackText(callers)
}

// noteForced remembers what a message told of an owner, if it has a lease, and returns the lease.
func (k *keeper) noteForced(owner string, f *Force) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.byOwner[owner]
	if l != nil && f != nil {
		if k.taken == nil {
			k.taken = make(map[string]*Force)
		}
		k.taken[owner] = f
	}
	return l
}

// forced returns what a message told of an owner that has a lease still, or nil.
func (k *keeper) forced(owner string) *Force {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken[owner]
}

// of returns the lease of an owner, or nil.
func (k *keeper) of(owner string) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byOwner[owner]
}

// all returns every lease, in no order.
func (k *keeper) all() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*Lease, 0, len(k.byOwner))
	for _, l := range k.byOwner {
		all = append(all, l)
	}
	return all
}

// loseAll ends the leases that are held, also those after one at whose loss the hook panics.
func (k *keeper) loseAll() {
	for _, l := range k.all() {
		defer l.lose(LossClosed)
	}
}
