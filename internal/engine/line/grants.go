package line

import (
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Granted hands a pushed grant to its waiter. A grant for a waiter that gave up is given back.
// Granted reports whether there is or was such a waiter.
func (ln *Line) Granted(owner string, token int64, detail string) bool {
	return ln.deliver(owner, token, detail) || ln.LeaveAgain(owner, 0)
}

// LeaveAgain has a waiter that gave up lately, but at least this long ago, leave the line and the
// lock once more: Redis has called it. The call crossed its release, or a request that was on its
// way put its ticket in line after all. It reports whether there was such a waiter.
//
// It is tempting to give back every grant without a waiter. But a poll, or the acquire itself, may
// have brought this grant first, and then its lease is in use.
func (ln *Line) LeaveAgain(owner string, ago time.Duration) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	gone, known := ln.canceled[owner]
	if known && ln.Now().Time().Sub(gone.at) >= ago {
		ln.Undo.Abandon(gone.lock, owner, gone.ticket)
	}
	return known
}

// deliver hands a grant to its waiter. It reports whether there is one.
//
// It is tempting to believe every message. But a message can be late, and its lease may have run
// out since. Then a late copy of the acquisition can have let the owner in again, with another
// token, or put it in line, behind another holder. A poll tells which.
func (ln *Line) deliver(owner string, token int64, detail string) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	w := ln.byOwner[owner]
	if w == nil {
		return false
	}
	g := lock.Grant{
		Owner: owner, Token: token, Spare: w.lock.Spare(), Detail: detail, Resent: w.resent || w.asking, Ticket: w.ticket,
		Sent: w.sentAt, TTL: min(w.lock.TTL, ln.LiveFor),
	}
	if token <= w.fence || g.Left(ln.Now()) <= 0 {
		w.missed = !w.inLineLocked()
		ln.pollAfterLocked(w.poller, 0)
		return true
	}
	ln.endLocked(w, g)
	return true
}

// endLocked ends the wait of a waiter with a grant, or with the error in it. The caller holds
// ln.mu.
func (ln *Line) endLocked(w *Waiter, g lock.Grant) {
	if w.present {
		ln.removeLocked(w)
		w.Granted <- g
		if g.Err == nil && w.lock.Kind == script.Reentrant {
			ln.followLocked(w)
		}
	}
}

// followLocked has a poller poll now if more of its waiters have the owner that came in: a poll
// lets them in, past the line. Redis tells none behind another owner. The caller holds ln.mu.
func (ln *Line) followLocked(came *Waiter) {
	if came.poller.entries[came.lock.Kind.Detail(came.lock.Param)] > 0 {
		ln.pollNowLocked(came.poller)
	}
}

// Fail ends the wait of a waiter with err: Redis says that it can never be granted.
func (ln *Line) Fail(w *Waiter, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.endLocked(w, lock.Grant{Err: err})
}

// Place handles the answer to a request for a place. It reports whether the waiter still waits. If
// the waiter is first in line behind a client that may only keep the lock, Place asks that client.
func (ln *Line) Place(w *Waiter, s script.Standing, a ask.Answer) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	w.resent = w.resent || a.Resent
	if !w.present {
		return false // granted, or canceled
	}
	w.poller.noteLocked(nil)
	if s.Inside {
		ln.endLocked(w, w.grantOf(s, a))
		return false
	}
	w.setPlaceLocked(s.Arrival, false)
	w.sentAt, w.fence = a.Sent, s.Fence
	w.poller.inside = lock.OccupantAt(s.Occupant, s.Remaining, ln.Now())
	if s.First { // else another waiter of the poller may be the first, and goes on listening
		ln.heedLocked(w.poller, s.Foreign)
	}
	next := ln.nextPollLocked(w.poller, s.First, s.Remaining, s.Foreign)
	if w.missed { // that poll was for a reason, perhaps this waiter's
		w.missed, next = false, 0
	}
	ln.pollAfterLocked(w.poller, next)
	ln.AskKeeper(w.lock, s.First && !s.Asked, s.Occupant)
	return true
}

// grantOf returns the grant that an answer of Redis tells of.
func (w *Waiter) grantOf(s script.Standing, a ask.Answer) lock.Grant {
	return w.lock.Inside(w.owner, w.ticket, s, a, w.resent)
}

// applyStatusLocked notes how a waiter stood when a poll reached Redis. The caller holds ln.mu.
//
// It must not touch a waiter that does not wait any more. Such a waiter was granted, and its lease
// may be in use; or it was canceled, and a release is on its way.
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

// noteCallersLocked notes for how many goroutines a waiter stands in line, if that has changed. As
// long as it was always 1, there is no note. The caller holds ln.mu.
func (ln *Line) noteCallersLocked(w *Waiter) {
	if w.group == nil {
		return
	}
	n := 1 + ln.Handoffs.Waiting(w.group)
	if n != max(w.callers, 1) && ln.Notes.SetCallers(w.owner, n) {
		w.callers = n
	}
}
