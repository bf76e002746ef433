package redlatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
)

// Lease is one acquisition of a lock: what you hold, as opposed to what you can hold. It is safe for concurrent use.
//
// A lease is held until it is released or lost. It is lost when its deadline passes without an extend that Redis confirmed, or as soon
// as Redis says that it is gone. The deadline is the lock's TTL after the moment *before* the last confirmed request was sent, less a
// hundredth of the TTL and 2ms for clocks that differ, by whichever of the monotonic and the wall clock went further; so this process
// gives the lease up before Redis does. No call, however slow, makes it longer.
//
// Between the last check and the write, a process can still be suspended for any length of time. What closes that gap is the fencing
// token: pass [Lease.Token] along with every write, and let the resource refuse tokens older than the newest it has seen.
type Lease struct {
	latch    *latch
	owner    string
	token    int64
	got      string // what else the acquisition got, by kind: the number of a slot, ...
	ctx      leaseContext
	cancel   context.CancelCauseFunc
	acquired clock.Reading
	entry    schedule.Entry

	mu       sync.Mutex // guards what is below
	state    leaseState
	unsure   bool          // a release got no answer, and may have taken place
	resent   bool          // see grant
	ticket   string        // if it is resent
	anchor   clock.Reading // before the last confirmed request was sent
	ttl      time.Duration // that Redis set then, at least
	validity time.Duration // of this, what may be used
	extendAt time.Time     // when the watchdog should extend it
	flight   chan struct{} // closed when the extend or release under way is over; nil if none is
	err      error         // why it is not held any more
	relay    *relay        // it can be passed on there; nil if it cannot
	spare    int           // to how many: it has tokens for them
}

type leaseState uint8 // small, as leases are many

const (
	held       leaseState = iota
	inJeopardy            // held, but the last extend failed
	ended                 // given up here; its release is under way, or failed
	released
	lost
)

func newLease(a *attempt, g grant, now clock.Reading) *Lease {
	l := &Lease{
		latch: a.latch, owner: g.owner, token: g.token, got: g.got, acquired: now, resent: g.resent,
		anchor: g.anchor, ttl: g.ttl, validity: g.ttl - drift(g.ttl), spare: g.spare,
	}
	if g.resent {
		l.ticket = g.ticket // which else nobody needs
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(a.ctx)
	l.entry.Owner = l
	l.extendAt = g.anchor.Time().Add(jitter(l.validity/3, 0.1))
	if !g.passed {
		// A grant out of the line counts from the last await, which can be a third of its time ago; most work is over before a tenth is.
		// Not so for a lease that is passed on, perhaps many times within a tenth: it would not be extended, nor its loss found, before the end.
		l.extendAt = later(l.extendAt, now.Time().Add(l.validity/10))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reschedule()
	return l
}

// Name is the name of the lock.
func (l *Lease) Name() string { return l.latch.name }

// Owner names this acquisition in Redis: it is what `GET` shows for a mutex that is held. No other acquisition ever has the same, but for
// a [ReentrantMutex], whose entries have the owner that entered, and for goroutines that pass a [Mutex] on among themselves, one after
// the other.
func (l *Lease) Owner() string {
	if l.latch.alias != "" {
		return l.latch.alias
	}
	return l.owner
}

// Context is done when the lease is released or lost, or when the context that was given to Lock is done. If the lease was lost,
// context.Cause returns the [*LostError]. Run the work under it.
func (l *Lease) Context() context.Context { return &l.ctx }

// Token is the fencing token of this acquisition: larger than that of every earlier acquisition of the name. Once the lease is not held
// it is 0, which is smaller than every token, so that whoever checks tokens refuses it.
func (l *Lease) Token() int64 {
	if !l.Held() {
		return 0
	}
	return l.token
}

// Held reports whether the lease is held at this moment. When it returns false, Context is done already.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining is how long the lease is sure to last without another extend; 0 if it is not held.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	left, events := l.left()
	l.unlock(events...)
	return left
}

// Deadline is the time at which the lease ends without another extend. It stays what it was when the lease is no longer held.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// Err is nil while the lease is held, a [*LostError] once it is lost, and matches [ErrNotHeld] in any case once it is not held.
func (l *Lease) Err() error {
	l.Remaining() // notices that the deadline passed
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Ensure returns nil if the lease lasts for at least d from now, extending it if need be. Call it before a step that must not be
// interrupted. The error is that of [Lease.Extend], or matches [ErrInvalid] if d is longer than a full TTL can promise.
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

// Extend gives the lease its full TTL again, counted from before the request. The watchdog does so by itself; a program needs it with
// LeaseOptions.NoRenew.
//
// If the lease is no longer held, or Redis says so now, the error matches [ErrNotHeld]. If Redis does not answer it matches
// [ErrUnreachable]; then the lease is held until its old deadline. A lease that reached its MaxHold is not extended.
func (l *Lease) Extend(ctx context.Context) error {
	if l.Held() && l.overdue() {
		return fmt.Errorf("redlatch: extend %q: %w", l.Name(), errMaxHold)
	}
	if err := l.board(ctx); err != nil {
		return err
	}
	c, o := l.latch.client, l.latch.options
	left := l.Remaining()
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	answer, err := c.ask(bounded, "extend", l.latch, l.latch.kind.Renew(l.latch.keys, l.owner, o.TTL, l.got))
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.latch.failed("extend", fmt.Errorf("%w before the deadline", ErrUnreachable))
	}
	return l.land(script.Done(answer.Reply), answer.sent, left, err)
}

// Release gives the lock up and lets in whoever is next in line. The lease's context is done before the request is sent, so finish the
// work first. Release is bounded by Options.RequestTimeout, after an Extend of the program's that is under way; ctx being done does not stop
// it, since a lock that stays behind helps nobody.
//
// It returns nil if the lease was released, also by an earlier call, and the [*LostError] if the lease had been lost: the work may then
// have overlapped with that of the next holder. If Redis does not answer, the error matches [ErrUnreachable], and Release may be called
// again; the lock is then free at the latest when its TTL has passed.
func (l *Lease) Release(ctx context.Context) error {
	_, err := l.release(ctx, "")
	return err
}

// release is Release, with how the work ended for the kinds that ask, and returns how many holds the owner has left.
func (l *Lease) release(ctx context.Context, result string) (holds int, err error) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	retired, was, err := l.retire()
	if !retired {
		return 0, err
	}
	defer l.touchDown()
	if l.pass(was) {
		return 0, nil
	}
	c := l.latch.client
	answer, err := c.ask(ctx, "release", l.latch, l.latch.kind.Release(l.latch.keys, l.owner, "", result, c.options.FenceTTL))
	holds, inside := script.Left(answer.Reply)

	l.mu.Lock()
	event := Event{Kind: EventRelease, Held: c.now().Since(l.acquired), Err: err}
	switch {
	case err != nil: // it may be tried again
		l.unsure = true
	case inside || answer.resent || l.unsure: // an earlier request that nobody confirmed did it
		l.state = released
	default:
		event = l.losing(errGone)
		err = l.err
	}
	resent, ticket := l.resent, l.ticket
	l.leave() // not before: who released it, and wants it again, may then be among those that the next acquisition is for
	l.unlock(event)
	if resent {
		c.abandon(l.latch, l.owner, ticket) // the request that got no answer would bring it back
	}
	return max(holds, 0), err
}

