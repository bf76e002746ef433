package redlatch

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Waiting, as the client sees it. Each attempt that waits has a waiter. The waiters for one latch
// share a poller, which asks Redis for all of them (await.lua): at every heartbeat, just after the
// holder's lease could have run out if one of them is the first, and at once when the
// subscription comes back. The client sends nothing else while they wait.

// How soon a poller polls when the heartbeat would be too slow.
const (
	pollDisconnected = 250 * time.Millisecond // while the subscription is down
	pollForeign      = 100 * time.Millisecond // behind a holder that grants nothing, for the first
	pollAfterExpiry  = 5 * time.Millisecond   // past the end of the holder's lease, which Redis rounds
)

// maxPoll is how many tickets one poll carries, to keep a script short.
const maxPoll = 256

// waiters is all waiters of a client.
type waiters struct {
	client *Client

	mu        sync.Mutex // guards what is below, and the fields of pollers and waiters
	byOwner   map[string]*waiter
	pollers   map[latchID]*poller
	cancelled map[string]cancelled // lately, by owner
	order     []string             // their owners, in the order in which they were cancelled
}

// cancelled is an attempt that gave up while it waited.
type cancelled struct {
	ticket string
	latch  *latch
	until  time.Time // a request that it sent may arrive until then
}

// latchID is a latch that is waited for. Two kinds under one name have two pollers; Redis refuses one
// of them.
type latchID struct{ kind, state string }

// poller is the waiters of one client for one latch: its part of the line, in no order.
type poller struct {
	latch   *latch        // that of the first waiter
	ttl     time.Duration // the shortest of the waiters'
	waiters map[*waiter]struct{}
	entry   schedule.Entry
	polling bool          // a poll is under way
	outage  error         // why the last poll failed; nil if it did not
	news    chan struct{} // closed when an outage begins or ends; nil if no goroutine looks at it
	inside  string        // an owner inside, when Redis told last; "" if that is not known

	behindForeign bool   // one of the waiters is the first in line, and the holder is of another library
	stopHeeding   func() // ends the listening for LockOptions.Announce; nil if it has not begun
	again         bool   // an announcement came while a poll was under way
}

// waiter is one attempt in the line.
type waiter struct {
	latch   *latch
	group   *handoff.Group // for which it stands in line; nil if for itself alone
	poller  *poller
	granted chan lock.Grant // with room for the one that comes

	owner   string        // changes when the client has to ask for the place again
	ticket  string        // of that owner
	address string        // in the ticket: only a poll from there keeps the client believed alive
	arrival int64         // its place; 0 until Redis has told it
	asking  bool          // a request for its place is under way
	resent  bool          // a request for its place got no answer, and may arrive late
	sentAt  clock.Reading // before the last request that Redis answered with "in line": a grant that is pushed came later
	callers int           // goroutines that it stands in line for, as noted in Redis; 0 if nothing is noted
	present bool          // it still waits
}

func newWaiters(c *Client) *waiters {
	return &waiters{
		client:    c,
		byOwner:   make(map[string]*waiter),
		pollers:   make(map[latchID]*poller),
		cancelled: make(map[string]cancelled),
	}
}

// add returns a new waiter. Its ticket is sent after that, so that a grant finds it.
func (ws *waiters) add(
	l *latch, g *handoff.Group, owner, ticket, address string, now clock.Reading,
) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	id := latchID{l.Kind.Name, l.Keys.State()}
	p := ws.pollers[id]
	if p == nil {
		p = &poller{latch: l, ttl: l.TTL, waiters: make(map[*waiter]struct{})}
		p.entry.Owner = p
		ws.pollers[id] = p
	}
	p.ttl = min(p.ttl, l.TTL)
	w := &waiter{
		latch: l, group: g, poller: p, owner: owner, ticket: ticket, address: address, sentAt: now,
		granted: make(chan lock.Grant, 1), present: true,
	}
	p.waiters[w] = struct{}{}
	ws.byOwner[owner] = w
	return w
}

// removeLocked takes a waiter out. The caller holds ws.mu.
func (ws *waiters) removeLocked(w *waiter) {
	if !w.present {
		return
	}
	w.present = false
	if w.callers > 0 {
		ws.client.notes.Drop(w.owner)
	}
	delete(ws.byOwner, w.owner)
	delete(w.poller.waiters, w)
	if len(w.poller.waiters) == 0 {
		if w.poller.stopHeeding != nil {
			w.poller.stopHeeding()
		}
		delete(ws.pollers, latchID{w.latch.Kind.Name, w.latch.Keys.State()})
	}
}

