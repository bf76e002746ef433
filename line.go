package redlatch

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/retry"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
	"github.com/redlatch/redlatch/internal/subscribe"
)

// Waiting, as seen from the client. Each attempt that waits is a waiter; the waiters for one latch share a line, and the line sends one
// await for all of them: at every heartbeat, just after the holder's lease could have run out if one of them is the first, and at once
// when the subscription comes back. Nothing else is sent while they wait.

// The paces at which a line awaits when the heartbeat would be too slow.
const (
	deafPace    = 250 * time.Millisecond // while the subscription is down
	foreignPace = 100 * time.Millisecond // for the first in line, while a holder that grants nothing is inside
	afterExpiry = 5 * time.Millisecond   // past the end of the holder's lease, which Redis rounds
)

// maxAwait is how many tickets one await carries, to keep a script short.
const maxAwait = 256

// room is where all waiters of a client are.
type room struct {
	mu      sync.Mutex // guards what is below, and the fields of lines and waiters
	waiters map[string]*waiter
	lines   map[lineID]*line
	gone    map[string]departure // the attempts that gave up lately, by owner
	leaving []string             // their owners, in that order
}

// departure is an attempt that gave up while it waited.
type departure struct {
	ticket string
	latch  *latch
	until  time.Time // a request of its that was on its way may arrive until then
}

// lineID is a latch that is waited for. Two kinds under one name are two lines; Redis refuses one of them.
type lineID struct{ kind, state string }

// line is the waiters of one client for one latch.
type line struct {
	latch   *latch        // of whoever came first
	ttl     time.Duration // the shortest of the waiters'
	waiters map[*waiter]struct{}
	entry   schedule.Entry
	awaits  bool  // an await is under way
	outage  error // why the last await failed; nil if it did not
}

// waiter is one attempt in line.
type waiter struct {
	latch   *latch
	line    *line
	granted chan grant // with room for the one that comes

	owner   string        // changes when its place in line has to be asked for again
	ticket  string        // of that owner
	address string        // in the ticket: only an await from there keeps the ticket's client believed alive
	arrival int64         // its place; 0 until Redis told
	asking  bool          // a request for its place is under way
	resent  bool          // a request for its place got no answer, and may arrive late
	anchor  clock.Reading // before the last request that Redis answered with "in line": a grant that is pushed came later
	present bool          // still in the room
}

func (r *room) init() {
	r.waiters = make(map[string]*waiter)
	r.lines = make(map[lineID]*line)
	r.gone = make(map[string]departure)
}

// enter adds a waiter whose ticket is about to be sent.
func (r *room) enter(l *latch, owner, ticket, address string, now clock.Reading) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := lineID{l.kind.Name, l.keys.State}
	ln := r.lines[id]
	if ln == nil {
		ln = &line{latch: l, ttl: l.options.TTL, waiters: make(map[*waiter]struct{})}
		ln.entry.Owner = ln
		r.lines[id] = ln
	}
	ln.ttl = min(ln.ttl, l.options.TTL)
	w := &waiter{
		latch: l, line: ln, owner: owner, ticket: ticket, address: address, anchor: now, granted: make(chan grant, 1), present: true,
	}
	ln.waiters[w] = struct{}{}
	r.waiters[owner] = w
	return w
}

// remove takes a waiter out, with mu held.
func (r *room) remove(w *waiter) {
	if !w.present {
		return
	}
	w.present = false
	delete(r.waiters, w.owner)
	delete(w.line.waiters, w)
	if len(w.line.waiters) == 0 {
		delete(r.lines, lineID{w.latch.kind.Name, w.latch.keys.State})
	}
}

// deliver hands a grant to its waiter, and reports whether there is one.
func (r *room) deliver(owner string, g func(*waiter) grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiters[owner]
	if w == nil {
		return false
	}
	r.remove(w)
	w.granted <- g(w)
	return true
}

// has reports whether the waiter still waits.
func (r *room) has(w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.present
}

// outage is why awaits for this latch fail at present, if they do.
func (r *room) outage(l *latch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ln := r.lines[lineID{l.kind.Name, l.keys.State}]; ln != nil {
		return ln.outage
	}
	return nil
}

