package redlatch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/retry"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
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
	got      string // what else the acquisition got, by kind: the number of a slot, ...
	ctx      leaseContext
	cancel   context.CancelCauseFunc
	acquired clock.Reading
	entry    schedule.Entry

	mu       sync.Mutex // guards what is below
	state    leaseState
	done     bool          // the result of its release was script.Completed
	forced   bool          // its client was told that it was taken by force
	unsure   bool          // a release got no answer, and may have taken place
	resent   bool          // see grant
	unused   bool          // it is given back before the program had it; set before its release begins
	ticket   string        // if it is resent
	anchor   clock.Reading // before the last confirmed request was sent
	ttl      time.Duration // that Redis set then, at least
	extendAt time.Time     // when the watchdog should extend it
	pending  chan struct{} // closed when the extend or release under way has ended; nil if there is none
	err      error         // why it is not held any more
	group    *handoffGroup // whose turn it has, and in which it can be passed on; nil if none
	spare    int           // to how many: it has tokens for them
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

func newLease(a *attempt, g grant, now clock.Reading) *Lease {
	l := &Lease{
		latch: a.latch, id: a.id, owner: g.owner, token: g.token, got: g.got, acquired: now,
		resent: g.resent, anchor: g.anchor, ttl: g.ttl, spare: g.spare,
	}
	if g.resent {
		l.ticket = g.ticket // which is needed for its clean-up alone
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(a.ctx)
	l.entry.Owner = (*renewal)(l)
	l.extendAt = g.anchor.Time().Add(retry.Jitter(l.validity()/3, 0.1))
	if !g.passed {
		// A grant out of the line counts from the last poll, which can be a third of its time ago.
		// Most work has ended before a tenth of it has passed. Not so for a lease that is passed
		// on, perhaps many times within a tenth: it would not be extended, nor its loss found,
		// before the end.
		l.extendAt = later(l.extendAt, now.Time().Add(l.validity()/10))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latch.client.leases.add(l)
	l.reschedule()
	return l
}

// Name is the name of the lock.
func (l *Lease) Name() string { return l.latch.name }

// Owner returns the name of this acquisition in Redis: `GET` shows it for a mutex that is held. No
// other acquisition ever has the same, with two exceptions: the entries of a [ReentrantMutex] have
// the owner that entered, and goroutines that pass a [Mutex] on among themselves have one owner,
// one after the other.
func (l *Lease) Owner() string {
	if l.latch.alias != "" {
		return l.latch.alias
	}
	return l.owner
}

// Context returns the context to run the work under. It is done when the lease is released,
// detached or lost, or when the context that was given to Lock is done. If the lease was lost,
// context.Cause returns the [*LostError].
//
// Its Err answers by the clock: once the deadline has passed, it is not nil, and Done is closed.
// Done alone, and contexts made from this one, end when a method of the lease, that Err or the
// client's schedule looks at the clock. A process that computes on all its threads can keep the
// schedule from that for tens of milliseconds. Before a step that must not overlap, ask Err of this
// context, or [Lease.Ensure].
func (l *Lease) Context() context.Context { return &l.ctx }

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
	l.mu.Lock()
	left, events := l.left()
	l.unlock(events...)
	return left
}

// Deadline returns the time at which the lease ends without another extend. It stays what it was
// when the lease is no longer held.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// Err returns nil while the lease is held, and an error that matches [ErrNotHeld] once it is not.
// If the lease was lost, that is a [*LostError].
func (l *Lease) Err() error {
	l.Remaining() // notices that the deadline passed
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Ensure returns nil if the lease lasts for at least d from now, and extends it if need be. Call it
// before a step that must not be interrupted. The error is that of [Lease.Extend]. It matches
// [ErrInvalid] if d is longer than a full TTL can promise.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	ttl := l.latch.options.TTL
	if full := ttl - drift(ttl); d >= full {
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
// unasked; a program needs it with LockOptions.Renew set to [Off].
//
// If the lease is no longer held, or Redis says so now, the error matches [ErrNotHeld]. If Redis
// does not answer, it matches [ErrUnreachable], and the lease is held until its old deadline. If
// the lease has reached its MaxHold, it is not extended, and the error matches [ErrMaxHold].
func (l *Lease) Extend(ctx context.Context) error {
	if l.Held() && l.overdue() {
		return fmt.Errorf("redlatch: extend %q: %w", l.Name(), ErrMaxHold)
	}
	if err := l.beginExtend(ctx); err != nil {
		return err
	}
	o := l.latch.options
	left := l.Remaining()
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	answer, err := l.latch.ask(bounded, "extend", l.latch.kind.Renew(l.latch.keys, l.owner, o.TTL, l.got))
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.latch.failed("extend", fmt.Errorf("%w before the deadline", ErrUnreachable))
	}
	return l.finishExtend(script.Done(answer.Reply), answer.sent, left, err)
}

// Release gives the lock up and lets in the waiter that is next in line, but not before
// LockOptions.MinHold has passed. The lease's context is done before the request is sent, so finish
// the work first. Release waits for an Extend that is under way, and then for
// Options.RequestTimeout at most. It goes on when ctx is done, since a lock that stays behind keeps
// all others waiting.
//
// It returns nil if the lease was released, also by an earlier call, or was handed on with
// [Lease.Detach]. It returns the [*LostError] if the lease had been lost: the work may then have
// overlapped with that of the next holder. If Redis does not answer, or refuses writes for want of
// space, the error matches [ErrUnreachable]. The client then goes on trying in the background,
// until Redis has said twice that the lease is released, the TTL has passed or the client is
// closed. Release may also be called again.
func (l *Lease) Release(ctx context.Context) error {
	return l.release(ctx, l.latch.result)
}

// release is Release, with how the work ended for the kinds that ask.
func (l *Lease) release(ctx context.Context, result string) error {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	retired, was, err := l.beginRelease()
	if !retired {
		return err
	}
	defer l.finishRelease()
	if l.handOff(was) {
		return nil
	}
	c := l.latch.client
	answer, err := l.latch.ask(ctx, "release", l.releasing("", result))
	inside := script.Inside(answer.Reply)

	l.mu.Lock()
	l.done = result == script.Completed
	events := []Event{{Type: EventReleased, HeldFor: c.now().Since(l.acquired), Err: err}}
	switch {
	case err != nil: // it may be tried again
		l.unsure = true
	case inside || answer.resent || l.unsure: // an earlier request without an answer did it
		l.state = released
	default:
		events[0] = l.losing(l.whyGone())
		err = l.err
	}
	if l.resent || err != nil && c.quorum == nil { // a quorum goes on by itself, node by node
		l.undoLocked(0)
	}
	// Not before: a goroutine that released it, and wants it again, may then be among those that
	// the next acquisition is for.
	l.detachLocked()
	if was == ended { // the hook was told of the release that this one repeats
		events = nil
	}
	l.unlock(events...)
	return err
}

// releasing returns the request that releases the lease. By MinHold it says how long the lock stays
// closed, unless the lease is given back unused.
func (l *Lease) releasing(ticket, result string) conn.Call {
	k := l.latch
	call := k.kind.Release(k.keys, l.owner, ticket, result, k.client.options.FenceTTL)
	if k.options.MinHold > 0 && !l.unused {
		call = script.AtLeast(call, l.token, k.options.MinHold)
	}
	return call
}

// undoLocked releases the lease in the background after that time: its release got no answer, or a
// request that got none may bring it back. The caller holds l.mu.
//
// It is tempting to release it as an acquisition that never began. A run of a [Job] would then not
// have taken place, and a second one could begin in the same window.
func (l *Lease) undoLocked(after time.Duration) {
	result := l.latch.result
	if l.done {
		result = script.Completed
	}
	c := l.latch.client
	until := max(l.latch.options.TTL, c.horizon())
	if l.ticket != "" {
		until = max(until, lineLingers)
	}
	for node := range c.nodes() {
		c.cleanup.Add(node, l.releasing(l.ticket, result), after, until)
	}
}

// markResent notes that a request got no answer, and may arrive after the end of the lease. If the
// lease has ended already, it schedules a clean-up. A release that is under way does so itself:
// another release beside it could come first, and the lease would seem to have been lost.
func (l *Lease) markResent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resent = true
	if l.state == released || l.state == lost || l.state == ended && l.pending == nil {
		l.undoLocked(0)
	}
}

// beginRelease ends the lease for the program and waits for the extend under way, so that no extend
// follows a release. The release is then under way until finishRelease. It returns the state
// before. If there is nothing to release, err is what Release returns.
func (l *Lease) beginRelease() (retired bool, was leaseState, err error) {
	l.mu.Lock()
	for l.pending != nil {
		pending := l.pending
		l.mu.Unlock()
		<-pending
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
	l.state, l.err = ended, &releasedError{l.latch.name}
	l.latch.client.forget(l)
	l.cancel(nil)
	l.pending = make(chan struct{})
	return true, was, nil
}

// finishRelease ends what is under way.
func (l *Lease) finishRelease() {
	l.mu.Lock()
	close(l.pending)
	l.pending = nil
	l.mu.Unlock()
}

// left is Remaining. If it finds that the deadline has passed, the lease is lost before it returns,
// and events says so. The caller holds l.mu.
func (l *Lease) left() (left time.Duration, events []Event) { return l.leftAt(l.latch.client.now()) }

// leftAt is left at that time. The caller holds l.mu.
func (l *Lease) leftAt(now clock.Reading) (left time.Duration, events []Event) {
	if l.state > inJeopardy {
		return 0, nil
	}
	left = l.validity() - now.Since(l.anchor)
	if left > 0 {
		return left, nil
	}
	return 0, []Event{l.losing(l.whyExpired())}
}

// whyExpired returns the cause of a loss by the deadline. The caller holds l.mu.
func (l *Lease) whyExpired() LossReason {
	switch {
	case l.latch.options.Renew == Off:
		return LossNotRenewed
	case l.overdueLocked():
		return LossMaxHold
	}
	return LossExpired
}

// whyGone returns the reason of a loss that Redis told. The caller holds l.mu.
func (l *Lease) whyGone() LossReason {
	if l.forced {
		return LossForced
	}
	return LossGone
}

// lose ends a lease that is held, for that reason.
func (l *Lease) lose(reason LossReason) {
	l.mu.Lock()
	var events []Event
	if l.state <= inJeopardy {
		events = append(events, l.losing(reason))
	}
	l.unlock(events...)
}

// losing marks the lease as lost, cancels its context and returns the event to tell. The caller
// holds l.mu.
func (l *Lease) losing(reason LossReason) Event {
	err := &LostError{Name: l.latch.name, Owner: l.owner, Token: l.token, At: time.Now(), Reason: reason, Cause: reason.cause()}
	l.state, l.err = lost, err
	l.latch.client.forget(l)
	l.cancel(err)
	l.detachLocked()
	switch {
	case !l.resent || reason == LossClosed:
	case reason == LossGone || reason == LossForced:
		l.undoLocked(0)
	default: // not before Redis ends it: the work may need a moment to stop
		l.undoLocked(drift(l.ttl))
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
func (l *Lease) deadline() time.Time { return l.anchor.Time().Add(l.validity()) }

// validity returns how long the lease is held after its anchor: the TTL, but for what the clocks
// may differ by. The caller holds l.mu.
func (l *Lease) validity() time.Duration { return l.ttl - drift(l.ttl) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runHeld runs f under the lease, and releases it when f has returned or panicked.
func (l *Lease) runHeld(ctx context.Context, f func(ctx context.Context, l *Lease) error) (err error) {
	defer func() { err = join(err, l.Release(ctx)) }()
	return f(l.Context(), l)
}

func parseSlot(got string) (int, error) { return strconv.Atoi(got) }
