package lease

import (
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// Attach gives the turn to the lease. When the lease ends, it is passed on to the goroutines that
// are waiting now, or the next goroutine acquires the lock.
func (l *Lease) Attach(g *handoff.Group) {
	l.mu.Lock()
	others, revoked := l.keeper.Handoffs.Look(g, l.owner)
	l.spare = min(l.spare, int16(others))
	l.group = g
	g.MarkHolder(&l.owner)
	var events []lock.Event
	switch {
	case l.state > inJeopardy: // it has ended already
		l.detachLocked()
	case revoked: // before there was a lease that could be told
		events = l.recheck()
	}
	l.unlock(events...)
}

// handOff passes a lease that has just been given up on to the next goroutine of its group. was is
// its state before. It reports false if the lease has to go back to Redis instead: then the lease
// keeps the turn. handedOff in the root's latch.go decides which locks have groups.
func (l *Lease) handOff(was state, now clock.Reading) bool {
	l.mu.Lock()
	due := l.long() || !now.Time().Before(l.extendAt(now))
	var next *handoff.Waiter
	if l.group != nil && fitToPass(was, int(l.spare), due, l.keeper.Closing.Err() != nil) {
		next = l.keeper.Handoffs.Pop(l.group, l.owner)
	}
	if next == nil {
		l.mu.Unlock()
		return false
	}
	defer next.HandOver(l.batonLocked()) // after the hook was told of the release
	l.state, l.group = released, nil
	l.unlock(lock.Event{What: lock.Released, HeldFor: now.Since(l.acquired)})
	return true
}

// fitToPass reports whether a lease can be passed on as it is: it was held without doubt, there is
// a token for the next goroutine, no extend is due and the client is not closing. Any other lease
// goes back to Redis, which shows whether it is still ours.
func fitToPass(was state, spare int, due, closing bool) bool {
	return was == held && spare != 0 && !due && !closing
}

// batonLocked returns the grant that passes the lease to the next goroutine. The caller holds l.mu.
func (l *Lease) batonLocked() *lock.Grant {
	return &lock.Grant{
		Owner: l.owner, Token: l.token + 1, Spare: int(l.tokens) - 1, Run: int(l.spare) - 1,
		Hearing: l.hearing, Sent: l.sentAt, TTL: l.ttl, Resent: l.resent, Ticket: l.ticket, Passed: true,
	}
}