// endLocked ends the wait of a waiter with a grant, or with the error in it. The caller holds
// ws.mu.
func (ws *waiters) endLocked(w *waiter, g lock.Grant) {
	if w.present {
		ws.removeLocked(w)
		w.granted <- g
	}
}

// deliver hands a grant that was pushed to its waiter. It reports whether there is one.
func (ws *waiters) deliver(owner string, g func(*waiter) lock.Grant) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.byOwner[owner]
	if w == nil {
		return false
	}
	ws.endLocked(w, g(w))
	return true
}

// fail ends the wait of a waiter with err: Redis says that it can never be granted.
func (ws *waiters) fail(w *waiter, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.endLocked(w, lock.Grant{Err: err})
}

// has reports whether the waiter still waits.
func (ws *waiters) has(w *waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.present
}

// any reports whether there is a waiter for the name with this key.
func (ws *waiters) any(state string) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.pollersLocked(state)) > 0
}

// pollersLocked returns the pollers for the name with this key. The caller holds ws.mu.
func (ws *waiters) pollersLocked(state string) (all []*poller) {
	for _, k := range script.Kinds() {
		if p := ws.pollers[latchID{k.Name, state}]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// status returns an owner inside a latch that is waited for, "" if none is known, and why polls for
// it fail at present, or nil.
func (ws *waiters) status(l *latch) (occupant string, outage error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if p := ws.pollers[latchID{l.Kind.Name, l.Keys.State()}]; p != nil {
		return p.inside, p.outage
	}
	return "", nil
}

// watch returns why polls for a waiter fail at present, or nil, and a channel that is closed when
// that changes.
func (ws *waiters) watch(w *waiter) (news <-chan struct{}, outage error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	p := w.poller
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return p.news, p.outage
}

// noteLocked notes that a request for the waiters of a poller failed, or with nil that Redis
// answered one. The caller holds ws.mu.
func (p *poller) noteLocked(outage error) {
	changed := (p.outage == nil) != (outage == nil)
	p.outage = outage
	if changed && p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// cancel takes a waiter that gives up out of the line, here and in Redis. If the latch is granted
// to it in that moment, the grant is given back. It returns the place that the waiter had.
func (ws *waiters) cancel(w *waiter) (arrival int64) {
	now := ws.client.now().Time()
	owner, ticket, arrival := ws.markCancelled(w, now, now.Add(ws.client.liveFor()))
	w.latch.abandon(owner, ticket)
	return arrival
}

// markCancelled removes a waiter and remembers it until the given time. It returns the waiter's
// owner, ticket and place.
func (ws *waiters) markCancelled(w *waiter, now, until time.Time) (owner, ticket string, arrival int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.removeLocked(w)
	for len(ws.order) > 0 && ws.cancelled[ws.order[0]].until.Before(now) {
		delete(ws.cancelled, ws.order[0])
		ws.order = ws.order[1:]
	}
	ws.cancelled[w.owner] = cancelled{w.ticket, w.latch, until}
	ws.order = append(ws.order, w.owner)
	return w.owner, w.ticket, w.arrival
}

// wasCancelled returns the waiter of this owner that gave up lately. Its latch is nil if there is
// none.
func (ws *waiters) wasCancelled(owner string) cancelled {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.cancelled[owner]
}

// applyPlace takes the answer to a request for a place. It reports whether the waiter waits on.
func (ws *waiters) applyPlace(w *waiter, s script.Standing, a ask.Answer) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.resent = w.resent || a.Resent
	if !w.present {
		return false // granted, or cancelled
	}
	w.poller.noteLocked(nil)
	if s.Inside {
		ws.endLocked(w, w.grantOf(s, a))
		return false
	}
	w.arrival, w.sentAt, w.asking = s.Arrival, a.Sent, false
	w.poller.inside = s.Occupant
	ws.heedLocked(w.poller, s.First, s.Foreign)
	ws.pollAfterLocked(w.poller, ws.nextPollLocked(w.poller, s.First, s.Remaining, s.Foreign))
	return true
}

// grantOf returns the grant that an answer of Redis tells of.
func (w *waiter) grantOf(s script.Standing, a ask.Answer) lock.Grant {
	return w.latch.Inside(w.owner, w.ticket, s, a, w.resent)
}

// applyStatusLocked takes how a waiter stood when a poll reached Redis. The caller holds ws.mu.
//
// It must not touch a waiter that does not wait any more. Such a waiter was granted, and its lease
// may be in use; or it was cancelled, and a release is on its way.
func (ws *waiters) applyStatusLocked(w *waiter, ticket string, s script.Standing, a ask.Answer) {
	switch {
	case !w.present || w.ticket != ticket:
	case s.Inside: // the message was lost, or is on its way
		ws.endLocked(w, w.grantOf(s, a))
	case s.Missing:
		ws.restoreLocked(w)
	default:
		w.sentAt = a.Sent
		ws.noteCallersLocked(w)
	}
}

// noteCallersLocked notes for how many goroutines a waiter stands in line, if there is more than
// itself and the number has changed. The caller holds ws.mu.
func (ws *waiters) noteCallersLocked(w *waiter) {
	if w.group == nil {
		return
	}
	n := 1 + ws.client.handoffs.Waiting(w.group)
	if n != max(w.callers, 1) && ws.client.notes.SetCallers(w.owner, n) {
		w.callers = n
	}
}

// restoreLocked asks for a waiter's place again: Redis lost the line, or passed over this client
// while it did not listen. The waiter takes a new owner, since the old one may have been inside and
// run out. A late grant of the old one must not count any more. The caller holds ws.mu.
func (ws *waiters) restoreLocked(w *waiter) {
	c := ws.client
	if w.resent {
		w.latch.abandon(w.owner, w.ticket) // a request for its place may still arrive
		w.resent = false
	}
	delete(ws.byOwner, w.owner)
	before := w.owner
	w.owner = c.owner()
	c.notes.Move(before, w.owner)
	// Perhaps the line was lost, and perhaps the client was taken for dead, though it listens. In a
	// cluster it may listen at a node that was the master. It is tempting to ask for the same place
	// again: at each heartbeat the ticket would be dropped again, for as long as that is so.
	if s := w.latch.subscription(); s.Sharded() && s.Address() == w.address {
		s.MarkUncounted()
	}
	w.ticket, w.address = w.latch.ticket(w.owner)
	w.asking, w.sentAt = true, c.now()
	ws.byOwner[w.owner] = w
	owner, ticket, address, arrival := w.owner, w.ticket, w.address, w.arrival
	c.spawn(func() {
		for failed := false; ws.has(w); failed = true {
			standing, answer, err := w.latch.request(c.closing, owner, ticket, address, arrival, 0)
			switch {
			case err == nil:
				answer.Resent = answer.Resent || failed
				ws.applyPlace(w, standing, answer)
				return
			case standing.Refused != "":
				ws.fail(w, err)
				return
			}
			ws.mu.Lock()
			w.poller.noteLocked(err)
			ws.mu.Unlock()
			retry.Sleep(c.closing, pollDisconnected)
		}
	})
}

// nextPollLocked returns how long to wait before the next poll of a poller. remaining and foreign
// describe the holder, and count only if one of the waiters is the first of all. The caller holds
// ws.mu.
func (ws *waiters) nextPollLocked(p *poller, first bool, remaining time.Duration, foreign bool) time.Duration {
	d := retry.Jitter(p.heartbeat(), 0.1)
	if !p.latch.subscription().Connected() {
		d = min(d, retry.Jitter(pollDisconnected, 0.3))
	}
	if !first {
		return d
	}
	if remaining >= 0 {
		d = min(d, remaining+pollAfterExpiry)
	}
	if foreign {
		d = min(d, retry.Jitter(pollForeign, 0.5))
	}
	return d
}

// pollAfterLocked has a poller poll after d, unless it polls sooner anyway. In a cluster a heartbeat
// may come a tenth sooner, together with those of other names: requests for one node are sent in
// one pipeline. The caller holds ws.mu.
func (ws *waiters) pollAfterLocked(p *poller, d time.Duration) {
	c, slack := ws.client, time.Duration(0)
	if beat := p.heartbeat(); d >= beat-beat/10 && c.conn.Target().Cluster {
		slack = beat / 10
	}
	c.schedule.AdvanceWithin(&p.entry, c.now().Time().Add(d), slack)
}

// heartbeat returns the time between two polls of a poller that has no reason to poll sooner. It is
// a third of the TTL at most: a grant counts from the last poll before it, and must then have most
// of its time left.
func (p *poller) heartbeat() time.Duration {
	return min(p.latch.client.options.Heartbeat, p.ttl/3)
}

// pollNow has every poller that uses this subscription poll at once.
func (ws *waiters) pollNow(s *subscribe.Subscription) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if s.Sharded() { // one of as many as there are names
		for _, p := range ws.pollersLocked(s.Key()) {
			ws.pollAfterLocked(p, 0)
		}
		return
	}
	for _, p := range ws.pollers {
		if p.latch.subscription() == s {
			ws.pollAfterLocked(p, 0)
		}
	}
}

// pollAtExpiry has the poller of this owner poll when the holder's lease runs out, after remaining.
func (ws *waiters) pollAtExpiry(owner string, remaining time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byOwner[owner]; w != nil {
		ws.pollAfterLocked(w.poller, remaining+pollAfterExpiry)
	}
}

// Due implements [schedule.Owner].
func (p *poller) Due(clock.Reading) {
	c := p.latch.client
	c.spawn(func() { c.waiters.heartbeat(p) })
}

// heartbeat polls for all waiters of the poller that have a place.
func (ws *waiters) heartbeat(p *poller) {
	all, next, ok := ws.beginPoll(p)
	if !ok {
		return
	}
	for _, batch := range groupByAddress(all) {
		d, err := ws.poll(p, batch)
		if err != nil {
			next = min(next, retry.Jitter(pollDisconnected, 0.3)) // it has tried for a while already
			break
		}
		next = min(next, d)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	p.polling = false
	if p.again {
		p.again, next = false, 0
	}
	if len(p.waiters) > 0 {
		ws.pollAfterLocked(p, next)
	}
}

// beginPoll returns the waiters to poll for, and when to poll next at the latest. ok is false if a
// poll is under way, which is then followed by another at once: Redis may have answered it before
// what this one is for.
func (ws *waiters) beginPoll(p *poller) (all []*waiter, next time.Duration, ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if p.polling {
		p.again = true
		return nil, 0, false
	}
	p.polling = true
	all = make([]*waiter, 0, len(p.waiters))
	for w := range p.waiters {
		if w.arrival != 0 && !w.asking {
			all = append(all, w)
		}
	}
	return all, ws.nextPollLocked(p, false, 0, false), true
}

// groupByAddress splits waiters into batches for one poll each. All in a batch have the same
// address. A client in a cluster has two, if it began to listen for this very latch while some
// waited already. The order within a batch is that of the tickets, so that a simulation can be run
// again.
func groupByAddress(all []*waiter) (batches [][]*waiter) {
	slices.SortFunc(all, func(a, b *waiter) int {
		return cmp.Or(strings.Compare(a.address, b.address), strings.Compare(a.ticket, b.ticket))
	})
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(w *waiter) bool { return w.address != all[0].address })
		if n < 0 {
			n = len(all)
		}
		batches = slices.AppendSeq(batches, slices.Chunk(all[:n], maxPoll))
		all = all[n:]
	}
	return batches
}

