package lease

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// The watchdog extends leases and ends those whose deadline passed. It has no goroutine of its own:
// the client's schedule holds one entry for each lease, at the earlier of its next extend and its
// deadline, and calls due.
//
// An extend that got no answer changes nothing but the state: the deadline stays where the last
// confirmed request put it.

// maxBatch is how many extends go out in one pipeline.
const maxBatch = 256

// renewal is a lease as the schedule knows it.
type renewal Lease

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
	outlived := isDone(l.parent) // before mu: it may be the context of another lease
	l.mu.Lock()
	left, events := l.leftAt(now)
	extend := left > 0 && l.leading() == l && !l.pending && l.renews() && !now.Time().Before(l.extendAt().Add(-l.slack()))
	if extend {
		l.pending = true
	}
	if left > 0 {
		l.reschedule()
	}
	if extend && outlived {
		events = append(events, l.outlives(left)...)
	}
	others := l.others()
	l.unlock(events...)
	if extend {
		tellOutlived(others)
	}
	return extend
}

// tellOutlived tells which of these leases outlive the context that was given to Lock.
func tellOutlived(leases []*Lease) {
	for _, l := range leases {
		if !isDone(l.parent) {
			continue
		}
		l.mu.Lock()
		left, events := l.left()
		if left > 0 {
			events = append(events, l.outlives(left)...)
		}
		l.unlock(events...)
	}
}

// reschedule puts the lease on the schedule for what comes next. The caller holds l.mu.
func (l *Lease) reschedule() {
	at, slack := l.deadline(), time.Duration(0)
	if !l.pending && l.renews() && l.extendAfter < l.validity() {
		at, slack = l.extendAt(), l.slack()
	}
	l.scheduled = true
	l.keeper.Schedule.Set(&l.entry, at, slack)
}

// extendAt returns when the watchdog should extend the lease. The caller holds l.mu.
func (l *Lease) extendAt() time.Time { return l.sentAt.Time().Add(l.extendAfter) }

// slack is how much earlier than planned an extend may be sent along with others. The caller holds
// l.mu.
func (l *Lease) slack() time.Duration {
	if l.state == inJeopardy {
		return l.resend() / 2
	}
	return l.pace() / 30
}

// resend is about how long the watchdog waits after an extend that failed.
func (l *Lease) resend() time.Duration {
	return min(max(l.lock.TTL/20, 20*time.Millisecond), time.Second)
}

// renews reports whether the watchdog extends the lease by itself. The caller holds l.mu.
func (l *Lease) renews() bool { return l.lock.Renews && l.leads() && !l.overdueLocked() }

// overdue reports whether the lease reached its MaxHold.
func (l *Lease) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overdueLocked()
}

// overdueLocked is overdue. The caller holds l.mu.
func (l *Lease) overdueLocked() bool {
	longest := l.lock.MaxHold
	return longest > 0 && l.keeper.Now().Since(l.acquired) >= longest
}

// recheck applies the word that the lease was taken by force. The lease is extended at once, which
// finds out whether it is really gone; one that is not extended any more is lost by that word
// alone. Redis may have answered an extend that is under way before the lease was taken, so the
// lease is extended once more after that. The caller holds l.mu.
func (l *Lease) recheck() []lock.Event {
	switch {
	case l.state > inJeopardy:
		return nil
	case !l.renews():
		return []lock.Event{l.losing(lock.Loss{Reason: lock.ReasonForced, Note: l.keeper.forced(l.owner)})}
	}
	l.forced, l.doubted = true, l.pending
	l.extendAfter = l.keeper.Now().Time().Sub(l.sentAt.Time())
	l.reschedule()
	return nil
}

// Recheck has leases of a key, or with "" all, extended sooner: the client may have missed a message
// that one of them was taken by force, or is waited for. No lease is extended more than once in a
// heartbeat for that, however often connections break, but for one whose extend was under way then:
// it is extended again.
func (k *Keeper) Recheck(key string) {
	for _, l := range k.All() {
		if key == "" || key == l.lock.Keys.State() {
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
	soon := max(l.keeper.Now().Time().Sub(l.sentAt.Time()), l.keeper.LiveFor/3)
	l.extendAfter = min(l.extendAfter, soon)
	l.doubted = l.doubted || l.pending // Redis may have answered that one before
	l.reschedule()
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
	for i, r := range k.Asker.SendAll(ctx, calls, missing) {
		leases[i].finishExtend(r.Reply, r.Sent, ttls[i], extensions[i].left, r.Err)
	}
}

// beginExtend begins an extend on behalf of the program, after the one under way if there is one. It returns
// what is left of the lease: a look at it after that could tell a loss, and a hook that panics there would
// leave the extend under way for ever.
func (l *Lease) beginExtend(ctx context.Context) (left time.Duration, err error) {
	for {
		l.mu.Lock()
		left, events := l.left()
		var settled <-chan struct{}
		err := l.err
		switch lead := l.leading(); {
		case err != nil:
		case lead.pending:
			settled = lead.settledLocked()
		default:
			lead.pending = true
		}
		l.unlock(events...)
		if settled == nil {
			return left, err
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return 0, l.failed("extend", fault.WhyDone(ctx))
		}
	}
}

// finishExtend ends an extend that was sent then and asked for ttl, and returns its error. reply is
// what Redis said, if err is nil.
func (l *Lease) finishExtend(reply conn.Reply, sent clock.Reading, ttl, left time.Duration, err error) error {
	l.mu.Lock()
	lead := l.leading()
	lead.settleLocked()
	var events []lock.Event
	if lead.state <= inJeopardy {
		events, err = lead.outcome(l, reply, sent, ttl, left, err)
	}
	if l.err != nil {
		err = l.err
	}
	lead.unlock(events...)
	return err
}

// outcome applies what became of an extend, which was sent for by, to a lease that is held and leads,
// and to those that share its entry. The caller holds l.mu.
func (l *Lease) outcome(by *Lease, reply conn.Reply, sent clock.Reading, ttl, left time.Duration, err error) ([]lock.Event, error) {
	now := l.keeper.Now()
	switch {
	case err == nil && script.Done(reply):
		l.confirm(by, sent, ttl)
		l.extendOthers(by, sent, ttl, left, now)
		l.extendAfter = retry.Jitter(l.pace()/3, 0.05)
		if l.doubted {
			l.doubted, l.extendAfter = false, now.Time().Sub(sent.Time())
		}
		l.reschedule()
		if l.wishing() {
			l.askWanted()
		}
		return []lock.Event{{What: lock.Extended, Before: left, Remaining: l.validity() - now.Since(l.sentAt)}}, nil
	case err == nil || retry.WrongType(err):
		return []lock.Event{l.losing(l.whyGone(script.ParseGone(reply)))}, l.err
	}
	for _, m := range l.others() {
		if !m.overdueLocked() {
			l.nest.tell(m, m.doubting(now, err)...)
		}
	}
	events := l.doubting(now, err)
	l.extendAfter = now.Time().Sub(l.sentAt.Time()) + retry.Jitter(l.resend(), 0.2)
	l.reschedule()
	return events, err
}

// doubting puts a lease into jeopardy, since an extend failed with err, and returns the events to tell.
// The caller holds l.mu.
func (l *Lease) doubting(now clock.Reading, err error) []lock.Event {
	failed := lock.Event{What: lock.ExtendFailed, Remaining: l.validity() - now.Since(l.sentAt), Err: err}
	events := []lock.Event{failed}
	if l.state == held {
		failed.What = lock.Jeopardy
		events = append(events, failed)
	}
	l.state = inJeopardy
	return events
}
