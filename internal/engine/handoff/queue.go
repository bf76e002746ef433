package handoff

import (
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch/internal/base/recent"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// maxRun is how many goroutines in a row have a mutex before it goes back to Redis. takeOver in
// acquire/turns.go takes tokens for so many, and lease/pass.go passes the mutex on, or stops earlier.
const maxRun = 128

// Queue holds the groups of one client. The zero value is ready for use, and safe for concurrent
// use.
type Queue struct {
	mu      sync.Mutex        // guards what is below, and the waiters of all groups
	groups  map[string]*Group // by the key of the mutex
	revoked recent.Set        // owners whose mutex was taken by force, while there are groups
}

// Group is the goroutines of one client that want the same mutex. It is small, since each lease of
// a mutex has one: the waiters are linked with each other, in a ring.
type Group struct {
	key     string
	options lock.Terms
	first   *Waiter // of those that wait, in order of arrival; before it in the ring is the last
	waiting int32
	redis   atomic.Int32           // what the group heard last: unheard, answered or silent; not guarded
	holder  atomic.Pointer[string] // the owner of the lease that had the turn last; nil if none had; not guarded
}

// Waiter is a goroutine that waits for the turn of its group.
type Waiter struct {
	turn           chan Turn // with room for one
	previous, next *Waiter   // in the ring; nil once it was taken out
}

// Way says how a goroutine comes to have the mutex.
type Way uint8

const (
	Begin   Way = iota // it begins the group, and acquires the mutex
	Acquire            // it acquires the mutex, since the goroutine before it had none to pass on
	Take               // it takes the mutex over, as the baton says
	Alone              // it acquires the mutex for itself: the group has ended, and has no turn
)

// Turn is what a waiter is told.
type Turn struct {
	Way     Way
	Baton   *lock.Grant // to Take
	Arrival int64       // to Acquire: the place in Redis of a goroutine that gave up; 0 for a new one
}

// What a group has heard from Redis.
const (
	unheard int32 = iota
	answered
	silent
)

// MarkAnswered notes that Redis has said how things stand with the mutex: it is taken, or granted.
func (g *Group) MarkAnswered() { g.redis.Store(answered) }

// MarkSilent notes that Redis answered the group before, and does not now.
func (g *Group) MarkSilent() { g.redis.CompareAndSwap(answered, silent) }

// Answered reports whether Redis has said anything of the mutex to this group.
func (g *Group) Answered() bool { return g.redis.Load() != unheard }

// Reachable reports whether Redis has answered the group, and was not found to be silent since.
func (g *Group) Reachable() bool { return g.redis.Load() == answered }

// MarkHolder notes that a lease with this owner has the turn. Holder returns its owner, from then
// on.
func (g *Group) MarkHolder(owner *string) { g.holder.Store(owner) }

// Holder returns the owner of the lease that had the turn last, or "" if none had.
func (g *Group) Holder() string {
	if owner := g.holder.Load(); owner != nil {
		return *owner
	}
	return ""
}

// Turn returns the channel on which the waiter is told its turn, once.
func (w *Waiter) Turn() <-chan Turn { return w.turn }

// HandOver passes the mutex on to a waiter that [Queue.Pop] returned.
func (w *Waiter) HandOver(baton *lock.Grant) { w.turn <- Turn{Way: Take, Baton: baton} }

// Join enters the group of the mutex with this key. The first goroutine begins a group: w is nil,
// and the goroutine has the turn. If the group has other options, Join returns nil for both, and
// the caller acquires the mutex without a group.
func (q *Queue) Join(key string, options lock.Terms) (g *Group, w *Waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g = q.groups[key]
	switch {
	case g == nil:
		return q.beginLocked(key, options), nil
	case g.options != options:
		return nil, nil
	}
	w = &Waiter{turn: make(chan Turn, 1)}
	g.pushLocked(w)
	return g, w
}

// Waiting returns how many goroutines wait.
func (q *Queue) Waiting(g *Group) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(g.waiting)
}

// Others returns how many goroutines wait, at most as many as one run can serve.
func (q *Queue) Others(g *Group) int {
	others, _ := q.Look(g, "")
	return others
}

// Look returns how many goroutines wait, at most as many as one run can serve, and whether the
// mutex was taken from this owner by force.
func (q *Queue) Look(g *Group, owner string) (others int, revoked bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(int(g.waiting), maxRun-1), q.revoked.Has(owner)
}

// Revoke notes that a mutex was taken from this owner by force. It may be the owner of any group,
// even one that Redis has just let in and that has no lease yet.
func (q *Queue) Revoke(owner string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.groups) > 0 {
		q.revoked.Add(owner)
	}
}

// Withdraw takes a waiter out of the queue. It reports false if the waiter is no longer there: then
// its turn is on the channel, or about to be, and the caller has to receive it and let it go on.
func (q *Queue) Withdraw(g *Group, w *Waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.next == nil {
		return false
	}
	g.removeLocked(w)
	return true
}

// Pop takes the first waiter out of the queue for a mutex that this owner has. The caller has to
// call HandOver. Pop returns nil if no goroutine waits, or if the mutex was taken from the owner by
// force: there is nothing to pass on then.
func (q *Queue) Pop(g *Group, owner string) *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g.first == nil || q.revoked.Has(owner) {
		return nil
	}
	return g.popLocked()
}

// Next has the first waiter acquire the mutex from Redis, at this place in its line. Without a
// waiter, the group ends.
func (q *Queue) Next(g *Group, arrival int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g.first == nil {
		q.endLocked(g)
		return
	}
	g.popLocked().turn <- Turn{Way: Acquire, Arrival: arrival}
}

// Dissolve ends the group: all waiters acquire the mutex for themselves. It does nothing if the
// group has ended.
func (q *Queue) Dissolve(g *Group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endLocked(g)
	for g.first != nil {
		g.popLocked().turn <- Turn{Way: Alone}
	}
}

// beginLocked adds a group.
func (q *Queue) beginLocked(key string, options lock.Terms) *Group {
	if q.groups == nil {
		q.groups = make(map[string]*Group)
	}
	g := &Group{key: key, options: options}
	q.groups[key] = g
	return g
}

// endLocked removes a group, so that the next goroutine that wants the mutex begins a new one.
func (q *Queue) endLocked(g *Group) {
	if q.groups[g.key] == g { // a group that was dissolved may have a successor
		delete(q.groups, g.key)
	}
	if len(q.groups) == 0 {
		q.revoked = recent.Set{}
	}
}

// pushLocked adds a waiter at the end. The caller holds the mu of the queue.
func (g *Group) pushLocked(w *Waiter) {
	g.waiting++
	if g.first == nil {
		g.first, w.previous, w.next = w, w, w
		return
	}
	last := g.first.previous
	w.previous, w.next = last, g.first
	last.next, g.first.previous = w, w
}

// popLocked takes the first waiter out. The caller holds the mu of the queue.
func (g *Group) popLocked() *Waiter {
	w := g.first
	g.removeLocked(w)
	return w
}

// removeLocked takes a waiter out, wherever it is in the ring. The caller holds the mu of the
// queue.
func (g *Group) removeLocked(w *Waiter) {
	g.waiting--
	switch {
	case w.next == w:
		g.first = nil
	case g.first == w:
		g.first = w.next
	}
	w.previous.next, w.next.previous = w.next, w.previous
	w.previous, w.next = nil, nil
}
