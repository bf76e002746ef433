package lease

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// The watchdog extends leases and ends those whose deadline passed. It has no goroutine of its own:
// the client's schedule holds one entry for each lease, at the earlier of its next extend and its
// deadline, and calls due. pace.go says when the next extend is.
//
// An extend that got no answer changes nothing but the state: the deadline stays where the last
// confirmed request put it.

// maxBatch is how many extends go out in one pipeline.
const maxBatch = 256

// maxUnderWay is how many pipelines of extends may be under way to one server. They share a time
// limit. Without a bound, many leases that are due together, as after an outage, would exceed that
// limit even on a healthy server: no answer would count then, and all extends would be sent again.
// Leases that have no time to wait may use as many pipelines again. A lease that waits for its turn
// is not in jeopardy: none of its extends has failed.
const maxUnderWay = 16

// Due implements [schedule.Owner]. Leases that are to be extended are sent together, by Awake.
func (r *renewal) Due(now clock.Reading) {
	l := (*Lease)(r)
	if l.hearing != 0 { // else it is never kept
		l.lingered(now.Time())
	}
	if left, extend := l.due(now); extend {
		l.keeper.due = append(l.keeper.due, turn{l, now.Time().Add(left)})
	}
}

// due is called when the schedule hands the lease over, early or not. It returns what is left of
// the lease, and whether to extend it now: then the lease waits for its turn.
func (l *Lease) due(now clock.Reading) (left time.Duration, extend bool) {
	l.mu.Lock()
	left, events := l.leftAt(now)
	extend = left > 0 && !l.waits && l.dueLocked(now)
	l.waits = l.waits || extend
	if left > 0 {
		l.reschedule(now)
	}
	l.unlock(events...)
	return left, extend
}

// dueLocked reports whether the watchdog should extend the lease by now. The caller holds l.mu.
func (l *Lease) dueLocked(now clock.Reading) bool {
	return l.leading() == l && !l.pending && l.renews() && !now.Time().Before(l.extendAt(now).Add(-l.slack()))
}

// Recheck has the leases of a key, or all if it is "", extended sooner: the client may have missed
// a message that one of them was taken by force, or that a waiter wants it. However often
// connections break, no lease is extended for that more than once per heartbeat, unless its extend
// was under way: then it is extended again.
//
// A node of a cluster that is back has many keys, and a client may have many leases. So there is one
// look for all keys that come within a quarter of a second.
func (k *Keeper) Recheck(key string) {
	k.mu.Lock()
	now := k.Now().Time()
	wait, first := min(together-now.Sub(k.rechecked), together, k.LiveFor/3), len(k.rechecks) == 0
	if first {
		k.rechecks = make(map[string]bool)
	}
	k.rechecks[key] = true
	k.mu.Unlock()
	switch {
	case first && wait <= 0:
		k.recheck()
	case first:
		k.Go(func() {
			retry.Sleep(k.Closing, wait)
			k.recheck()
		})
	}
}

const together = 250 * time.Millisecond

// recheck is Recheck of the keys that have come.
func (k *Keeper) recheck() {
	k.mu.Lock()
	keys := k.rechecks
	k.rechecks, k.rechecked = nil, k.Now().Time()
	k.mu.Unlock()
	for _, l := range k.All() {
		if keys[""] || keys[l.lock.Keys.State()] {
			l.hasten()
		}
	}
}

// hasten has the watchdog extend the lease as soon as its last extend is a heartbeat old.
func (l *Lease) hasten() {
	l.mu.Lock()
	defer l.unlock()
	if l.state <= inJeopardy {
		l = l.leading()
	}
	if l.state > inJeopardy || !l.renews() {
		return
	}
	now := l.keeper.Now()
	soon := max(now.Since(l.sentAt), l.keeper.LiveFor/3)
	l.extendAfter = min(l.extendAfter, soon)
	l.doubted = l.doubted || l.pending // Redis may have answered that one before
	l.reschedule(now)
}

// Awake sends the extends of all leases that came due together, and tells which leases the program
// has forgotten. The schedule calls it whenever it wakes.
func (k *Keeper) Awake() {
	k.tellForgotten()
	var lanes []*lane
	for _, t := range k.due {
		if n := k.queue(t); !slices.Contains(lanes, n) {
			lanes = append(lanes, n)
		}
	}
	k.due = nil
	for _, n := range lanes {
		k.extendNext(n)
	}
}

// extendNext sends the extends that there is room for.
func (k *Keeper) extendNext(n *lane) {
	for batch, limit := k.take(n); len(batch) > 0; batch, limit = k.take(n) {
		k.Go(func() { k.extendBatch(n, batch, limit) })
	}
}

