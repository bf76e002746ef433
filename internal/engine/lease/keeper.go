package lease

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/recent"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Keeper tracks the leases of a client that are held: a message or Close finds them by their
// owners, and the watchdog extends them.
type Keeper struct {
	Needs

	wishes    atomic.Bool // some lease has asked to be told of a waiter
	forgotten atomic.Bool // the program has forgotten some lease, and the hook may not know
	due       []turn      // to be extended; only the schedule's goroutine touches it

	mu      sync.Mutex // guards what is below
	byOwner map[string]*Lease
	names   map[string]int       // how many leases are on each name, by its key; for Uses
	callers map[uint64][]uintptr // of acquisitions, by id, where they were noted
	taken   map[string]string    // by owner: what messages said of its forced loss, while held
	early   recent.Set           // owners of locks taken by force; their leases may begin later
	shelf   shelf
	lanes   map[string]*lane    // of nodes of a cluster, "" for the only server
	inside  map[entrance]*visit // owners of reentrant mutexes

	rechecks  map[string]bool // the keys that Recheck was given and has not looked at yet
	rechecked time.Time       // when it looked last

	released recall
}

// NewKeeper returns a Keeper. Its schedule has to call [Keeper.Awake].
func NewKeeper(n Needs) *Keeper {
	k := &Keeper{Needs: n}
	k.released.Needs = &k.Needs
	return k
}

// ReleaseAgain releases once more, in the background, what this client has released lately, since
// the server may not know of it: the leases on the name with this key, or all of them if it is "".
// It leaves out those that the client has released again less than rest ago.
func (k *Keeper) ReleaseAgain(key string, rest time.Duration) { k.released.releaseAgain(key, rest) }

// Uses reports whether the client has a lease on the name with this key, or has released one that
// an older copy of the data may still have. It knows only where names have subscriptions of their
// own.
func (k *Keeper) Uses(key string) bool {
	k.mu.Lock()
	held := k.names[key] > 0
	k.mu.Unlock()
	return held || k.released.mayReturn(key)
}

// GrantedAgain gives back the grant of an owner that this client has released lately. It reports
// whether the client has.
func (k *Keeper) GrantedAgain(owner string) bool { return k.released.grantedAgain(owner) }

// add remembers a lease. A lease that was passed on within a handoff replaces the one before it,
// which has the same owner. It reports whether a message has called it taken by force.
func (k *Keeper) add(l *Lease) (revoked bool) {
	sharded := k.Listener.Sharded()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOwner == nil {
		k.byOwner = make(map[string]*Lease)
	}
	k.byOwner[l.owner] = l
	l.asked = k.shelf.asked.Has(l.owner)
	if l.named = sharded; sharded {
		if k.names == nil {
			k.names = make(map[string]int)
		}
		k.names[l.lock.Keys.State()]++
	}
	if l.lock.Kind == script.Reentrant {
		k.settle(l)
	}
	return k.early.Has(l.owner)
}

// forget takes a lease that is not held any more off the schedule, and off the list of leases unless
// another one has its owner by now. It reports whether no other shares its entry.
func (k *Keeper) forget(l *Lease) (last bool) {
	k.Schedule.Remove(&l.entry)
	last = l.leave()
	k.mu.Lock()
	delete(k.callers, l.id)
	k.left(l)
	if l.named {
		l.named = false // it may be forgotten twice
		if key := l.lock.Keys.State(); k.names[key] > 1 {
			k.names[key]--
		} else {
			delete(k.names, key)
		}
	}
	if l.asked {
		k.shelf.asked.Add(l.owner) // once more: the next lease may have the same owner
	}
	if k.byOwner[l.owner] == l {
		delete(k.byOwner, l.owner)
		delete(k.taken, l.owner)
	}
	k.mu.Unlock()
	if last {
		k.Ended(l.owner)
	}
	return last
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

// forced returns what a message said of an owner that still has a lease, or "".
func (k *Keeper) forced(owner string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken[owner]
}

// unforced forgets what a message wrongly said of an owner.
func (k *Keeper) unforced(owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.taken, owner)
}

// Of returns the lease of an owner, or nil.
func (k *Keeper) Of(owner string) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byOwner[owner]
}

// All returns every lease, in no particular order.
func (k *Keeper) All() []*Lease {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.byOwner))
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

// shelf is the leases that a client keeps: see kept.go.
type shelf struct {
	byLock  map[shelfKey]*Lease
	byOwner map[string]*Lease
	asked   recent.Set // owners that others have asked for; also of leases that are not kept yet
}

// shelfKey is the key of a kept lease on the shelf.
type shelfKey struct{ state, mode string }

// lane is the leases at one server that wait for their turn to be extended. The keeper's mu guards it.
type lane struct {
	waiting  turns
	underWay int // pipelines
	room     int // for pipelines: 1 after one got no answer in time, and 1 more for each that is answered
}

// turn is a lease that waits, and its deadline.
type turn struct {
	lease    *Lease
	deadline time.Time
}

// turns is a heap by deadline: see watchdog.go.
type turns []turn
