package line

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// canceled is a waiter that has left.
type canceled struct {
	ticket string
	lock   *lock.Lock
	at     time.Time // a request that it sent may arrive for a while from then on
}

// lockID is a lock that is waited for. Two kinds under one name have two pollers; Redis refuses one
// of them.
type lockID struct{ kind, state string }

// channel is where another library announces a release.
type channel struct {
	name    string
	sharded bool
}

// poller is the waiters of one client for one lock: its part of the line, in no order.
type poller struct {
	line    *Line
	lock    *lock.Lock    // that of the first waiter
	ttl     time.Duration // the shortest of the waiters' at the last poll, and of those that came since
	waiters map[*Waiter]struct{}
	entries map[string]int // of a reentrant mutex: how many of them each owner has
	placed  int            // of them, those in line
	entry   schedule.Entry
	polling bool          // a poll is under way
	outage  error         // why the last poll failed; nil if it did not
	news    chan struct{} // closed when an outage begins or ends; nil if no goroutine looks at it
	inside  lock.Occupant // as Redis last told

	behindForeign bool               // one of the waiters is the first in line, and the holder is of another library
	heeding       map[channel]func() // end the listening for LockOptions.Announce
	again         bool               // a poll is to follow the one that is under way
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
	asking  bool          // a request for its place is under way, once more
	missed  bool          // a poll was asked for, for a reason, before its place was known
	resent  bool          // a request for its place got no answer, and may arrive late
	sentAt  clock.Reading // before the last request that Redis answered with "in line": a grant that is pushed came later
	fence   int64         // the last token of the name in that answer: a grant that is pushed has a larger one
	called  clock.Reading // when Redis last told it to ask at once; zero if it has not
	callers int           // goroutines that it stands in line for, as noted in Redis; 0 if nothing is noted
	present bool          // it still waits
	gaveUp  bool          // its attempt has canceled it
}

// Add returns a new waiter. Its ticket is sent after that, so that a grant finds the waiter.
func (ln *Line) Add(
	l *lock.Lock, g *handoff.Group, owner, ticket, address string, now clock.Reading,
) *Waiter {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	id := lockID{l.Kind.Name, l.Keys.State()}
	p := ln.pollers[id]
	if p == nil {
		p = &poller{
			line: ln, lock: l, ttl: l.TTL, waiters: make(map[*Waiter]struct{}),
			entries: make(map[string]int), heeding: make(map[channel]func()),
		}
		p.entry.Owner = p
		ln.pollers[id] = p
	}
	p.ttl = min(p.ttl, l.TTL)
	w := &Waiter{
		lock: l, group: g, poller: p, owner: owner, ticket: ticket, address: address, sentAt: now,
		Granted: make(chan lock.Grant, 1), present: true,
	}
	p.waiters[w] = struct{}{}
	if l.Kind == script.Reentrant {
		p.entries[l.Kind.Detail(l.Param)]++
	}
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
	if l := w.lock; l.Kind == script.Reentrant {
		owner := l.Kind.Detail(l.Param)
		if w.poller.entries[owner]--; w.poller.entries[owner] == 0 {
			delete(w.poller.entries, owner)
		}
	}
	if w.inLineLocked() {
		w.poller.placed--
	}
	if len(w.poller.waiters) == 0 {
		for _, stop := range w.poller.heeding {
			stop()
		}
		delete(ln.pollers, lockID{w.lock.Kind.Name, w.lock.Keys.State()})
	}
}

// has reports whether the waiter still waits.
func (ln *Line) has(w *Waiter) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return w.present
}

// hasGivenUp reports whether the attempt of the waiter has canceled it.
func (ln *Line) hasGivenUp(w *Waiter) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return w.gaveUp
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

// Told returns an owner inside the lock, as polls for a waiter told last; none if no poll has. The waiter
// may have left the line.
func (ln *Line) Told(w *Waiter) lock.Occupant {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return w.poller.inside
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

// inLineLocked reports whether Redis has told the waiter's place, and it is not being asked for again.
// The caller holds ln.mu.
func (w *Waiter) inLineLocked() bool { return w.arrival != 0 && !w.asking }

// setPlaceLocked notes the waiter's place in line, or that it is being asked for. The caller holds ln.mu.
func (w *Waiter) setPlaceLocked(arrival int64, asking bool) {
	if w.inLineLocked() {
		w.poller.placed--
	}
	if w.arrival, w.asking = arrival, asking; w.inLineLocked() {
		w.poller.placed++
	}
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

// Cancel takes a waiter that gives up out of the line, here and in Redis. If the lock is granted to
// it at that moment, the release that takes it out gives the grant back; Granted gives back a grant
// that is told later. It returns the place that the waiter had.
func (ln *Line) Cancel(w *Waiter) (arrival int64) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	answered := w.present && w.inLineLocked() && !w.resent // all requests for its place
	ln.removeLocked(w)
	w.gaveUp = true
	ln.rememberLocked(w.lock, w.owner, w.ticket)
	if answered {
		ln.Undo.LeaveLine(w.lock, w.owner, w.ticket)
	} else {
		ln.Undo.Abandon(w.lock, w.owner, w.ticket)
	}
	return w.arrival
}

// Remember remembers for a while a waiter over a quorum that has left, or has the latch, and whose
// ticket was in a request without an answer: a node may put the ticket in line after all.
func (ln *Line) Remember(l *lock.Lock, waiter, ticket string) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.rememberLocked(l, waiter, ticket)
}

// rememberLocked is Remember for a caller that holds ln.mu.
func (ln *Line) rememberLocked(l *lock.Lock, owner, ticket string) {
	if _, known := ln.canceled[owner]; known { // another node had no answer either
		return
	}
	now := ln.Now().Time()
	ln.canceled[owner] = canceled{ticket, l, now}
	ln.order = append(ln.order, owner)
	ln.forgetLocked(now)
}

// forgetter is a Line as the schedule knows it: it forgets waiters that gave up.
type forgetter Line

// Due implements [schedule.Owner].
func (f *forgetter) Due(now clock.Reading) {
	ln := (*Line)(f)
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.forgetLocked(now.Time())
}

// forgetLocked forgets the waiters whose requests cannot arrive any more. The caller holds ln.mu.
func (ln *Line) forgetLocked(now time.Time) {
	for len(ln.order) > 0 && !now.Before(ln.canceled[ln.order[0]].at.Add(ln.Remembers)) {
		delete(ln.canceled, ln.order[0])
		ln.order = ln.order[1:]
	}
	if len(ln.order) == 0 { // after a burst
		ln.canceled, ln.order = make(map[string]canceled), nil
		return
	}
	ln.Schedule.Advance(&ln.forget, ln.canceled[ln.order[0]].at.Add(ln.Remembers))
}
