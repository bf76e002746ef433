package line

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// cancelled is an attempt that gave up while it waited.
type cancelled struct {
	ticket string
	lock   *lock.Lock
	until  time.Time // a request that it sent may arrive until then
}

// lockID is a lock that is waited for. Two kinds under one name have two pollers; Redis refuses one
// of them.
type lockID struct{ kind, state string }

// poller is the waiters of one client for one lock: its part of the line, in no order.
type poller struct {
	line    *Line
	lock    *lock.Lock    // that of the first waiter
	ttl     time.Duration // the shortest of the waiters'
	waiters map[*Waiter]struct{}
	entry   schedule.Entry
	polling bool          // a poll is under way
	outage  error         // why the last poll failed; nil if it did not
	news    chan struct{} // closed when an outage begins or ends; nil if no goroutine looks at it
	inside  lock.Occupant // when Redis told last

	behindForeign bool   // one of the waiters is the first in line, and the holder is of another library
	stopHeeding   func() // ends the listening for LockOptions.Announce; nil if it has not begun
	again         bool   // an announcement came while a poll was under way
}

// Waiter is one attempt in the line.
type Waiter struct {
	lock    *lock.Lock
	group   *handoff.Group // for which it stands in line; nil if for itself alone
	poller  *poller
	Granted chan lock.Grant // with room for the one that comes

	owner   string        // changes when the client has to ask for the place again
	ticket  string        // of that owner
	address string        // in the ticket: only a poll from there keeps the client believed alive
	arrival int64         // its place; 0 until Redis has told it
	asking  bool          // a request for its place is under way
	resent  bool          // a request for its place got no answer, and may arrive late
	sentAt  clock.Reading // before the last request that Redis answered with "in line": a grant that is pushed came later
	fence   int64         // the last token of the name in that answer: a grant that is pushed has a larger one
	callers int           // goroutines that it stands in line for, as noted in Redis; 0 if nothing is noted
	present bool          // it still waits
}

// Add returns a new waiter. Its ticket is sent after that, so that a grant finds it.
func (ln *Line) Add(
	l *lock.Lock, g *handoff.Group, owner, ticket, address string, now clock.Reading,
) *Waiter {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	id := lockID{l.Kind.Name, l.Keys.State()}
	p := ln.pollers[id]
	if p == nil {
		p = &poller{line: ln, lock: l, ttl: l.TTL, waiters: make(map[*Waiter]struct{})}
		p.entry.Owner = p
		ln.pollers[id] = p
	}
	p.ttl = min(p.ttl, l.TTL)
	w := &Waiter{
		lock: l, group: g, poller: p, owner: owner, ticket: ticket, address: address, sentAt: now,
		Granted: make(chan lock.Grant, 1), present: true,
	}
	p.waiters[w] = struct{}{}
	ln.byOwner[owner] = w
	return w
}

// removeLocked takes a waiter out. The caller holds ln.mu.
func (ln *Line) removeLocked(w *Waiter) {
	if !w.present {
		return
	}
	w.present = false
	if w.callers > 0 {
		ln.Notes.Drop(w.owner)
	}
	delete(ln.byOwner, w.owner)
	delete(w.poller.waiters, w)
	if len(w.poller.waiters) == 0 {
		if w.poller.stopHeeding != nil {
			w.poller.stopHeeding()
		}
		delete(ln.pollers, lockID{w.lock.Kind.Name, w.lock.Keys.State()})
	}
}

// endLocked ends the wait of a waiter with a grant, or with the error in it. The caller holds
// ln.mu.
func (ln *Line) endLocked(w *Waiter, g lock.Grant) {
	if w.present {
		ln.removeLocked(w)
		w.Granted <- g
	}
}

// Granted hands a grant that was pushed to its waiter. One that is for a waiter that gave up is given
// back. It reports whether there was such a waiter.
func (ln *Line) Granted(owner string, token int64, detail string) bool {
	if ln.deliver(owner, token, detail) {
		return true
	}
	// It is tempting to give back every grant without a waiter. But a poll, or the acquire itself,
	// may have told this grant first, and then a lease is in use. Only a cancelled waiter's grant
	// is given back: a request that was on its way put its ticket in line after all.
	gone := ln.wasCancelled(owner)
	if gone.lock != nil {
		ln.Undo.Abandon(gone.lock, owner, gone.ticket)
	}
	return gone.lock != nil
}

