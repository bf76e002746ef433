package redlatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
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
	gone    []departure // who gave up lately, in that order
}

// departure is an attempt that gave up while it waited.
type departure struct {
	owner string
	latch *latch
	until time.Time // its ticket can come back until then
}

// lineID is a latch that is waited for. Two kinds under one name are two lines; Redis refuses one of them.
type lineID struct{ kind, state string }

// line is the waiters of one client for one latch.
type line struct {
	latch   *latch // of whoever came first
	waiters map[*waiter]struct{}
	entry   schedule.Entry
	awaits  bool  // an await is under way
	outage  error // why the last await failed; nil if it did not
}

// waiter is one attempt in line.
type waiter struct {
	latch   *latch
	line    *line
	owner   string
	ticket  string
	arrival int64         // 0 until Redis told
	anchor  clock.Reading // Redis said "waiting" after this, so a grant that is pushed comes later
	granted chan grant    // with room for the one that comes
	present bool          // still in the room
}

func (r *room) init() {
	r.waiters = make(map[string]*waiter)
	r.lines = make(map[lineID]*line)
}

// enter adds a waiter whose ticket is about to be sent.
func (r *room) enter(l *latch, owner, ticket string, now clock.Reading) *waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := lineID{l.kind.Name, l.keys.State}
	ln := r.lines[id]
	if ln == nil {
		ln = &line{latch: l, waiters: make(map[*waiter]struct{})}
		ln.entry.Owner = ln
		r.lines[id] = ln
	}
	w := &waiter{latch: l, line: ln, owner: owner, ticket: ticket, anchor: now, granted: make(chan grant, 1), present: true}
	ln.waiters[w] = struct{}{}
	r.waiters[owner] = w
	return w
}

// leave removes a waiter and reports whether it was still there; if not, it has been granted.
func (r *room) leave(w *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remove(w)
}

func (r *room) remove(w *waiter) bool {
	if !w.present {
		return false
	}
	w.present = false
	delete(r.waiters, w.owner)
	delete(w.line.waiters, w)
	if len(w.line.waiters) == 0 {
		delete(r.lines, lineID{w.latch.kind.Name, w.latch.keys.State})
	}
	return true
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

// outage is why awaits for this latch fail at present, if they do.
func (r *room) outage(l *latch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ln := r.lines[lineID{l.kind.Name, l.keys.State}]; ln != nil {
		return ln.outage
	}
	return nil
}

// depart removes a waiter that gives up, and remembers it until then.
func (r *room) depart(w *waiter, now, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(w)
	for len(r.gone) > 0 && r.gone[0].until.Before(now) {
		r.gone = r.gone[1:]
	}
	r.gone = append(r.gone, departure{w.owner, w.latch, until})
}

// gaveUp is the latch that this owner waited for before it gave up, or nil if it is none of those.
func (r *room) gaveUp(owner string) *latch {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.gone {
		if d.owner == owner {
			return d.latch
		}
	}
	return nil
}

// giveUp takes a waiter out of the line, here and in Redis, and gives back the latch if it was granted in that moment.
func (c *Client) giveUp(w *waiter) {
	now := c.now().Time()
	c.room.depart(w, now, now.Add(max(w.latch.options.TTL, c.horizon())))
	c.abandon(w.latch, w.owner, w.ticket)
}

// leave takes all waiters out of their lines, in one batch, and forgets the record.
func (c *Client) leave(ctx context.Context) {
	c.room.mu.Lock()
	calls := c.forget()
	for _, w := range c.room.waiters {
		calls = append(calls, w.latch.kind.Release(w.latch.keys, w.owner, w.ticket, c.options.FenceTTL))
	}
	c.room.mu.Unlock()
	if len(calls) > 0 {
		c.conn.Eval(ctx, calls...) // what fails here expires
	}
}

// stands notes that Redis put a waiter in line, in answer to a request sent then.
func (c *Client) stands(w *waiter, s script.Standing, sent clock.Reading) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if !w.present {
		return // granted already
	}
	w.arrival, w.anchor = s.Arrival, sent
	if due := c.now().Time().Add(c.pace(w.line, s.First, s.Remaining, s.Foreign)); s.First || len(w.line.waiters) == 1 {
		c.schedule.Set(&w.line.entry, due, 0)
	}
}

