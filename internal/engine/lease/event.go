package lease

import "time"

// What happened to a lease.
type What string

// The values are those of the root's EventType.
const (
	Released     What = "released"
	Lost         What = "lost"
	Extended     What = "extended"
	ExtendFailed What = "extend_failed"
	Jeopardy     What = "jeopardy"
	Detached     What = "detached"
	Outlived     What = "outlived"
	Forgotten    What = "forgotten"
)

// Event is what the client is told of a lease.
type Event struct {
	What      What
	HeldFor   time.Duration
	Before    time.Duration // an extend, what was left
	Remaining time.Duration
	Reason    Reason    // of a loss
	Err       error     // of a loss, of an extend or of a release
	Callers   []uintptr // of the acquisition, if that was noted
}

// Reason is why a lease was lost.
type Reason string

// The values are those of the root's LossReason, which tells more of each.
const (
	ReasonExpired    Reason = "expired"
	ReasonGone       Reason = "gone"
	ReasonDeleted    Reason = "deleted"
	ReasonForgotten  Reason = "forgotten"
	ReasonForced     Reason = "forced"
	ReasonMaxHold    Reason = "max_hold"
	ReasonNotRenewed Reason = "not_renewed"
	ReasonClosed     Reason = "closed"
)

// told reports whether it was Redis that said that the lease is gone.
func (r Reason) told() bool {
	return r == ReasonGone || r == ReasonDeleted || r == ReasonForgotten || r == ReasonForced
}

// Loss is why a lease is lost.
type Loss struct {
	Reason Reason
	Note   string // of the forced release, if it is known: see script.ParseNote
}

// emit tells the client what has become of a lease. The caller does not hold l.mu, since a hook may
// call the lease.
func (l *Lease) emit(e Event) {
	if e.What == Extended || e.What == Jeopardy {
		e.HeldFor = l.keeper.Now().Since(l.acquired)
	}
	l.keeper.Tell(l, e)
}

// TellForgotten tells that the program has forgotten a lease, if it is held.
func (l *Lease) TellForgotten() {
	l.mu.Lock()
	left, events := l.left()
	if left > 0 {
		l.forgotten = true
		events = append(events, l.straying(Forgotten, left))
	}
	l.unlock(events...)
}

// outlives returns the event that the context which was given to Lock is done, as it is, at the
// second extend after that: the first may come while the work is about to end. The caller holds
// l.mu.
func (l *Lease) outlives(left time.Duration) []Event {
	if l.outlived == 2 {
		return nil
	}
	if l.outlived++; l.outlived < 2 {
		return nil
	}
	return []Event{l.straying(Outlived, left)}
}

// straying returns an event of a lease that is held without need. The caller holds l.mu.
func (l *Lease) straying(what What, left time.Duration) Event {
	return Event{
		What: what, HeldFor: l.keeper.Now().Since(l.acquired), Remaining: left, Callers: l.keeper.callersOf(l.id),
	}
}
