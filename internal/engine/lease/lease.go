package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lease is one acquisition of a lock. Its methods say what those of the root's Lease say.
type Lease struct {
	keeper   *Keeper
	lock     *lock.Lock
	id       uint64 // of its events
	owner    string
	token    int64
	detail   string                      // what else the acquisition got, by kind: the number of a slot, ...
	parent   context.Context             // that was given to Lock
	work     atomic.Pointer[workContext] // cancels its context; nil until code asks for one
	acquired clock.Reading
	entry    schedule.Entry

	mu          *sync.Mutex // guards what is below; it is own, or that of the nest
	own         sync.Mutex
	nest        *nest // the leases that share its entry of a reentrant mutex; else nil
	state       state
	forced      bool           // a message said that it was taken by force
	forcedAt    *clock.Reading // when a message last named the process that took it; nil if none has
	doubted     bool           // an extend was under way then, and one more has to follow
	unsure      bool           // a release got no answer, and Redis may have done it
	resent      bool           // see lock.Grant
	untold      bool           // the hook has not been told of it
	parting     int8           // how many calls are detaching it
	early       bool           // the program does not have it yet: see MarkEarly
	unused      bool           // it is given back before the program had it; set before its release begins
	forgotten   uint8          // no code has it any more: dropped, or toldDropped
	outlived    uint8          // how many extends found its context done; 2 at most
	late        uint64         // nodes of a quorum, one bit each, where a request may arrive late; see MarkLateAt
	spare       int16          // how many goroutines of the group it may be passed on to; small
	tokens      int16          // how many tokens it has beyond its own
	hearing     uint32         // see lock.Grant
	keptSince   time.Time      // while it is kept
	ticket      string         // of its acquisition, if it is resent
	sentAt      clock.Reading  // before the last confirmed request was sent
	ttl         time.Duration  // the TTL that Redis set then, or less
	longest     time.Duration  // the longest TTL that an extend asked Redis for
	extendAfter time.Duration  // how long after sentAt the watchdog should extend it
	pending     bool           // an extend or a release is under way
	waits       bool           // for its turn to be extended by the watchdog
	settled     *settling      // the end of that; nil if no code waits for it
	err         error          // why it is not held any more
	wish        chan struct{}  // closed when a waiter wants the lock; nil if the program has not asked
	group       *handoff.Group // whose turn it has, and in which it can be passed on; nil if none
	counted     bool           // its visit has counted its end; guarded by the keeper's mu
	named       bool           // the keeper has counted it under its name; guarded by the keeper's mu
	asked       bool           // another client has asked for it; guarded by the keeper's mu
	outlasts    bool           // Redis may keep it longer: an extend had no answer, or was for an earlier lead
	votes       *ballot.Round  // of a quorum, while missing answers may cross its release; else nil
}

type state uint8 // small, as leases are many

const (
	held       state = iota
	inJeopardy       // held, but the last extend failed
	ended            // given up here; its release is under way, or failed
	kept             // given up here, and kept by the client: see kept.go
	released
	lost
	detached // given up here, and still inside in Redis
)

// settling is the end of an extend or a release that code waits for.
type settling struct {
	over chan struct{} // closed then
	err  error         // of a release
}

// work is a lease as the context of what is done under it. Its Value knows two keys: the lease's own
// *lock.Lock, which gives the lease, and [UnderKey], which gives the context itself. Neither costs an
// allocation.
type work Lease

// workContext is a context that ends when the lease is not held any more, or the context that was
// given to Lock is done.
type workContext struct {
	context.Context
	cancel context.CancelCauseFunc
	around around
}

// renewal is a lease as the schedule knows it.
type renewal Lease