// suspect notes that a request got no answer, and may arrive when all is over. If all is over, it sees to that. A release that is under way
// does so itself: another beside it could come first, and the lease would seem to have been lost.
func (l *Lease) suspect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resent = true
	if l.state > ended || l.state == ended && l.flight == nil {
		l.latch.client.abandon(l.latch, l.owner, l.ticket)
	}
}

// retire ends the lease for the program and waits for the extend under way, so that no renewal follows a release. The release is then under
// way, until touchDown; was is the state before. If there is nothing to release, err is what Release returns.
func (l *Lease) retire() (retired bool, was leaseState, err error) {
	l.mu.Lock()
	for l.flight != nil {
		flight := l.flight
		l.mu.Unlock()
		<-flight
		l.mu.Lock()
	}
	_, events := l.left()
	defer func() { l.unlock(events...) }()
	switch l.state {
	case released:
		return false, 0, nil
	case lost:
		return false, 0, l.err
	}
	was = l.state
	l.state, l.err = ended, &releasedError{l.latch.name}
	l.latch.client.schedule.Remove(&l.entry)
	l.cancel(nil)
	l.flight = make(chan struct{})
	return true, was, nil
}

// touchDown ends what is under way.
func (l *Lease) touchDown() {
	l.mu.Lock()
	close(l.flight)
	l.flight = nil
	l.mu.Unlock()
}

// left is Remaining, with mu held. If it finds that the deadline has passed, the lease is lost before it returns, and events says so.
func (l *Lease) left() (left time.Duration, events []Event) { return l.leftAt(l.latch.client.now()) }

func (l *Lease) leftAt(now clock.Reading) (left time.Duration, events []Event) {
	if l.state > inJeopardy {
		return 0, nil
	}
	left = l.validity - now.Since(l.anchor)
	if left > 0 {
		return left, nil
	}
	return 0, []Event{l.losing(l.whyExpired())}
}

func (l *Lease) whyExpired() error {
	switch {
	case l.latch.options.NoRenew:
		return errNoRenew
	case l.overdueLocked():
		return errMaxHold
	}
	return errExpired
}

// lose ends a lease that is held, for a cause.
func (l *Lease) lose(cause error) {
	l.mu.Lock()
	var events []Event
	if l.state <= inJeopardy {
		events = append(events, l.losing(cause))
	}
	l.unlock(events...)
}

// losing marks the lease as lost and cancels its context, with mu held, and returns the event to tell.
func (l *Lease) losing(cause error) Event {
	err := &LostError{Name: l.latch.name, Owner: l.owner, Token: l.token, At: time.Now(), Cause: cause}
	l.state, l.err = lost, err
	l.latch.client.schedule.Remove(&l.entry)
	l.cancel(err)
	l.leave()
	return Event{Kind: EventLost, Held: l.latch.client.now().Since(l.acquired), Err: err}
}

// unlock releases mu and then tells the hook, which may call the lease.
func (l *Lease) unlock(events ...Event) {
	l.mu.Unlock()
	for _, e := range events {
		e.Latch, e.Name, e.Owner, e.Token = l.latch.kind.Name, l.latch.name, l.owner, l.token
		l.latch.client.emit(&l.ctx, e)
	}
}

func (l *Lease) deadline() time.Time { return l.anchor.Time().Add(l.validity) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
