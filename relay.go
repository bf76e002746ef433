package redlatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/redlatch/redlatch/internal/script"
)

// Local handoff. Goroutines of one client that want the same mutex are a relay, which stands in the line of all processes as one. Once the
// mutex is granted, it passes from one of them to the next without a word to Redis: owner and deadline stay what they are, and each has a
// token of its own, since the acquisition took several.
//
// A run goes to those who were waiting in this process when it began, and to maxRun at most. Then the mutex goes back to Redis, and the relay
// to the end of the line. So who waits elsewhere is overtaken by no more than that.

// maxRun is how many in a row have a mutex before it goes back.
const maxRun = 128

// relays is those of a client.
type relays struct {
	mu  sync.Mutex        // guards what is below, and the fields of relays
	all map[string]*relay // by the key of the mutex
}

// relay is one goroutine that has the mutex or is about to acquire it from Redis, and those who wait for their turn.
type relay struct {
	latch   *latch      // of the first
	waiting []chan turn // each with room for one
	taken   atomic.Bool // Redis has said of the mutex that it is taken, or granted it; not guarded
	revoked string      // the owner from which it was taken by force
}

// turn is what one that waits is told.
type turn struct {
	baton   *grant // the mutex is passed on to it; if nil, it acquires it from Redis:
	arrival int64  // in the place of one that gave up; 0 for a new one
	alone   bool   // for itself, since the relay is over
}

// relayed reports whether those who wait for the latch in this process pass it on among themselves.
func (l *latch) relayed() bool {
	return l.kind == script.Mutex && l.client.quorum == nil && !l.options.StrictOrder
}

// relay is Lock of a latch that is relayed.
func (a *attempt) relay(ctx context.Context) (*Lease, error) {
	r, wait := a.client.relays.join(a.latch)
	if r == nil {
		return a.run(ctx, true)
	}
	returned := false
	defer func() {
		if !returned { // a hook panicked: nobody else may wait for that
			a.client.relays.abort(r, wait)
		}
	}()
	lease, err := a.join(ctx, r, wait)
	returned = true
	return lease, err
}