// Begin begins a lease from a grant with time left. id numbers its events, and parent is the context
// that was given to Lock.
func (k *Keeper) Begin(on *lock.Lock, id uint64, parent context.Context, g lock.Grant, now clock.Reading) *Lease {
	l := &Lease{
		keeper: k, lock: on, id: id, owner: g.Owner, token: g.Token, detail: g.Detail, parent: parent, acquired: now,
		resent: g.Resent, sentAt: g.Sent, ttl: g.TTL, spare: int16(g.Spare), tokens: int16(g.Spare),
	}
	l.mu = &l.own
	if g.Passed {
		l.spare = int16(g.Run)
	}
	if script.Kept(g.Owner) {
		l.hearing = g.Hearing
	}
	if g.Resent {
		l.ticket = g.Ticket // which is needed for its clean-up alone
	}
	l.entry.Owner = (*renewal)(l)
	l.extendAfter = firstExtend(l.validity(), now.Since(g.Sent), g)
	l.mu.Lock()
	revoked := k.add(l)
	l.reschedule(now)
	var events []lock.Event
	if revoked {
		events = l.recheck()
	}
	l.unlock(events...)
	return l
}

// Lock returns the lock that the lease is on.
func (l *Lease) Lock() *lock.Lock { return l.lock }

// ID returns the number that the events of the lease have.
func (l *Lease) ID() uint64 { return l.id }

// Owner returns the name of this acquisition in Redis.
func (l *Lease) Owner() string { return l.owner }

// NamedOwner returns the owner as a program knows it. Of an entry, that is the owner that entered.
func (l *Lease) NamedOwner() string {
	if l.lock.Kind.Name == script.Reentrant.Name {
		return l.lock.Kind.Detail(l.lock.Param)
	}
	return l.owner
}

// Number returns the fencing token, even if the lease is not held.
func (l *Lease) Number() int64 { return l.token }

// Detail returns what else the acquisition got, by kind: the number of a slot, and so on.
func (l *Lease) Detail() string { return l.detail }

// Acquired returns when the lease began.
func (l *Lease) Acquired() clock.Reading { return l.acquired }

// Context returns the context to run the work under. It is done when the lease is released, detached
// or lost, or when the context that was given to Lock is done.
func (l *Lease) Context() context.Context { return (*work)(l) }

// Held reports whether the lease is held at this moment. When Held returns false, the lease's
// context is already done.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining returns how long the lease is sure to last without another extend; 0 if it is not held.
func (l *Lease) Remaining() time.Duration { return l.remainingAt(l.keeper.Now()) }

// remainingAt is Remaining at the given time.
func (l *Lease) remainingAt(now clock.Reading) time.Duration {
	l.mu.Lock()
	left, events := l.leftAt(now)
	l.unlock(events...)
	return left
}

// Deadline returns the time at which the lease ends without another extend.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// Err returns nil while the lease is held, and otherwise why it is not.
func (l *Lease) Err() error {
	l.Remaining() // notices that the deadline passed
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// SeemsHeld is Held for a caller that holds a mutex of its own: it calls no hook.
func (l *Lease) SeemsHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state <= inJeopardy && !l.overAt(l.keeper.Now())
}

// left is Remaining. If the deadline has passed, left marks the lease as lost, and events says so.
// The caller holds l.mu.
func (l *Lease) left() (left time.Duration, events []lock.Event) { return l.leftAt(l.keeper.Now()) }

// leftAt is left at the given time. The caller holds l.mu.
func (l *Lease) leftAt(now clock.Reading) (left time.Duration, events []lock.Event) {
	if l.state > inJeopardy {
		return 0, nil
	}
	if lead := l.leading(); lead.forced && !lead.renews() { // it has reached its MaxHold since recheck
		lost := lead.losing(lead.lossByForce())
		if lead == l {
			return 0, []lock.Event{lost}
		}
		l.nest.tell(lead, lost)
		return 0, nil
	}
	if left = l.timeLeft(now); left > 0 {
		return left, nil
	}
	events = []lock.Event{l.losing(lock.Loss{Reason: l.whyExpired()})}
	if next := l.leading(); next != l { // which usually has the same deadline
		_, more := next.leftAt(now)
		l.nest.tell(next, more...)
	}
	return 0, events
}