// pace is the time until the next await of a line. What it says of the holder matters if one of the line's waiters is the first of all.
func (c *Client) pace(ln *line, first bool, remaining time.Duration, foreign bool) time.Duration {
	// A third of the TTL at most: a grant counts from the last await before it, and must then have most of its time left.
	d := jitter(min(c.options.Heartbeat, ln.latch.options.TTL/3), 0.1)
	if !c.ear.hears() {
		d = min(d, jitter(deafPace, 0.3))
	}
	if !first {
		return d
	}
	if remaining >= 0 {
		d = min(d, remaining+afterExpiry)
	}
	if foreign {
		d = min(d, jitter(foreignPace, 0.5))
	}
	return d
}

// beat sends one await for all waiters of the line that Redis knows.
func (c *Client) beat(ln *line) {
	c.room.mu.Lock()
	if ln.awaits || len(ln.waiters) == 0 {
		c.room.mu.Unlock()
		return
	}
	ln.awaits = true
	waiters := make([]*waiter, 0, len(ln.waiters))
	for w := range ln.waiters {
		if w.arrival != 0 {
			waiters = append(waiters, w)
		}
	}
	c.room.mu.Unlock()

	next := c.pace(ln, false, 0, false)
	for chunk := range slices.Chunk(waiters, maxAwait) {
		d, err := c.await(ln, chunk)
		if err != nil {
			next = min(next, jitter(deafPace, 0.3)) // it has tried for a while already
			break
		}
		next = min(next, d)
	}
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	ln.awaits = false
	if len(ln.waiters) > 0 {
		c.schedule.Set(&ln.entry, c.now().Time().Add(next), 0)
	}
}

// await asks how these waiters stand, and returns when to ask again.
func (c *Client) await(ln *line, waiters []*waiter) (time.Duration, error) {
	tickets := make([]script.Waiting, len(waiters))
	for i, w := range waiters {
		tickets[i] = script.Waiting{Ticket: w.ticket, Arrival: w.arrival}
	}
	l := ln.latch
	reply, err := c.ask(c.closing, "wait for", l, l.kind.Await(l.keys, c.address, c.horizon(), c.options.FenceTTL, tickets))
	var stand script.Line
	if err == nil {
		stand, err = script.ParseAwait(reply.Reply, len(tickets))
	}
	if err != nil {
		c.room.mu.Lock()
		ln.outage = err
		c.room.mu.Unlock()
		return 0, err
	}
	for i, s := range stand.Tickets {
		c.settle(waiters[i], s, reply.sent)
	}
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	ln.outage = nil
	return c.pace(ln, stand.First, stand.Remaining, stand.Foreign), nil
}

// settle takes in how one waiter stood when an await that was sent then reached Redis.
func (c *Client) settle(w *waiter, s script.Standing, sent clock.Reading) {
	if s.Inside {
		c.room.deliver(w.owner, func(w *waiter) grant { return grant{s.Token, s.Got, sent, w.latch.options.TTL} })
		return // whoever left in the meantime has a release on its way
	}
	c.room.mu.Lock()
	if w.present {
		w.anchor = sent
		c.room.mu.Unlock()
		return
	}
	c.room.mu.Unlock()
	// It left while the await was under way, which may have put its ticket back.
	c.abandon(w.latch, w.owner, w.ticket)
}

// hurry makes every line await at once.
func (c *Client) hurry() {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	now := c.now().Time()
	for _, ln := range c.room.lines {
		c.schedule.Set(&ln.entry, now, 0)
	}
}
