package lease

import (
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// emit tells the client what has become of a lease. The caller does not hold l.mu, since a hook may
// call the lease.
func (l *Lease) emit(e lock.Event) {
	if e.What == lock.Extended || e.What == lock.Jeopardy {
		e.HeldFor = l.keeper.Now().Since(l.acquired)
	}
	e.ID, e.Owner, e.Token = l.id, l.owner, l.token
	l.keeper.Tell(l.Context(), l.lock, e)
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