// whyExpired returns the cause of a loss by the deadline. The caller holds l.mu.
func (l *Lease) whyExpired() lock.Reason {
	switch {
	case !l.lock.Renews && !l.early:
		return lock.ReasonNotRenewed
	case l.overdueLocked():
		return lock.ReasonMaxHold
	}
	return lock.ReasonExpired
}

// unlock releases mu and then passes the events to the hook, which may call the lease. It does the
// same for events of the leases that share its entry.
func (l *Lease) unlock(events ...lock.Event) { // not with news, for which events would be allocated
	own, others := l.unlockUntold(events)
	l.tellOf(own, others)
}

// unlockUntold is unlock without the hook: the caller tells the hook what unlockUntold returns.
func (l *Lease) unlockUntold(events []lock.Event) (own []lock.Event, others []telling) {
	if l.untold {
		l.nest.tell(l, events...)
		events = nil
	}
	others = l.nest.collect()
	l.mu.Unlock()
	return events, others
}

// tellOf tells the hook what happened to the lease, and then to others that share its entry. If the
// hook panics, it is still told of the others.
func (l *Lease) tellOf(own []lock.Event, others []telling) {
	for i := len(others) - 1; i >= 0; i-- { // not slices.Backward: a defer in it is allocated
		defer others[i].of.emit(others[i].what)
	}
	for _, e := range own {
		l.emit(e)
	}
}

// news is what a hook has yet to be told about a lease, and about those that share its entry.
type news struct {
	of     *Lease
	own    []lock.Event
	others []telling
}

func (n news) tell() { n.of.tellOf(n.own, n.others) }

// tellEach tells all news. If the hook panics at one lease, it is still told of the later ones.
func tellEach(all []news) {
	if len(all) > 0 {
		defer tellEach(all[1:])
		all[0].tell()
	}
}

// emit tells the client what has become of a lease. The caller does not hold l.mu, since a hook may
// call the lease.
func (l *Lease) emit(e lock.Event) {
	if e.What == lock.Extended || e.What == lock.Jeopardy {
		e.HeldFor = l.keeper.Now().Since(l.acquired)
	}
	e.ID, e.Owner, e.Token = l.id, l.owner, l.token
	l.keeper.Tell(l.Context(), l.lock, e)
}

// deadline is Deadline. The caller holds l.mu.
func (l *Lease) deadline() time.Time { return l.sentAt.Time().Add(l.validity()) }

// asleep returns how long the machine has slept since the last confirmed request was sent, going by
// the clocks. That time uses up the lease, but timers do not count it. The caller holds l.mu.
func (l *Lease) asleep(now clock.Reading) time.Duration { return max(now.Gap(l.sentAt), 0) }

// validity returns how long the lease is held after sentAt: the TTL, less what the clocks may differ
// by. sentAt is before the request (ask.Answer.Sent), and Redis counts from its arrival: so the lease
// ends here before it ends there. confirm moves both. The caller holds l.mu.
func (l *Lease) validity() time.Duration { return l.ttl - lock.Drift(l.ttl) }

// confirm applies an extend that Redis has confirmed. by is the lease that it was sent for. Another
// lease gets its TTL at most, and keeps its own deadline if later. The caller holds l.mu.
func (l *Lease) confirm(by *Lease, sent clock.Reading, ttl time.Duration) {
	l.state, l.outlasts = held, false
	if l != by {
		ttl = min(ttl, l.lock.TTL)
		if ttl-lock.Drift(ttl) <= l.timeLeft(sent) {
			return
		}
	}
	l.sentAt, l.ttl = sent, ttl
}

// timeLeft returns how long it is to the deadline. The caller holds l.mu.
func (l *Lease) timeLeft(now clock.Reading) time.Duration { return l.validity() - now.Since(l.sentAt) }

// overAt reports whether the deadline has passed at the given time. The caller holds l.mu.
func (l *Lease) overAt(now clock.Reading) bool { return l.timeLeft(now) <= 0 }

// leftInRedis returns how long Redis keeps the lease, at least. The caller holds l.mu.
func (l *Lease) leftInRedis() time.Duration { return l.ttl - l.keeper.Now().Since(l.sentAt) }

