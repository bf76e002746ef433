package lease

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// Info is what a debug page shows of a lease.
type Info struct {
	Jeopardy, Outlived, Forgotten bool
	Callers                       []uintptr
}

// Info returns what a debug page shows of the lease.
func (l *Lease) Info() Info {
	outlived := isDone(l.parent) // before mu: it may be the context of another lease
	l.mu.Lock()
	defer l.mu.Unlock()
	return Info{
		Jeopardy: l.state == inJeopardy, Outlived: outlived, Forgotten: l.forgotten > 0, Callers: l.keeper.callersOf(l.id),
	}
}

// NoteForgotten notes that the program has forgotten a lease. The garbage collector calls it. It is
// tempting to tell the hook at once. But a hook that blocks would stop all cleanups of the process, and
// in a bubble of testing/synctest this goroutine has the time outside.
func (l *Lease) NoteForgotten() {
	l.mu.Lock()
	l.forgotten = dropped
	l.mu.Unlock()
	l.keeper.forgotten.Store(true)
}

// The states of a lease that the program has forgotten.
const (
	dropped uint8 = iota + 1
	toldDropped
)

// tellForgotten tells which leases the program has forgotten since the last call, of those that are
// held.
func (k *Keeper) tellForgotten() {
	if !k.forgotten.CompareAndSwap(true, false) { // before the look, which may miss one that is noted now
		return
	}
	for _, l := range k.All() {
		l.mu.Lock()
		left, events := l.left()
		if left > 0 && l.forgotten == dropped {
			l.forgotten = toldDropped
			events = append(events, l.straying(lock.Forgotten, left))
		}
		l.unlock(events...)
	}
}

// outlives returns the event that the lease outlives the context given to Lock, which is done. It
// does so at the second extend after that: at the first, the work may be about to end. The caller
// holds l.mu.
func (l *Lease) outlives(left time.Duration) []lock.Event {
	if l.outlived == 2 {
		return nil
	}
	if l.outlived++; l.outlived < 2 {
		return nil
	}
	return []lock.Event{l.straying(lock.Outlived, left)}
}

// straying returns an event of a lease that is held without need. The caller holds l.mu.
func (l *Lease) straying(what lock.What, left time.Duration) lock.Event {
	return lock.Event{
		What: what, HeldFor: l.keeper.Now().Since(l.acquired), Remaining: left, Callers: l.keeper.callersOf(l.id),
	}
}

// tellOutlived tells the hook which of these leases outlive the context given to Lock.
func tellOutlived(leases []*Lease) {
	for _, l := range leases {
		if !isDone(l.parent) {
			continue
		}
		l.mu.Lock()
		left, events := l.left()
		if left > 0 {
			events = append(events, l.outlives(left)...)
		}
		l.unlock(events...)
	}
}

// isDone reports whether a context is done.
func isDone(ctx context.Context) bool { return isClosed(ctx.Done()) }

// isClosed reports whether a channel, to which no code sends, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