// deliver hands a grant to its waiter. It reports whether there is one.
//
// It is tempting to believe every message. But one can be late, and its lease may have run out since.
// Then a late copy of the acquisition can have brought the owner in again, with another token, or
// into the line, behind another holder. A poll tells which.
func (ln *Line) deliver(owner string, token int64, detail string) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	w := ln.byOwner[owner]
	if w == nil {
		return false
	}
	g := lock.Grant{
		Owner: owner, Token: token, Spare: w.lock.Spare(), Detail: detail, Resent: w.resent, Ticket: w.ticket,
		Sent: w.sentAt, TTL: min(w.lock.TTL, ln.LiveFor),
	}
	if token <= w.fence || g.Left(ln.Now()) <= 0 {
		ln.pollAfterLocked(w.poller, 0)
		return true
	}
	ln.endLocked(w, g)
	return true
}

// Fail ends the wait of a waiter with err: Redis says that it can never be granted.
func (ln *Line) Fail(w *Waiter, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.endLocked(w, lock.Grant{Err: err})
}

// has reports whether the waiter still waits.
func (ln *Line) has(w *Waiter) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return w.present
}

// Waits reports whether there is a waiter for the name with this key.
func (ln *Line) Waits(state string) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return len(ln.pollersLocked(state)) > 0
}

