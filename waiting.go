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

// Waiting, as the client sees it. Each attempt that waits has a waiter. The waiters for one latch
// share a queue, and the queue polls Redis for all of them (await.lua): at every heartbeat, just
// after the holder's lease could have run out if one of them is the first, and at once when the
// subscription comes back. The client sends nothing else while they wait.

// How soon a queue polls when the heartbeat would be too slow.
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

	mu        sync.Mutex // guards what is below, and the fields of queues and waiters
	byOwner   map[string]*waiter
	queues    map[queueID]*queue
	cancelled map[string]cancelled // lately, by owner
	order     []string             // their owners, in the order in which they were cancelled
}

// cancelled is an attempt that gave up while it waited.
type cancelled struct {
	ticket string
	latch  *latch
	until  time.Time // a request that it sent may arrive until then
}

// queueID is a latch that is waited for. Two kinds under one name are two queues; Redis refuses one
// of them.
type queueID struct{ kind, state string }

// queue is the waiters of one client for one latch.
type queue struct {
	latch   *latch        // that of the first waiter
	ttl     time.Duration // the shortest of the waiters'
	waiters map[*waiter]struct{}
	entry   schedule.Entry
	polling bool  // a poll is under way
	outage  error // why the last poll failed; nil if it did not
}

// waiter is one attempt in a queue.
type waiter struct {
	latch   *latch
	queue   *queue
	granted chan grant // with room for the one that comes

	owner   string        // changes when the client has to ask for the place again
	ticket  string        // of that owner
	address string        // in the ticket: only a poll from there keeps the client believed alive
	arrival int64         // its place; 0 until Redis has told it
	asking  bool          // a request for its place is under way
	resent  bool          // a request for its place got no answer, and may arrive late
	anchor  clock.Reading // before the last request that Redis answered with "in line": a grant that is pushed came later
	present bool          // it still waits
}

func newWaiters(c *Client) *waiters {
	return &waiters{
		client:    c,
		byOwner:   make(map[string]*waiter),
		queues:    make(map[queueID]*queue),
		cancelled: make(map[string]cancelled),
	}
}

// add returns a new waiter. Its ticket is sent after that, so that a grant finds it.
func (ws *waiters) add(l *latch, owner, ticket, address string, now clock.Reading) *waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	id := queueID{l.kind.Name, l.keys.State}
	q := ws.queues[id]
	if q == nil {
		q = &queue{latch: l, ttl: l.options.TTL, waiters: make(map[*waiter]struct{})}
		q.entry.Owner = q
		ws.queues[id] = q
	}
	q.ttl = min(q.ttl, l.options.TTL)
	w := &waiter{
		latch: l, queue: q, owner: owner, ticket: ticket, address: address, anchor: now,
		granted: make(chan grant, 1), present: true,
	}
	q.waiters[w] = struct{}{}
	ws.byOwner[owner] = w
	return w
}

// removeLocked takes a waiter out. The caller holds ws.mu.
func (ws *waiters) removeLocked(w *waiter) {
	if !w.present {
		return
	}
	w.present = false
	delete(ws.byOwner, w.owner)
	delete(w.queue.waiters, w)
	if len(w.queue.waiters) == 0 {
		delete(ws.queues, queueID{w.latch.kind.Name, w.latch.keys.State})
	}
}

// endLocked ends the wait of a waiter with a grant, or with the error in it. The caller holds
// ws.mu.
func (ws *waiters) endLocked(w *waiter, g grant) {
	if w.present {
		ws.removeLocked(w)
		w.granted <- g
	}
}

// deliver hands a grant that was pushed to its waiter. It reports whether there is one.
func (ws *waiters) deliver(owner string, g func(*waiter) grant) bool {
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
	ws.endLocked(w, grant{err: err})
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
	for id := range ws.queues {
		if id.state == state {
			return true
		}
	}
	return false
}

// outage returns why polls for this latch fail at present, or nil.
func (ws *waiters) outage(l *latch) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if q := ws.queues[queueID{l.kind.Name, l.keys.State}]; q != nil {
		return q.outage
	}
	return nil
}

// cancel takes a waiter that gives up out of the queue, here and in Redis. If the latch is granted
// to it in that moment, the grant is given back. It returns the place that the waiter had.
func (ws *waiters) cancel(w *waiter) (arrival int64) {
	now := ws.client.now().Time()
	owner, ticket, arrival := ws.markCancelled(w, now, now.Add(ws.client.horizon()))
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
func (ws *waiters) applyPlace(w *waiter, s script.Standing, a answer) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.resent = w.resent || a.resent
	if !w.present {
		return false // granted, or cancelled
	}
	if s.Inside {
		ws.endLocked(w, w.grantOf(s, a))
		return false
	}
	w.arrival, w.anchor, w.asking = s.Arrival, a.sent, false
	ws.pollAfterLocked(w.queue, ws.nextPollLocked(w.queue, s.First, s.Remaining, s.Foreign))
	return true
}

// grantOf returns the grant that an answer of Redis tells of.
func (w *waiter) grantOf(s script.Standing, a answer) grant {
	return w.latch.inside(w.owner, w.ticket, s, a, w.resent)
}