// depart removes a waiter that gives up, remembers it until then, and returns what it was in line as, and where.
func (r *room) depart(w *waiter, now, until time.Time) (owner, ticket string, arrival int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(w)
	for len(r.leaving) > 0 && r.gone[r.leaving[0]].until.Before(now) {
		delete(r.gone, r.leaving[0])
		r.leaving = r.leaving[1:]
	}
	r.gone[w.owner] = departure{w.ticket, w.latch, until}
	r.leaving = append(r.leaving, w.owner)
	return w.owner, w.ticket, w.arrival
}

// gaveUp is how this owner gave up; without a latch if it is none of those that did.
func (r *room) gaveUp(owner string) departure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone[owner]
}

// giveUp takes a waiter out of the line, here and in Redis, and gives back the latch if it was granted in that moment. It returns the place that it had.
func (c *Client) giveUp(w *waiter) (arrival int64) {
	now := c.now().Time()
	owner, ticket, arrival := c.room.depart(w, now, now.Add(c.horizon()))
	c.abandon(w.latch, owner, ticket)
	return arrival
}

// inside is the grant that an answer of Redis tells a waiter.
func (w *waiter) inside(s script.Standing, a answer) grant {
	return w.latch.inside(w.owner, w.ticket, s, a, w.resent)
}

// stands takes in the answer to a request for a place, and reports whether the waiter is in line.
func (c *Client) stands(w *waiter, s script.Standing, a answer) bool {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	w.resent = w.resent || a.resent
	if !w.present {
		return false // granted, or gone
	}
	if s.Inside {
		c.room.remove(w)
		w.granted <- w.inside(s, a)
		return false
	}
	w.arrival, w.anchor, w.asking = s.Arrival, a.sent, false
	c.schedule.Advance(&w.line.entry, c.now().Time().Add(c.pace(w.line, s.First, s.Remaining, s.Foreign)))
	return true
}

// pace is the time until the next await of a line, with the room's mu held. What it says of the holder matters if one of the line's waiters is the first of all.
func (c *Client) pace(ln *line, first bool, remaining time.Duration, foreign bool) time.Duration {
	// A third of the TTL at most: a grant counts from the last await before it, and must then have most of its time left.
	d := retry.Jitter(min(c.options.Heartbeat, ln.ttl/3), 0.1)
	if !c.subscriptionFor(ln.latch).Connected() {
		d = min(d, retry.Jitter(deafPace, 0.3))
	}
	if !first {
		return d
	}
	if remaining >= 0 {
		d = min(d, remaining+afterExpiry)
	}
	if foreign {
		d = min(d, retry.Jitter(foreignPace, 0.5))
	}
	return d
}

// Due implements [schedule.Owner].
func (ln *line) Due(clock.Reading) {
	c := ln.latch.client
	c.spawn(func() { c.beat(ln) })
}

// beat sends one await for all waiters of the line that have a place.
func (c *Client) beat(ln *line) {
	waiters, ok := c.room.roll(ln)
	if !ok {
		return
	}
	c.room.mu.Lock()
	next := c.pace(ln, false, 0, false)
	c.room.mu.Unlock()
	for _, chunk := range roundsOf(waiters) {
		d, err := c.await(ln, chunk)
		if err != nil {
			next = min(next, retry.Jitter(deafPace, 0.3)) // it has tried for a while already
			break
		}
		next = min(next, d)
	}
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	ln.awaits = false
	if len(ln.waiters) > 0 {
		c.schedule.Advance(&ln.entry, c.now().Time().Add(next))
	}
}

// roundsOf is these waiters in groups that one await can ask for: with the same address, of which there are two if a client in a cluster
// began to listen for this very latch while some waited already.
func roundsOf(waiters []*waiter) (rounds [][]*waiter) {
	slices.SortFunc(waiters, func(a, b *waiter) int { return strings.Compare(a.address, b.address) })
	for len(waiters) > 0 {
		n := slices.IndexFunc(waiters, func(w *waiter) bool { return w.address != waiters[0].address })
		if n < 0 {
			n = len(waiters)
		}
		rounds = slices.AppendSeq(rounds, slices.Chunk(waiters[:n], maxAwait))
		waiters = waiters[n:]
	}
	return rounds
}