// pollersLocked returns the pollers for the name with this key. The caller holds ln.mu.
func (ln *Line) pollersLocked(state string) (all []*poller) {
	for _, k := range script.Kinds() {
		if p := ln.pollers[lockID{k.Name, state}]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Status returns an owner inside a lock that is waited for, as far as it is known, and why polls for
// it fail at present, or nil.
func (ln *Line) Status(l *lock.Lock) (occupant lock.Occupant, outage error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if p := ln.pollers[lockID{l.Kind.Name, l.Keys.State()}]; p != nil {
		return p.inside, p.outage
	}
	return lock.Occupant{}, nil
}

// Watch returns why polls for a waiter fail at present, or nil, and a channel that is closed when
// that changes.
func (ln *Line) Watch(w *Waiter) (news <-chan struct{}, outage error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	p := w.poller
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return p.news, p.outage
}

// noteLocked notes that a request for the waiters of a poller failed, or with nil that Redis
// answered one. The caller holds ln.mu.
func (p *poller) noteLocked(outage error) {
	changed := (p.outage == nil) != (outage == nil)
	p.outage = outage
	if changed && p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// Cancel takes a waiter that gives up out of the line, here and in Redis. If the lock is granted
// to it in that moment, the grant is given back. It returns the place that the waiter had.
func (ln *Line) Cancel(w *Waiter) (arrival int64) {
	now := ln.Now().Time()
	owner, ticket, arrival := ln.markCancelled(w, now, now.Add(ln.LiveFor))
	ln.Undo.Abandon(w.lock, owner, ticket)
	return arrival
}

// markCancelled removes a waiter and remembers it until the given time. It returns the waiter's
// owner, ticket and place.
func (ln *Line) markCancelled(w *Waiter, now, until time.Time) (owner, ticket string, arrival int64) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.removeLocked(w)
	for len(ln.order) > 0 && ln.cancelled[ln.order[0]].until.Before(now) {
		delete(ln.cancelled, ln.order[0])
		ln.order = ln.order[1:]
	}
	ln.cancelled[w.owner] = cancelled{w.ticket, w.lock, until}
	ln.order = append(ln.order, w.owner)
	return w.owner, w.ticket, w.arrival
}

// wasCancelled returns the waiter of this owner that gave up lately. Its lock is nil if there is
// none.
func (ln *Line) wasCancelled(owner string) cancelled {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.cancelled[owner]
}

// Place takes the answer to a request for a place. It reports whether the waiter waits on.
func (ln *Line) Place(w *Waiter, s script.Standing, a ask.Answer) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	w.resent = w.resent || a.Resent
	if !w.present {
		return false // granted, or cancelled
	}
	w.poller.noteLocked(nil)
	if s.Inside {
		ln.endLocked(w, w.grantOf(s, a))
		return false
	}
	w.arrival, w.asking = s.Arrival, false
	w.sentAt, w.fence = a.Sent, s.Fence
	w.poller.inside = lock.OccupantAt(s.Occupant, s.Remaining, ln.Now())
	ln.heedLocked(w.poller, s.First, s.Foreign)
	ln.pollAfterLocked(w.poller, ln.nextPollLocked(w.poller, s.First, s.Remaining, s.Foreign))
	return true
}

// grantOf returns the grant that an answer of Redis tells of.
func (w *Waiter) grantOf(s script.Standing, a ask.Answer) lock.Grant {
	return w.lock.Inside(w.owner, w.ticket, s, a, w.resent)
}

// applyStatusLocked takes how a waiter stood when a poll reached Redis. The caller holds ln.mu.
//
// It must not touch a waiter that does not wait any more. Such a waiter was granted, and its lease
// may be in use; or it was cancelled, and a release is on its way.
func (ln *Line) applyStatusLocked(w *Waiter, ticket string, s script.Standing, a ask.Answer) {
	switch {
	case !w.present || w.ticket != ticket:
	case s.Inside: // the message was lost, or is on its way
		ln.endLocked(w, w.grantOf(s, a))
	case s.Missing:
		ln.restoreLocked(w)
	default:
		w.sentAt, w.fence = a.Sent, s.Fence
		ln.noteCallersLocked(w)
	}
}

// noteCallersLocked notes for how many goroutines a waiter stands in line, if there is more than
// itself and the number has changed. The caller holds ln.mu.
func (ln *Line) noteCallersLocked(w *Waiter) {
	if w.group == nil {
		return
	}
	n := 1 + ln.Handoffs.Waiting(w.group)
	if n != max(w.callers, 1) && ln.Notes.SetCallers(w.owner, n) {
		w.callers = n
	}
}

// restoreLocked asks for a waiter's place again: Redis lost the line, or passed over this client
// while it did not listen. The waiter takes a new owner, since the old one may have been inside and
// run out. A late grant of the old one must not count any more. The caller holds ln.mu.
func (ln *Line) restoreLocked(w *Waiter) {
	if w.resent {
		ln.Undo.Abandon(w.lock, w.owner, w.ticket) // a request for its place may still arrive
		w.resent = false
	}
	delete(ln.byOwner, w.owner)
	before := w.owner
	w.owner = ln.Owner()
	ln.Notes.Move(before, w.owner)
	// Perhaps the line was lost, and perhaps the client was taken for dead, though it listens. In a
	// cluster it may listen at a node that was the master. It is tempting to ask for the same place
	// again: at each heartbeat the ticket would be dropped again, for as long as that is so.
	if s := ln.Subscription(w.lock); s.Sharded() && s.Address() == w.address {
		s.MarkUncounted()
	}
	w.ticket, w.address = ln.Ticket(w.lock, w.owner)
	w.asking, w.sentAt, w.fence = true, ln.Now(), 0
	ln.byOwner[w.owner] = w
	owner, ticket, address, arrival := w.owner, w.ticket, w.address, w.arrival
	ln.Spawn(func() {
		for failed := false; ln.has(w); failed = true {
			standing, answer, err := ln.Request(ln.Closing, w.lock, owner, ticket, address, arrival, 0)
			switch {
			case err == nil:
				answer.Resent = answer.Resent || failed
				ln.Place(w, standing, answer)
				return
			case standing.Refused != "":
				ln.Fail(w, err)
				return
			}
			ln.mu.Lock()
			w.poller.noteLocked(err)
			ln.mu.Unlock()
			retry.Sleep(ln.Closing, PollDisconnected)
		}
	})
}