// join waits for its turn, if it is not the first.
func (a *attempt) join(ctx context.Context, r *relay, wait chan turn) (*Lease, error) {
	c := a.client
	if wait == nil {
		a.leads = r
		lease, err := a.run(ctx, true)
		return a.carry(ctx, r, lease, err)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	a.waits()
	select {
	case t := <-wait:
		if ctx.Err() != nil || c.closing.Err() != nil { // it gives up all the same
			c.decline(a.latch, r, t)
			break
		}
		switch {
		case t.alone:
			return a.run(ctx, true)
		case t.baton != nil:
			lease, err := a.begin(ctx, *t.baton)
			if !errors.Is(err, errTooLate) {
				return a.carry(ctx, r, lease, err)
			}
			a.owner = c.owner()
		}
		return a.lead(ctx, r, t.arrival)
	case <-ctx.Done():
		c.withdraw(a.latch, r, wait)
	case <-c.closing.Done():
		c.withdraw(a.latch, r, wait)
	}
	a.answered = r.taken.Load()
	err := c.usable(ctx)
	if !a.answered && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return nil, a.asTaken(ctx, a.failed("wait for", err))
}

// lead acquires the latch from Redis for one that waited, with tokens for those who wait still.
func (a *attempt) lead(ctx context.Context, r *relay, arrival int64) (*Lease, error) {
	a.leads, a.arrival = r, arrival
	if others, _ := a.client.relays.look(r); others > 0 {
		a.latch = a.asking(strconv.Itoa(1 + others))
	}
	lease, err := a.run(ctx, true)
	return a.carry(ctx, r, lease, err)
}

// spare is how many tokens an acquisition took for others.
func (l *latch) spare() int {
	if l.arg == "" || l.kind != script.Mutex {
		return 0
	}
	n, _ := strconv.Atoi(l.arg)
	return n - 1
}

// carry has the relay go on when the lease ends, or now if there is none.
func (a *attempt) carry(ctx context.Context, r *relay, lease *Lease, err error) (*Lease, error) {
	rs := &a.client.relays
	switch {
	case err == nil:
		lease.carry(r)
	case ctx.Err() != nil || errors.Is(err, ErrTaken):
		rs.next(r, a.arrival)
	default: // it may be the same for all: they find out at the same time, not one after the other
		rs.dissolve(r)
	}
	return lease, err
}

// carry makes the lease one that can be passed on, to those who are waiting now.
func (l *Lease) carry(r *relay) {
	l.mu.Lock()
	others, revoked := l.latch.client.relays.look(r)
	l.spare = min(l.spare, others)
	l.relay = r
	var events []Event
	switch {
	case l.state > inJeopardy: // so soon
		l.leave()
	case revoked == l.owner: // while nobody here held it
		events = l.doubt()
	}
	l.unlock(events...)
}

// pass hands a lease that has just been given up on to the next in the relay. One that is in jeopardy, was taken by force or should be extended
// goes back to Redis, which finds out whether it is still ours.
func (l *Lease) pass(was leaseState) bool {
	c := l.latch.client
	l.mu.Lock()
	r, spare := l.relay, l.spare
	g := grant{
		owner: l.owner, token: l.token + 1, spare: spare - 1, anchor: l.anchor, ttl: l.ttl, resent: l.resent, ticket: l.ticket, passed: true,
	}
	due := !c.now().Time().Before(l.extendAt)
	l.mu.Unlock()
	if r == nil || spare == 0 || was != held || due || c.closing.Err() != nil {
		return false
	}
	next := c.relays.pop(r, g.owner)
	if next == nil {
		return false
	}
	defer func() { next <- turn{baton: &g} }() // after the hook was told of the release
	l.mu.Lock()
	l.state, l.relay = released, nil
	l.unlock(Event{Kind: EventRelease, Held: c.now().Since(l.acquired)})
	return true
}

// leave has the relay go on without the lease, with its mu held.
func (l *Lease) leave() {
	if l.relay != nil {
		l.latch.client.relays.next(l.relay, 0)
		l.relay = nil
	}
}

// withdraw takes one that waits out of the relay.
func (c *Client) withdraw(l *latch, r *relay, wait chan turn) {
	if !c.relays.remove(r, wait) { // it was told at this moment
		c.decline(l, r, <-wait)
	}
}

// decline gives a turn to the next.
func (c *Client) decline(l *latch, r *relay, t turn) {
	rs := &c.relays
	switch {
	case t.alone:
	case t.baton == nil:
		rs.next(r, t.arrival)
	default:
		if next := rs.pop(r, t.baton.owner); next != nil {
			next <- t
			return
		}
		c.abandon(l, t.baton.owner, t.baton.ticket)
		rs.next(r, 0)
	}
}

// join enters the relay of a mutex. wait is nil for the first. There is no relay for one with other options than the first: what is passed
// on would be another lease.
func (rs *relays) join(l *latch) (r *relay, wait chan turn) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r = rs.all[l.keys.State]; r != nil {
		if r.latch.options != l.options {
			return nil, nil
		}
		wait = make(chan turn, 1)
		r.waiting = append(r.waiting, wait)
		return r, wait
	}
	if rs.all == nil {
		rs.all = make(map[string]*relay)
	}
	r = &relay{latch: l}
	rs.all[l.keys.State] = r
	return r, nil
}

// look is how many wait, as far as one run goes, and the owner from which the mutex was taken.
func (rs *relays) look(r *relay) (others int, revoked string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return min(len(r.waiting), maxRun-1), r.revoked
}

// revoke notes that a mutex was taken from this owner by force.
func (rs *relays) revoke(owner string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.all {
		r.revoked = owner // no matter to the others: it is not theirs
	}
}

// pop takes the next out, who is to be told by the caller; nil if there is none, or nothing to pass on since it was taken from this owner.
func (rs *relays) pop(r *relay, owner string) chan turn {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(r.waiting) == 0 || r.revoked == owner {
		return nil
	}
	return r.first()
}

// remove takes out one that waits, and reports whether it did wait.
func (rs *relays) remove(r *relay, wait chan turn) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i := slices.Index(r.waiting, wait)
	if i < 0 {
		return false
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	return true
}

// abort takes out one that will not go on, with all others if it is not one that waits.
func (rs *relays) abort(r *relay, wait chan turn) {
	if !rs.remove(r, wait) {
		rs.dissolve(r)
	}
}

// next has the next acquire the mutex from Redis. Without one, the relay is over.
func (rs *relays) next(r *relay, arrival int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(r.waiting) == 0 {
		delete(rs.all, r.latch.keys.State)
		return
	}
	r.first() <- turn{arrival: arrival}
}

// dissolve ends the relay: all who wait acquire the mutex for themselves.
func (rs *relays) dissolve(r *relay) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, r.latch.keys.State)
	for len(r.waiting) > 0 {
		r.first() <- turn{alone: true}
	}
}

// first takes out the first of those who wait, with the relays' mu held.
func (r *relay) first() chan turn {
	next := r.waiting[0]
	r.waiting = slices.Delete(r.waiting, 0, 1)
	return next
}