// roll begins an await of the line and returns who is to be asked for, unless one is under way.
func (r *room) roll(ln *line) (waiters []*waiter, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ln.awaits {
		return nil, false
	}
	ln.awaits = true
	waiters = make([]*waiter, 0, len(ln.waiters))
	for w := range ln.waiters {
		if w.arrival != 0 && !w.asking {
			waiters = append(waiters, w)
		}
	}
	return waiters, true
}

// await asks how these waiters stand, who have the same address, and returns when to ask again.
func (c *Client) await(ln *line, waiters []*waiter) (time.Duration, error) {
	tickets, l := make([]string, len(waiters)), ln.latch
	c.room.mu.Lock()
	address := waiters[0].address
	for i, w := range waiters {
		// It is tempting to ask from where the client listens by now. The anchor below would move, and with it the deadline of a grant to
		// come, while in Redis nothing does: two could hold.
		tickets[i] = w.ticket
	}
	c.room.mu.Unlock()
	answer, err := c.ask(c.closing, "wait for", l, l.kind.Await(l.keys, address, c.horizon(), c.options.FenceTTL, tickets))
	var stand script.Line
	if err == nil {
		stand, err = script.ParseAwait(answer.Reply, len(tickets))
	}
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if ln.outage = err; err != nil {
		return 0, err
	}
	for i, s := range stand.Tickets {
		c.settle(waiters[i], tickets[i], s, answer)
	}
	return c.pace(ln, stand.First, stand.Remaining, stand.Foreign), nil
}

// settle takes in how a waiter stood when an await reached Redis, of which this is the answer, with the room's mu held.
//
// It must not touch what is no longer in the room. A waiter that left was granted, and its lease may be in use; or it gave up, and a
// release is on its way.
func (c *Client) settle(w *waiter, ticket string, s script.Standing, a answer) {
	switch {
	case !w.present || w.ticket != ticket:
	case s.Inside: // the message was lost, or is on its way
		c.room.remove(w)
		w.granted <- w.inside(s, a)
	case s.Missing:
		c.restore(w)
	default:
		w.anchor = a.sent
	}
}

// restore asks for a waiter's place again, with the room's mu held: Redis lost the line, or passed over this client when it did not hear.
// It takes a new owner, since the old one may have been inside and run out: if its grant is only late, it must not count any more.
func (c *Client) restore(w *waiter) {
	if w.resent {
		c.abandon(w.latch, w.owner, w.ticket) // a request for its place may still arrive
		w.resent = false
	}
	delete(c.room.waiters, w.owner)
	w.owner = c.owner()
	w.ticket, w.address = c.ticket(w.latch, w.owner)
	w.asking, w.anchor = true, c.now()
	c.room.waiters[w.owner] = w
	owner, ticket, address, arrival := w.owner, w.ticket, w.address, w.arrival
	c.spawn(func() {
		for failed := false; c.room.has(w); failed = true {
			standing, answer, err := c.request(c.closing, w.latch, owner, ticket, address, arrival)
			switch {
			case err == nil:
				answer.resent = answer.resent || failed
				c.stands(w, standing, answer)
				return
			case standing.Refused != "":
				c.refuse(w, err)
				return
			}
			retry.Sleep(c.closing, deafPace)
		}
	})
}

// refuse ends the wait of a waiter for whom it cannot end otherwise.
func (c *Client) refuse(w *waiter, err error) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if w.present {
		c.room.remove(w)
		w.granted <- grant{err: err}
	}
}

// hurry makes every line await at once that uses this subscription.
func (c *Client) hurry(s *subscribe.Subscription) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	now := c.now().Time()
	for _, ln := range c.room.lines {
		if c.subscriptionFor(ln.latch) == s {
			c.schedule.Advance(&ln.entry, now)
		}
	}
}

// waits reports whether anybody waits for the name whose key this is.
func (r *room) waits(state string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.lines {
		if id.state == state {
			return true
		}
	}
	return false
}