// extension is an extend that is under way.
type extension struct {
	lease *Lease
	left  time.Duration // of the lease
	ttl   time.Duration // that is asked for
}

// beginTurn begins the extend of a lease whose turn has come. It reports false if that is not due any
// more: the program has extended the lease, say, or released it.
func (l *Lease) beginTurn(now clock.Reading) (left time.Duration, begun bool) {
	l.mu.Lock()
	defer l.unlock()
	l.waits = false
	left = l.timeLeft(now)
	if l.state > inJeopardy || left <= 0 {
		return 0, false // the schedule tells of a lease that is lost by now
	}
	if begun = l.dueLocked(now); begun {
		l.pending = true
	}
	l.reschedule(now)
	return left, begun
}

func (k *Keeper) extendBatch(n *lane, due []*Lease, limit time.Duration) {
	var extensions []extension
	var calls []conn.Call
	for _, l := range due {
		if left, begun := l.beginTurn(k.Now()); begun {
			ttl := l.lengthen(l.lock.TTL)
			extensions = append(extensions, extension{l, left, ttl})
			calls = append(calls, l.lock.Kind.Renew(l.lock.Keys, l.owner, ttl, l.detail))
		}
	}
	if len(calls) == 0 {
		k.landed(n, true)
		return
	}
	ctx, cancel := context.WithTimeout(k.Closing, limit)
	defer cancel()
	missing := func(node, i int) { extensions[i].lease.mend(node) } // mend the lease at that node
	// It is tempting to tell the hook of each extend at once. But a slow hook would let later
	// leases run out though Redis has extended them. For the same reason the schedule tells of no
	// lease that is due.
	all := make([]news, len(calls))
	answered := false
	for i, r := range k.Asker.SendAll(ctx, calls, missing) {
		e := extensions[i]
		answered = answered || r.Err == nil
		all[i], _ = e.lease.settleExtend(r.Reply, r.Sent, e.ttl, e.left, r.Err)
	}
	k.landed(n, answered || ctx.Err() == nil)
	tellEach(all)
	for _, e := range extensions {
		l := e.lease
		l.mu.Lock()
		together := append(l.others(), l)
		l.mu.Unlock()
		tellOutlived(together)
	}
}

// queue puts a lease into the lane of its server, which it returns.
func (k *Keeper) queue(t turn) *lane {
	node := "" // of a cluster
	if k.Node != nil {
		node = k.Node(t.lease.lock.Keys.State())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.lanes[node]
	if n == nil {
		n = &lane{room: maxUnderWay}
		if k.lanes == nil {
			k.lanes = make(map[string]*lane)
		}
		k.lanes[node] = n
	}
	// Not heap.Push, whose argument would be allocated.
	n.waiting = append(n.waiting, t)
	heap.Fix(&n.waiting, len(n.waiting)-1)
	return n
}

// take removes from a lane the leases of one pipeline, which is under way from then on, and returns
// how long it may take. It returns none if none wait, or there is no room. Leases whose deadlines
// are near go first, and apart from the others: they cannot wait as long for an answer.
func (k *Keeper) take(n *lane) (batch []*Lease, limit time.Duration) {
	now := k.Now().Time()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Closing.Err() != nil {
		return nil, 0
	}
	for len(n.waiting) > 0 && len(batch) < maxBatch {
		first, room := n.waiting[0], n.room
		patience := k.Asker.Patience(first.deadline.Sub(now))
		if full := k.Asker.Patience(lock.MaxTTL); patience < full || first.deadline.Sub(now) < 2*full {
			room = 2 * maxUnderWay
		}
		if n.underWay >= room || len(batch) > 0 && patience != limit {
			break
		}
		batch, limit = append(batch, first.lease), patience
		heap.Remove(&n.waiting, 0)
	}
	switch {
	case len(batch) > 0:
		n.underWay++
	case len(n.waiting) == 0 && cap(n.waiting) > maxBatch: // after a burst
		n.waiting = nil
	}
	return batch, limit
}

// landed ends a pipeline that was answered or not, and sends those that have room by now.
func (k *Keeper) landed(n *lane, answered bool) {
	k.mu.Lock()
	n.underWay--
	if n.room = min(n.room+1, maxUnderWay); !answered {
		n.room = 1
	}
	k.mu.Unlock()
	k.extendNext(n)
}

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].deadline.Before(t[j].deadline) }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push implements [heap.Interface]. Leases are added by queue.
func (t *turns) Push(any) {}

func (t *turns) Pop() any {
	last := len(*t) - 1
	(*t)[last] = turn{}
	*t = (*t)[:last]
	return nil
}
