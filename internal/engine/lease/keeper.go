package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/recent"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Keeper has the leases of a client that are held: a message or Close finds them by their owners,
// and the watchdog extends them.
type Keeper struct {
	Needs

	wishes atomic.Bool // some lease has asked to be told that it is waited for
	due    []*Lease    // to be extended; only the schedule's goroutine touches it

	mu      sync.Mutex // guards what is below
	byOwner map[string]*Lease
	callers map[uint64][]uintptr // of acquisitions, by id, where they were noted
	taken   map[string]string    // by force, by owner: what messages told of leases that are held still
	early   recent.Set           // owners that were told to be taken by force, and had no lease then
	shelf   shelf
	inside  map[entrance]*visit // owners of reentrant mutexes

	released releasedLately
}

// Needs is what the leases of a client use.
type Needs struct {
	Asker    *ask.Asker
	Cleanup  *cleanup.Queue
	Schedule *schedule.Schedule
	Handoffs *handoff.Queue
	Habits   *linger.Habits
	Listener *subscribe.Listener

	Now      clock.Clock
	Owner    func() string           // returns a new owner
	Closing  context.Context         // no extend outlasts it
	Spawn    func(f func())          // runs f on a goroutine that Close waits for
	Enter    func() error            // keeps Close waiting until Leave; it fails if the client is closed
	Leave    func()                  // ends what Enter began
	Node     func(key string) string // of a key, in a cluster; nil elsewhere
	Quorum   bool                    // the servers are independent
	Timeout  time.Duration           // of a request
	LiveFor  time.Duration           // for which a client is believed alive after each sign of life
	FenceTTL time.Duration           // for which Redis remembers tokens

	Restore  func(l *lock.Lock)                                    // a node of a quorum may have the right to vote again
	Bequeath func(until time.Time)                                 // what this client wrote of itself is needed until then
	Ended    func(owner string)                                    // a lease is not held any more
	Kept     func(owner string, since time.Time)                   // one is only kept, and has been for a while
	Lost     func(l *Lease, why lock.Loss) error                   // returns the error of a lease that is lost
	Tell     func(ctx context.Context, l *lock.Lock, e lock.Event) // what happened to a lease
}

// NewKeeper returns a Keeper. Its schedule has to call [Keeper.ExtendDue].
func NewKeeper(n Needs) *Keeper { return &Keeper{Needs: n} }

// add remembers a lease. One that was passed on within a handoff takes the place of the one before
// it, whose owner it has. It reports whether a message told before that it was taken by force.
func (k *Keeper) add(l *Lease) (revoked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner == nil {
		k.byOwner = make(map[string]*Lease)
	}
	k.byOwner[l.owner] = l
	if l.lock.Kind == script.Reentrant {
		k.settle(l)
	}
	return k.early.Has(l.owner)
}

// forget takes a lease that is not held any more off the schedule, and off the list of leases unless
// another one has its owner by now.
func (k *Keeper) forget(l *Lease) {
	if l.scheduled { // as not each entry of a reentrant mutex
		k.Schedule.Remove(&l.entry)
	}
	last := l.leave()
	k.mu.Lock()
	delete(k.callers, l.id)
	k.left(l)
	if k.byOwner[l.owner] == l {
		delete(k.byOwner, l.owner)
		delete(k.taken, l.owner)
	}
	k.mu.Unlock()
	if last {
		k.Ended(l.owner)
	}
}

// NoteCallers remembers where a lease was acquired, unless it has ended already.
func (k *Keeper) NoteCallers(l *Lease, callers []uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state > inJeopardy {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.callers == nil {
		k.callers = make(map[uint64][]uintptr)
	}
	k.callers[l.id] = callers
}

// callersOf returns where a lease was acquired, nil if that was not noted.
func (k *Keeper) callersOf(id uint64) []uintptr {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.callers[id]
}

// Revoked has the lease of an owner doubted, since a message says that it was taken by force. note
// is "" if the process that took it is not known.
func (k *Keeper) Revoked(owner, note string) {
	k.Handoffs.Revoke(owner) // before the look: between two goroutines of a group there is no lease
	l, kept := k.noteForced(owner, note)
	if kept != nil {
		k.apart(kept.giveBack)
	}
	if l != nil {
		l.mu.Lock()
		l = l.leading()
		l.unlock(l.recheck()...)
	}
}

// noteForced remembers what a message told of an owner, if it has a lease. It returns the lease, and
// the one of that owner that is kept.
func (k *Keeper) noteForced(owner, note string) (l, kept *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l = k.byOwner[owner]
	if l == nil {
		k.early.Add(owner) // Redis may just have let it in
	}
	if l != nil && readable(note) != "" {
		if k.taken == nil {
			k.taken = make(map[string]string)
		}
		k.taken[owner] = note
	}
	return l, k.shelf.byOwner[owner]
}

// readable returns a note about a forced release, or "" if it is none: any program may publish one.
func readable(note string) string {
	if _, _, ok := script.ParseNote(note); !ok {
		return ""
	}
	return note
}

// forced returns what a message told of an owner that has a lease still, or "".
func (k *Keeper) forced(owner string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken[owner]
}

// Of returns the lease of an owner, or nil.
func (k *Keeper) Of(owner string) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byOwner[owner]
}

// All returns every lease, in no order.
func (k *Keeper) All() []*Lease {
	k.mu.Lock()
	all := make([]*Lease, 0, len(k.byOwner))
	for _, l := range k.byOwner {
		all = append(all, l)
	}
	k.mu.Unlock()
	for _, l := range all {
		if l.nest != nil {
			l.mu.Lock()
			for _, m := range l.nest.leases { // which l may have left by now
				if m != l {
					all = append(all, m)
				}
			}
			l.mu.Unlock()
		}
	}
	return all
}

// LoseAll ends the leases that are held, since the client closes; also those after one at whose loss
// a hook panics.
func (k *Keeper) LoseAll() {
	for _, l := range k.All() {
		defer l.Lose(lock.ReasonClosed)
	}
	k.DropKept()
}
