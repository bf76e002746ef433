package redlatch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lease is one acquisition of a lock: what you hold, as opposed to what you can hold. It is safe
// for concurrent use.
//
// A lease is held until it is released or lost, or handed on by [Lease.Detach]. It is lost when its
// deadline passes without an extend that Redis confirmed, or as soon as Redis says that it is gone.
// The deadline is the lock's TTL after the moment *before* the last confirmed request was sent,
// less a hundredth of the TTL and 2ms for clocks that differ. Time is measured by the monotonic and
// by the wall clock, and the one that went further counts. So this process gives the lease up
// before Redis does, and a slow request gives it no more time.
//
// Between the last check and the write, a process can still be suspended for any length of time.
// What closes that gap is the fencing token: pass [Lease.Token] along with every write, and let the
// resource refuse tokens older than the newest it has seen.
type Lease struct {
	latch    *latch
	id       uint64 // of its events
	owner    string
	token    int64
	detail   string                      // what else the acquisition got, by kind: the number of a slot, ...
	parent   context.Context             // that was given to Lock
	work     atomic.Pointer[workContext] // what ends its context; nil until code asks for that
	of       *Lease                      // the lease that has the state, of a handle; see Client.trace
	acquired clock.Reading
	entry    schedule.Entry

	mu          sync.Mutex // guards what is below
	state       leaseState
	forced      bool           // its client was told that it was taken by force
	doubted     bool           // it was told so while an extend was under way
	unsure      bool           // a release got no answer, and may have taken place
	resent      bool           // see grant
	unused      bool           // it is given back before the program had it; set before its release begins
	forgotten   bool           // no code has it any more
	outlived    uint8          // how many extends found its context done; 2 at most
	extraTokens int16          // how many goroutines of the group it has tokens for; small, too
	ticket      string         // if it is resent
	sentAt      clock.Reading  // before the last confirmed request was sent
	ttl         time.Duration  // that Redis set then, at least
	longest     time.Duration  // that any extend asked Redis for
	extendAfter time.Duration  // when the watchdog should extend it, from sentAt on
	pending     bool           // an extend or a release is under way
	settled     chan struct{}  // closed when it has ended; nil if no code waits for that
	err         error          // why it is not held any more
	wish        *wish          // to be told that it is waited for; nil if the program has not asked
	group       *handoff.Group // whose turn it has, and in which it can be passed on; nil if none
	votes       *ballot.Round  // of a quorum, while answers are missing that may cross its release; else nil
}

type leaseState uint8 // small, as leases are many

const (
	held       leaseState = iota
	inJeopardy            // held, but the last extend failed
	ended                 // given up here; its release is under way, or failed
	released
	lost
	detached // given up here, and not in Redis
)