// long reports whether Redis may keep the lease for longer than its TTL, since the program asked
// for that. The caller holds l.mu.
func (l *Lease) long() bool { return max(l.ttl, l.longest) > l.lock.TTL }

// reschedule puts the lease on the schedule for what comes next. The caller holds l.mu.
func (l *Lease) reschedule(now clock.Reading) {
	at, slack := l.deadline().Add(-l.asleep(now)), time.Duration(0)
	if !l.pending && !l.waits && l.renews() && l.extendAfter < l.validity() {
		at, slack = l.extendAt(now), l.slack()
	}
	if l.forced && l.leads() && l.lock.MaxHold > 0 { // then leftAt finds it lost
		if end := now.Time().Add(l.lock.MaxHold - now.Since(l.acquired)); end.Before(at) {
			at = end
		}
	}
	l.keeper.Schedule.Set(&l.entry, at, slack)
}

// extendAt returns when the watchdog should extend the lease, as things stand now. The caller holds
// l.mu.
func (l *Lease) extendAt(now clock.Reading) time.Time {
	return l.sentAt.Time().Add(l.extendAfter - l.asleep(now))
}

// slack returns how much earlier than planned an extend may be sent, together with others. The
// caller holds l.mu.
func (l *Lease) slack() time.Duration {
	if l.state == inJeopardy {
		return slackAfterFailure(l.lock.TTL)
	}
	return min(slack(l.pace()), l.extendAfter/4) // an extend that mends must not come much sooner
}

// pace returns a length of time: the watchdog lets a third of it pass between two extends. The
// caller holds l.mu.
func (l *Lease) pace() time.Duration {
	if full := l.lock.TTL; l.long() {
		return full - lock.Drift(full)
	}
	return l.validity()
}

// renews reports whether the watchdog extends the lease by itself. The caller holds l.mu.
func (l *Lease) renews() bool { return (l.lock.Renews || l.early) && l.leads() && !l.overdueLocked() }

// MarkEarly notes that the program does not have the lease yet, or that it has. Until it has, the
// watchdog extends the lease, whatever its options.
func (l *Lease) MarkEarly(early bool) {
	l.mu.Lock()
	defer l.unlock()
	if l.early = early; !l.lock.Renews && l.state <= inJeopardy {
		l.reschedule(l.keeper.Now())
	}
}

// Early reports whether the program does not have the lease yet.
func (l *Lease) Early() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.early
}

// overdueLocked is overdue. The caller holds l.mu.
func (l *Lease) overdueLocked() bool {
	longest := l.lock.MaxHold
	return longest > 0 && l.keeper.Now().Since(l.acquired) >= longest
}

// recheck handles the message that the lease was taken by force. The watchdog extends the lease at
// once, to find out whether it is really gone. If it no longer extends the lease, now or later, the
// message alone makes the lease lost. Redis may have answered an extend that is under way before
// the lease was taken, so one more extend follows it. The caller holds l.mu.
func (l *Lease) recheck() []lock.Event {
	switch {
	case l.state > inJeopardy:
		return nil
	case !l.renews():
		return []lock.Event{l.losing(l.lossByForce())}
	}
	now := l.keeper.Now()
	l.forced, l.doubted = true, l.pending
	if l.keeper.forced(l.owner) != "" {
		l.forcedAt = &now
	}
	l.extendAfter = now.Since(l.sentAt)
	l.reschedule(now)
	return nil
}

// lossByForce returns the loss of a lease that was taken by force, as a message said.
func (l *Lease) lossByForce() lock.Loss {
	return lock.Loss{Reason: lock.ReasonForced, Note: l.keeper.forced(l.owner)}
}

