package lease

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
)

// The watchdog extends leases and ends those whose deadline passed. It has no goroutine of its own:
// the client's schedule holds one entry for each lease, at the earlier of its next extend and its
// deadline, and calls due. pace.go says when the next extend is.
//
// An extend that got no answer changes nothing but the state: the deadline stays where the last
// confirmed request put it.

// maxBatch is how many extends go out in one pipeline.
const maxBatch = 256

// Due implements [schedule.Owner]. Leases that are to be extended are sent together, by ExtendDue.
func (r *renewal) Due(now clock.Reading) {
	l := (*Lease)(r)
	if l.hearing != 0 { // else it is never kept
		l.lingered(now.Time())
	}
	if k := l.keeper; l.due(now) {
		k.due = append(k.due, l)
	}
}

// due is called when the schedule hands the lease over, early or not, and reports whether to extend
// it now. If so, it has begun.
func (l *Lease) due(now clock.Reading) bool {
	l.mu.Lock()
	left, events := l.leftAt(now)
	extend := left > 0 && l.leading() == l && !l.pending && l.renews() && !now.Time().Before(l.extendAt(now).Add(-l.slack()))
	if extend {
		l.pending = true
	}
	if left > 0 {
		l.reschedule(now)
	}
	l.unlock(events...)
	return extend
}

// Recheck has leases of a key, or with "" all, extended sooner: the client may have missed a message
// that one of them was taken by force, or is waited for. No lease is extended more than once in a
// heartbeat for that, however often connections break, but for one whose extend was under way then:
// it is extended again.
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
	case first && k.Enter() == nil: // not Spawn: a subscription may outlast all that Close waits for before it
		go func() {
			defer k.Leave()
			retry.Sleep(k.Closing, wait)
			k.recheck()
		}()
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

// hasten has the watchdog extend the lease as soon as its extend before that is a heartbeat old.
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

// ExtendDue sends the extends of the leases that were due together. The schedule calls it.
func (k *Keeper) ExtendDue() {
	leases := k.due
	k.due = nil
	k.extend(leases)
}

// extend sends the extends of these leases, which have begun, in batches. Those whose deadlines are
// near go apart from the others: if no answer comes, they have no time to wait for it as long as
// the others may. Those at different nodes of a cluster go apart, too: no lease waits for the node
// of another.
func (k *Keeper) extend(leases []*Lease) {
	type company struct {
		limit time.Duration
		node  string
	}
	groups := make(map[company][]extension)
	for _, l := range leases {
		e := extension{lease: l, left: l.Remaining()}
		with := company{limit: k.Asker.Patience(e.left)}
		if k.Node != nil {
			with.node = k.Node(l.lock.Keys.State())
		}
		groups[with] = append(groups[with], e)
	}
	for with, group := range groups {
		for part := range slices.Chunk(group, maxBatch) {
			k.Spawn(func() { k.extendBatch(part, with.limit) })
		}
	}
}

// extension is an extend that is about to be sent.
type extension struct {
	lease *Lease
	left  time.Duration // of the lease
}

func (k *Keeper) extendBatch(extensions []extension, limit time.Duration) {
	leases, calls := make([]*Lease, len(extensions)), make([]conn.Call, len(extensions))
	ttls := make([]time.Duration, len(extensions))
	for i, e := range extensions {
		l := e.lease
		ttls[i] = l.lengthen(l.lock.TTL)
		leases[i], calls[i] = l, l.lock.Kind.Renew(l.lock.Keys, l.owner, ttls[i], l.detail)
	}
	ctx, cancel := context.WithTimeout(k.Closing, limit)
	defer cancel()
	missing := func(node, i int) { leases[i].mend(node) } // which takes the lease in again
	// It is tempting to tell of each extend at once. But a hook may be slow, and the leases after it would
	// run out though Redis has extended them. For the same reason the schedule tells of no lease that is due.
	all := make([]news, len(leases))
	for i, r := range k.Asker.SendAll(ctx, calls, missing) {
		all[i], _ = leases[i].settleExtend(r.Reply, r.Sent, ttls[i], extensions[i].left, r.Err)
	}
	tellEach(all)
	for _, l := range leases {
		l.mu.Lock()
		together := append(l.others(), l)
		l.mu.Unlock()
		tellOutlived(together)
	}
}