func newLease(a *attempt, g lock.Grant, now clock.Reading) *Lease {
	l := &Lease{
		latch: a.latch, id: a.id, owner: g.Owner, token: g.Token, detail: g.Detail, parent: a.ctx, acquired: now,
		resent: g.Resent, sentAt: g.Sent, ttl: g.TTL, extraTokens: int16(g.Spare),
	}
	if g.Resent {
		l.ticket = g.Ticket // which is needed for its clean-up alone
	}
	l.entry.Owner = (*renewal)(l)
	l.extendAfter = retry.Jitter(l.validity()/3, 0.1)
	if !g.Passed {
		// A grant out of the line counts from the last poll, which can be a third of its time ago.
		// Most work has ended before a tenth of the rest has passed. Not so for a lease that is
		// passed on, perhaps many times within a tenth: it would not be extended, nor its loss
		// found, before the end.
		age := now.Time().Sub(g.Sent.Time())
		l.extendAfter = max(l.extendAfter, age+(l.validity()-age)/10)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latch.client.keeper.add(l)
	l.reschedule()
	return l
}

// Name is the name of the lock.
func (l *Lease) Name() string { return l.latch.Name }

// Owner returns the name of this acquisition in Redis: `GET` shows it for a mutex that is held. No
// other acquisition ever has the same, with two exceptions: the entries of a [ReentrantMutex] have
// the owner that entered, and goroutines that pass a [Mutex] on among themselves have one owner,
// one after the other.
func (l *Lease) Owner() string {
	if l.latch.Kind.Name == script.Reentrant.Name {
		return l.latch.Kind.Detail(l.latch.Param)
	}
	return l.owner
}

// Context returns the context to run the work under. It is done when the lease is released,
// detached or lost, or when the context that was given to Lock is done. Then context.Cause returns
// the [*LostError] if the lease was lost, an error that matches [ErrNotHeld] and says so if it was
// released or detached, and the cause of the context that was given to Lock otherwise.
//
// Its Err answers by the clock: once the deadline has passed, it is not nil, and Done is closed.
// Done alone, and contexts made from this one, end when a method of the lease, that Err or the
// client's schedule looks at the clock. A process that computes on all its threads can keep the
// schedule from that for tens of milliseconds. Before a step that must not overlap, ask Err of this
// context, or [Lease.Ensure].
func (l *Lease) Context() context.Context { return (*leaseContext)(l.self()) }

// Token returns the fencing token of this acquisition, which is larger than that of every earlier
// acquisition of the name. Once the lease is not held, it returns 0, which is smaller than every
// token: a resource that checks tokens refuses it.
func (l *Lease) Token() int64 {
	if !l.Held() {
		return 0
	}
	return l.token
}

// Held reports whether the lease is held at this moment. When it returns false, Context is done
// already.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining returns how long the lease is sure to last without another extend. It returns 0 if the
// lease is not held.
func (l *Lease) Remaining() time.Duration {
	l = l.self()
	l.mu.Lock()
	left, events := l.left()
	l.unlock(events...)
	return left
}

// Deadline returns the time at which the lease ends without another extend. It stays what it was
// when the lease is no longer held.
func (l *Lease) Deadline() time.Time {
	l = l.self()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// Err returns nil while the lease is held, and an error that matches [ErrNotHeld] once it is not.
// If the lease was lost, that is a [*LostError].
func (l *Lease) Err() error {
	l = l.self()
	l.Remaining() // notices that the deadline passed
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Ensure returns nil if the lease lasts for at least d from now, and extends it if need be. Call it
// before a step that must not be interrupted. The error is that of [Lease.Extend]. It matches
// [ErrInvalid] if d is longer than a full TTL can promise; see [Lease.ExtendTo].
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	ttl := l.latch.TTL
	if full := ttl - lock.Drift(ttl); d >= full {
		return invalid("ensure %v of the lease on %q: with a TTL of %v it is never sure to last longer than %v", d, l.Name(), ttl, full)
	}
	if l.Remaining() >= d {
		return nil
	}
	if err := l.Extend(ctx); err != nil {
		return err
	}
	if left := l.Remaining(); left < d {
		return fmt.Errorf("redlatch: ensure %v of the lease on %q: only %v are left, Redis answers slowly: %w", d, l.Name(), left, ErrUnreachable)
	}
	return nil
}

// Extend gives the lease its full TTL again, counted from before the request. The watchdog does so
// unasked; a program needs it with LockOptions.Renew set to [Off]. See [Lease.ExtendTo] for another
// length.
//
// If the lease is no longer held, or Redis says so now, the error matches [ErrNotHeld]. If Redis
// does not answer, it matches [ErrUnreachable], and the lease is held until its old deadline. If
// the lease has reached its MaxHold, it is not extended, and the error matches [ErrMaxHold].
func (l *Lease) Extend(ctx context.Context) error {
	l = l.self()
	return l.extend(ctx, l.latch.TTL)
}

// extend is Extend to a length of its own, and to no less than what is left in Redis.
func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if l.Held() && l.overdue() {
		return fmt.Errorf("redlatch: extend %q: %w", l.Name(), ErrMaxHold)
	}
	if err := l.beginExtend(ctx); err != nil {
		return err
	}
	left, ttl := l.Remaining(), l.lengthen(d)
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	answer, err := l.latch.ask(bounded, "extend", l.latch.Kind.Renew(l.latch.Keys, l.owner, ttl, l.detail))
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.latch.failed("extend", fmt.Errorf("%w before the deadline", ErrUnreachable))
	}
	return l.finishExtend(answer.Reply, answer.Sent, ttl, left, err)
}