// losing marks the lease as lost, cancels its context and returns the event to tell. The caller
// holds l.mu.
func (l *Lease) losing(why lock.Loss) lock.Event {
	reason, err := why.Reason, l.keeper.Lost(l.lock, l.owner, l.token, why)
	outlasts := l.state <= inJeopardy && (l.pending || l.outlasts) // a pending release does not count
	l.state, l.err = lost, err
	l.loseOthers(why)
	last := l.keeper.forget(l)
	l.cancel(err)
	l.detachLocked()
	if last && reason != lock.ReasonClosed {
		l.remember(l.keeper.Now())
	}
	switch {
	case !last: // the others are held, and what is in Redis is theirs
	case reason == lock.ReasonClosed, !l.resent && l.late == 0 && (reason.Told() || !l.long() && !outlasts):
	case reason.Told():
		l.undoLocked(0)
	default: // not before Redis ends it: the work may need a moment to stop
		l.undoLocked(lock.Drift(l.ttl))
	}
	return lock.Event{What: lock.Lost, HeldFor: l.keeper.Now().Since(l.acquired), Reason: reason, Err: err}
}

// cancel ends the context of a lease that has just ended for this reason. The caller holds l.mu.
func (l *Lease) cancel(why error) {
	if w := l.work.Load(); w != nil {
		w.cancel(why)
	}
}

// detachLocked takes the turn from a lease that has ended and was not passed on: the next goroutine
// acquires the lock. The caller holds l.mu.
func (l *Lease) detachLocked() {
	if l.group != nil {
		l.keeper.Handoffs.Next(l.group, 0)
		l.group = nil
	}
}

// undoLocked releases the lease in the background after a delay: its release got no answer, or
// another request without an answer may bring the lease back. The caller holds l.mu.
//
// It is tempting to release it like an acquisition that never began. But then the run of a [Job]
// would not count, and a second run could begin in the same window.
func (l *Lease) undoLocked(after time.Duration) {
	for node := range l.keeper.Asker.Nodes() {
		l.undoLateLocked(node, after)
	}
}

// undoLateLocked is undoLocked at one node. The caller holds l.mu.
func (l *Lease) undoLateLocked(node int, after time.Duration) {
	until := l.stays()
	if l.ticket != "" {
		until = max(until, lock.LineTTL)
	}
	l.keeper.Cleanup.Add(node, l.releasing(l.ticket), after, until)
}

// undoAtLocked releases the lease in the background at one node of a quorum, which has answered all
// its requests. The caller holds l.mu.
func (l *Lease) undoAtLocked(node int) {
	l.keeper.Cleanup.AddAnswered(node, l.releasing(""), l.stays(), nil)
}

// stays returns how long a release is useful: Redis may have the lease, or its slot at rest. The
// window of a job stays in any case. The caller holds l.mu.
func (l *Lease) stays() time.Duration {
	return max(l.lock.TTL+l.lock.Rest(), l.longest, l.keeper.LiveFor)
}

// MarkResent notes that a request got no answer, and may arrive after the end of the lease. If the
// lease has ended already, it schedules a clean-up. A release under way schedules it itself: a
// second release could reach Redis first, and the lease would seem to have been lost.
func (l *Lease) MarkResent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resent = true
	if l.overAndDone() {
		l.undoLocked(0)
	}
}

// MarkLateAt is MarkResent for a request to one node of a quorum. It is tempting to have all nodes
// release the lease once more: as long as one node is down, the others would have twice the work.
func (l *Lease) MarkLateAt(node int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late |= 1 << node
	if l.overAndDone() {
		l.undoLateLocked(node, 0)
	}
}

// overAndDone reports whether the lease has ended and no release of it is under way. The caller holds l.mu.
func (l *Lease) overAndDone() bool {
	return l.state == released || l.state == lost || l.state == ended && !l.pending
}

// releasing returns the request that releases the lease.
func (l *Lease) releasing(ticket string) conn.Call {
	return l.keeper.releasing(l.lock, l.owner, ticket, l.token, l.unused, l.state == lost)
}

// remember notes that the lease is not in Redis any more, or that its client keeps releasing it.
// The caller holds l.mu.
func (l *Lease) remember(now clock.Reading) {
	l.keeper.released.remember(past{
		lock: l.lock, owner: l.owner, token: l.token, unused: l.unused, lost: l.state == lost,
		until: now.Time().Add(max(l.lock.TTL+l.lock.Rest(), l.longest)),
	})
}