// poll asks Redis how these waiters stand, which have the same address. It returns when to poll
// again.
func (ws *waiters) poll(p *poller, batch []*waiter) (time.Duration, error) {
	c, l := ws.client, p.latch
	address, tickets := ws.ticketsOf(batch)
	answer, err := l.ask(c.closing, "wait for", l.Kind.Await(l.Keys, address, c.liveFor(), l.FenceTTL, tickets))
	var stand script.Line
	if err == nil {
		stand, err = script.ParseAwait(answer.Reply, len(tickets))
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if p.noteLocked(err); err != nil {
		return 0, err
	}
	p.inside = stand.Occupant
	for i, s := range stand.Tickets {
		ws.applyStatusLocked(batch[i], tickets[i], s, answer)
	}
	ws.heedLocked(p, stand.First, stand.Foreign)
	return ws.nextPollLocked(p, stand.First, stand.Remaining, stand.Foreign), nil
}

// ticketsOf returns the tickets of waiters, and the address in them.
//
// It is tempting to poll from the address at which the client listens by now. The sentAt of the
// waiters would move, and with them the deadlines of grants to come, while in Redis nothing moves:
// two could hold.
func (ws *waiters) ticketsOf(batch []*waiter) (address string, tickets []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	tickets = make([]string, len(batch))
	for i, w := range batch {
		tickets[i] = w.ticket
	}
	return batch[0].address, tickets
}