// Release gives the lock up and lets in the waiter that is next in line, but not before
// LockOptions.MinHold has passed. The lease's context is done before the request is sent, so finish
// the work first. Release waits for an Extend that is under way, and then for
// Options.RequestTimeout at most; a third longer if Redis says that the lease is gone, to ask why.
// It goes on when ctx is done, since a lock that stays behind keeps all others waiting.
//
// It returns nil if the lease was released, also by an earlier call, or was handed on with
// [Lease.Detach]. It returns the [*LostError] if the lease had been lost: the work may then have
// overlapped with that of the next holder. If Redis does not answer, or refuses writes for want of
// space, the error matches [ErrUnreachable]. The client then goes on trying in the background,
// until Redis has said twice that the lease is released, the TTL has passed or the client is
// closed. Release may also be called again.
func (l *Lease) Release(ctx context.Context) error {
	l = l.self()
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	begun, was, err := l.beginRelease()
	if !begun {
		return err
	}
	defer l.finishRelease()
	if l.handOff(was) {
		return nil
	}
	k := l.latch
	answer, err := k.client.asker.AskHearing(ctx, k.Subject, "release", l.releasing(""), l.hearingMisses())
	var gone script.Gone
	if err == nil && !script.Inside(answer.Reply) && !answer.Resent {
		gone = l.askGone(ctx)
	}
	return l.applyRelease(was, answer, gone, err)
}

// applyRelease applies the answer to a release, or the error of its request. was is the state before
// the release, and gone is why Redis does not know the owner, if it does not. It returns what
// Release returns.
func (l *Lease) applyRelease(was leaseState, answer ask.Answer, gone script.Gone, err error) error {
	l.mu.Lock()
	event := Event{Type: EventReleased, HeldFor: l.latch.client.now().Since(l.acquired), Err: err}
	switch stateAfterRelease(err, script.Inside(answer.Reply), answer.Resent || l.unsure) {
	case ended:
		l.unsure = true
	case released:
		l.state = released
	case lost:
		event = l.losing(l.whyGone(gone))
		err = l.err
	}
	if l.resent || err != nil && l.latch.client.quorum == nil { // a quorum goes on by itself, node by node
		l.undoLocked(0)
	}
	// Not before: a goroutine that released it, and wants it again, may then be among those that
	// the next acquisition is for.
	l.detachLocked()
	if was == ended { // the hook was told of the release that this one repeats
		l.unlock()
		return err
	}
	l.unlock(event)
	return err
}

// stateAfterRelease returns the state of a lease after a request that releases it. err is that of
// the request, and inside says that Redis took the owner out. again says that an earlier request may
// have done so: this one was resent, or an earlier release got no answer. The lease stays ended if
// the release may be tried again.
func stateAfterRelease(err error, inside, again bool) leaseState {
	switch {
	case err != nil:
		return ended
	case inside || again:
		return released
	}
	return lost
}

// askGone asks Redis why the lease is not there. It sends one extend, which changes nothing for an
// owner that is not inside.
func (l *Lease) askGone(ctx context.Context) script.Gone {
	c := l.latch.client
	if c.quorum != nil { // whose nodes do not tell
		return script.Gone{}
	}
	call := l.latch.Kind.Renew(l.latch.Keys, l.owner, l.latch.TTL, l.detail)
	return script.ParseGone(c.asker.Once(ctx, call).Reply)
}

// releasing returns the request that releases the lease. By MinHold it says how long the lock stays
// closed, unless the lease is given back unused.
func (l *Lease) releasing(ticket string) conn.Call {
	k := l.latch
	call := k.Release(l.owner, ticket, true, k.client.listener.Sharded())
	if k.MinHold > 0 && !l.unused {
		call = script.AtLeast(call, l.token, k.MinHold)
	}
	return call
}

// undoLocked releases the lease in the background after that time: its release got no answer, or a
// request that got none may bring it back. The caller holds l.mu.
//
// It is tempting to release it as an acquisition that never began. A run of a [Job] would then not
// have taken place, and a second one could begin in the same window.
func (l *Lease) undoLocked(after time.Duration) {
	c := l.latch.client
	until := max(l.latch.TTL, l.longest, c.liveFor())
	if l.ticket != "" {
		until = max(until, lock.Lingers)
	}
	for node := range c.asker.Nodes() {
		c.cleanup.Add(node, l.releasing(l.ticket), after, until)
	}
}

// undoAtLocked releases the lease in the background at one node of a quorum, which has answered all
// its requests. The caller holds l.mu.
func (l *Lease) undoAtLocked(node int) {
	c := l.latch.client
	c.cleanup.AddAnswered(node, l.releasing(""), max(l.latch.TTL, l.longest, c.liveFor()))
}

// markResent notes that a request got no answer, and may arrive after the end of the lease. If the
// lease has ended already, it schedules a clean-up. A release that is under way does so itself:
// another release beside it could come first, and the lease would seem to have been lost.
func (l *Lease) markResent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resent = true
	if l.state == released || l.state == lost || l.state == ended && !l.pending {
		l.undoLocked(0)
	}
}