// applyStatusLocked takes how a waiter stood when a poll reached Redis. The caller holds ws.mu.
//
// It must not touch a waiter that does not wait any more. Such a waiter was granted, and its lease
// may be in use; or it was cancelled, and a release is on its way.
func (ws *waiters) applyStatusLocked(w *waiter, ticket string, s script.Standing, a answer) {
	switch {
	case !w.present || w.ticket != ticket:
	case s.Inside: // the message was lost, or is on its way
		ws.endLocked(w, w.grantOf(s, a))
	case s.Missing:
		ws.restoreLocked(w)
	default:
		w.anchor = a.sent
	}
}

// restoreLocked asks for a waiter's place again: Redis lost the queue, or passed over this client
// while it did not listen. The waiter takes a new owner, since the old one may have been inside and
// run out. A late grant of the old one must not count any more. The caller holds ws.mu.
func (ws *waiters) restoreLocked(w *waiter) {
	c := ws.client
	if w.resent {
		w.latch.abandon(w.owner, w.ticket) // a request for its place may still arrive
		w.resent = false
	}
	delete(ws.byOwner, w.owner)
	w.owner = c.owner()
	w.ticket, w.address = w.latch.ticket(w.owner)
	w.asking, w.anchor = true, c.now()
	ws.byOwner[w.owner] = w
	owner, ticket, address, arrival := w.owner, w.ticket, w.address, w.arrival
	c.spawn(func() {
		for failed := false; ws.has(w); failed = true {
			standing, answer, err := w.latch.request(c.closing, owner, ticket, address, arrival, 0)
			switch {
			case err == nil:
				answer.resent = answer.resent || failed
				ws.applyPlace(w, standing, answer)
				return
			case standing.Refused != "":
				ws.fail(w, err)
				return
			}
			retry.Sleep(c.closing, pollDisconnected)
		}
	})
}

// nextPollLocked returns how long to wait before the next poll of a queue. remaining and foreign
// describe the holder, and count only if one of the waiters is the first of all. The caller holds
// ws.mu.
func (ws *waiters) nextPollLocked(q *queue, first bool, remaining time.Duration, foreign bool) time.Duration {
	c := ws.client
	// A third of the TTL at most: a grant counts from the last poll before it, and must then have
	// most of its time left.
	d := retry.Jitter(min(c.options.Heartbeat, q.ttl/3), 0.1)
	if !q.latch.subscription().Connected() {
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

// pollAfterLocked has a queue poll after d, unless it polls sooner anyway. The caller holds ws.mu.
func (ws *waiters) pollAfterLocked(q *queue, d time.Duration) {
	ws.client.schedule.Advance(&q.entry, ws.client.now().Time().Add(d))
}

// pollNow has every queue that uses this subscription poll at once.
func (ws *waiters) pollNow(s *subscribe.Subscription) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, q := range ws.queues {
		if q.latch.subscription() == s {
			ws.pollAfterLocked(q, 0)
		}
	}
}

// pollAtExpiry has the queue of this owner poll when the holder's lease runs out, after remaining.
func (ws *waiters) pollAtExpiry(owner string, remaining time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byOwner[owner]; w != nil {
		ws.pollAfterLocked(w.queue, remaining+pollAfterExpiry)
	}
}

// Due implements [schedule.Owner].
func (q *queue) Due(clock.Reading) {
	c := q.latch.client
	c.spawn(func() { c.waiters.heartbeat(q) })
}

// heartbeat polls for all waiters of the queue that have a place.
func (ws *waiters) heartbeat(q *queue) {
	all, next, ok := ws.beginPoll(q)
	if !ok {
		return
	}
	for _, batch := range groupByAddress(all) {
		d, err := ws.poll(q, batch)
		if err != nil {
			next = min(next, retry.Jitter(pollDisconnected, 0.3)) // it has tried for a while already
			break
		}
		next = min(next, d)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	q.polling = false
	if len(q.waiters) > 0 {
		ws.pollAfterLocked(q, next)
	}
}

// beginPoll returns the waiters to poll for, and when to poll next at the latest. ok is false if a
// poll is under way.
func (ws *waiters) beginPoll(q *queue) (all []*waiter, next time.Duration, ok bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if q.polling {
		return nil, 0, false
	}
	q.polling = true
	all = make([]*waiter, 0, len(q.waiters))
	for w := range q.waiters {
		if w.arrival != 0 && !w.asking {
			all = append(all, w)
		}
	}
	return all, ws.nextPollLocked(q, false, 0, false), true
}

// groupByAddress splits waiters into batches for one poll each. All in a batch have the same
// address. A client in a cluster has two, if it began to listen for this very latch while some
// waited already.
func groupByAddress(all []*waiter) (batches [][]*waiter) {
	slices.SortFunc(all, func(a, b *waiter) int { return strings.Compare(a.address, b.address) })
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
func (ws *waiters) poll(q *queue, batch []*waiter) (time.Duration, error) {
	c, l := ws.client, q.latch
	address, tickets := ws.ticketsOf(batch)
	answer, err := l.ask(c.closing, "wait for", l.kind.Await(l.keys, address, c.horizon(), c.options.FenceTTL, tickets))
	var stand script.Line
	if err == nil {
		stand, err = script.ParseAwait(answer.Reply, len(tickets))
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if q.outage = err; err != nil {
		return 0, err
	}
	for i, s := range stand.Tickets {
		ws.applyStatusLocked(batch[i], tickets[i], s, answer)
	}
	return ws.nextPollLocked(q, stand.First, stand.Remaining, stand.Foreign), nil
}

// ticketsOf returns the tickets of waiters, and the address in them.
//
// It is tempting to poll from the address at which the client listens by now. The anchors of the
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
