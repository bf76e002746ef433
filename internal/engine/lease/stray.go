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
		Jeopardy: l.state == inJeopardy, Outlived: outlived, Forgotten: l.forgotten, Callers: l.keeper.callersOf(l.id),
	}
}

// TellForgotten tells that the program has forgotten a lease, if it is held.
func (l *Lease) TellForgotten() {
	l.mu.Lock()
	left, events := l.left()
	if left > 0 {
		l.forgotten = true
		events = append(events, l.straying(lock.Forgotten, left))
	}
	l.unlock(events...)
}

// outlives returns the event that the context which was given to Lock is done, as it is, at the
// second extend after that: the first may come while the work is about to end. The caller holds
// l.mu.
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

// tellOutlived tells which of these leases outlive the context that was given to Lock.
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
func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}