// beginRelease ends the lease for the program and waits for the extend under way, so that no extend
// follows a release. The release is then under way until finishRelease. It returns the state
// before. If there is nothing to release, err is what Release returns.
func (l *Lease) beginRelease() (begun bool, was leaseState, err error) {
	l.mu.Lock()
	for l.pending {
		settled := l.settledLocked()
		l.mu.Unlock()
		<-settled
		l.mu.Lock()
	}
	_, events := l.left()
	defer func() { l.unlock(events...) }()
	switch l.state {
	case released, detached:
		return false, 0, nil
	case lost:
		return false, 0, l.err
	}
	was = l.state
	l.state, l.err = ended, (*releasedLease)(l)
	l.latch.client.keeper.forget(l)
	l.cancel(l.err)
	l.pending = true
	return true, was, nil
}

// finishRelease ends what is under way.
func (l *Lease) finishRelease() {
	l.mu.Lock()
	l.settleLocked()
	l.mu.Unlock()
}

// settleLocked ends the extend or release under way. The caller holds l.mu.
func (l *Lease) settleLocked() {
	l.pending = false
	if l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
}

// settledLocked returns a channel that is closed when the extend or release under way has ended.
// The caller holds l.mu.
func (l *Lease) settledLocked() <-chan struct{} {
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	return l.settled
}

// left is Remaining. If it finds that the deadline has passed, the lease is lost before it returns,
// and events says so. The caller holds l.mu.
func (l *Lease) left() (left time.Duration, events []Event) { return l.leftAt(l.latch.client.now()) }

// leftAt is left at that time. The caller holds l.mu.
func (l *Lease) leftAt(now clock.Reading) (left time.Duration, events []Event) {
	if l.state > inJeopardy {
		return 0, nil
	}
	left = l.validity() - now.Since(l.sentAt)
	if left > 0 {
		return left, nil
	}
	return 0, []Event{l.losing(ending{reason: l.whyExpired()})}
}

// seemsHeld is Held for a caller that holds a lock: it tells no event.
func (l *Lease) seemsHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state <= inJeopardy && l.validity() > l.latch.client.now().Since(l.sentAt)
}

// whyExpired returns the cause of a loss by the deadline. The caller holds l.mu.
func (l *Lease) whyExpired() LossReason {
	switch {
	case !l.latch.Renews:
		return LossNotRenewed
	case l.overdueLocked():
		return LossMaxHold
	}
	return LossExpired
}

// lose ends a lease that is held, for that reason.
func (l *Lease) lose(reason LossReason) {
	l.mu.Lock()
	var events []Event
	if l.state <= inJeopardy {
		events = append(events, l.losing(ending{reason: reason}))
	}
	l.unlock(events...)
}

// losing marks the lease as lost, cancels its context and returns the event to tell. The caller
// holds l.mu.
func (l *Lease) losing(why ending) Event {
	reason := why.reason
	err := &LostError{
		Name: l.latch.Name, Owner: l.owner, Token: l.token, At: time.Now(), Reason: reason, Cause: why.cause(), Force: why.force,
	}
	l.state, l.err = lost, err
	l.latch.client.keeper.forget(l)
	l.cancel(err)
	l.detachLocked()
	switch {
	case !l.resent || reason == LossClosed:
	case reason.told():
		l.undoLocked(0)
	default: // not before Redis ends it: the work may need a moment to stop
		l.undoLocked(lock.Drift(l.ttl))
	}
	return Event{Type: EventLost, HeldFor: l.latch.client.now().Since(l.acquired), Reason: reason, Err: err}
}

// unlock releases mu and then tells the hook, which may call the lease.
func (l *Lease) unlock(events ...Event) {
	l.mu.Unlock()
	for _, e := range events {
		l.emit(e)
	}
}

// deadline is Deadline. The caller holds l.mu.
func (l *Lease) deadline() time.Time { return l.sentAt.Time().Add(l.validity()) }

// validity returns how long the lease is held after sentAt: the TTL, but for what the clocks
// may differ by. The caller holds l.mu.
func (l *Lease) validity() time.Duration { return l.ttl - lock.Drift(l.ttl) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runHeld runs f under the lease, and releases it when f has returned or panicked.
func (l *Lease) runHeld(ctx context.Context, f func(ctx context.Context, l *Lease) error) (err error) {
	defer func() { err = fault.Join(err, l.Release(ctx)) }()
	return f(l.Context(), l)
}

func parseSlot(detail string) (int, error) { return strconv.Atoi(detail) }
