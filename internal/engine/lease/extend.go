package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Ensure returns nil if the lease lasts for at least d from now, and extends it if need be.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	if left := l.Remaining(); left > 0 && left >= d { // 0 is left of a lease that has ended, and d may be 0
		return nil
	}
	ttl := l.lock.TTL
	if full := ttl - lock.Drift(ttl); d >= full {
		return fault.Invalid("ensure %v of the lease on %q: with a TTL of %v it is never sure to last longer than %v", d, l.lock.Name, ttl, full)
	}
	if err := l.Extend(ctx); err != nil {
		return err
	}
	if left := l.Remaining(); left < d {
		return fmt.Errorf("redlatch: ensure %v of the lease on %q: only %v are left, Redis answers slowly: %w", d, l.lock.Name, left, fault.ErrUnreachable)
	}
	return nil
}

// Extend gives the lease its full TTL again, counted from before the request.
func (l *Lease) Extend(ctx context.Context) error {
	return l.extend(ctx, l.lock.TTL)
}

// extend is Extend with d in place of the TTL. It never shortens what is left in Redis.
func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if over := fault.WhyDone(ctx); over != nil { // nothing is sent, which is no reason to doubt the lease
		return cmp.Or(l.Err(), l.failed("extend", over))
	}
	if l.Held() && l.overdue() {
		return l.refusedByMaxHold()
	}
	since := l.keeper.Now()
	left, err := l.beginExtend(ctx, since)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended { // the context or a connection observer has panicked
			l.dropExtend()
		}
	}()
	if l.overdue() { // while it waited for another extend
		return l.refusedByMaxHold()
	}
	ttl := l.lengthen(d)
	bounded, cancel := context.WithTimeout(ctx, left) // a later answer is of no use
	defer cancel()
	call := l.lock.Kind.Renew(l.lock.Keys, l.owner, ttl, l.detail)
	answer, err := l.keeper.Asker.AskMissing(bounded, since, l.lock.Subject, "extend", call, l.mend)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.failed("extend", fmt.Errorf("%w before the deadline", fault.ErrUnreachable))
	}
	if err != nil && answer.Resent { // Redis may have refused this copy, and done an earlier one
		l.mu.Lock()
		l.leading().outlasts = true
		l.mu.Unlock()
	}
	ended = true
	n, err := l.settleExtend(answer.Reply, answer.Sent, ttl, left, err)
	if n.tell(); err != nil {
		return err
	}
	return l.Err() // the machine may have been suspended after Redis answered
}

// refusedByMaxHold returns the error of an extend after the lease has reached its MaxHold.
func (l *Lease) refusedByMaxHold() error {
	return fmt.Errorf("redlatch: extend %q: %w", l.lock.Name, fault.ErrMaxHold)
}

// dropExtend ends an extend that was too late to send, or that panicked and may have been sent.
func (l *Lease) dropExtend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	lead := l.leading()
	lead.settleLocked()
	lead.outlasts = true
	if lead.state <= inJeopardy {
		lead.reschedule(l.keeper.Now())
	}
}

// ExtendTo makes the lease last for d from now, even if that is longer than its TTL.
//
// It is tempting to stop the watchdog until then. But if the lease was deleted or taken by force,
// its loss would be noticed only at its end. So the watchdog still extends every third of the TTL,
// and asks for no less than is left.
func (l *Lease) ExtendTo(ctx context.Context, d time.Duration) error {
	if d >= time.Millisecond && l.Remaining() >= d {
		return nil
	}
	if d < time.Millisecond {
		return fault.Invalid("extend the lease on %q to %v: it must be at least 1ms", l.lock.Name, d)
	}
	l.mu.Lock()
	ttl := max(d, l.leftInRedis())
	held := l.keeper.Now().Since(l.acquired)
	l.unlock()
	switch {
	case ttl > lock.MaxTTL:
		return fault.Invalid("extend the lease on %q so that %v are left: at most %v may be", l.lock.Name, ttl, lock.MaxTTL)
	case ttl > l.lock.TTL && l.keeper.Quorum:
		return fault.Invalid("extend the lease on %q beyond its TTL of %v over a quorum: %w: give the lock a longer LockOptions.TTL",
			l.lock.Name, l.lock.TTL, errors.ErrUnsupported)
	case ttl > l.lock.TTL && l.lock.MaxHold > 0 && held+ttl > l.lock.MaxHold && l.Held():
		return fmt.Errorf("redlatch: extend %q so that %v are left, after %v: %w", l.lock.Name, ttl, held, fault.ErrMaxHold)
	}
	return l.extend(ctx, d)
}

// lengthen returns the TTL to ask for in an extend to d that is about to be sent: no less than the
// time that Redis keeps the lease for. It notes the TTL.
func (l *Lease) lengthen(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	lead := l.leading()
	ttl := max(d, lead.leftInRedis(), l.leftInRedis())
	lead.longest = max(lead.longest, ttl)
	return ttl
}

// beginExtend begins an extend for the program, after the one under way, if any. It returns what is
// left of the lease: a later look could find the lease lost, and if the hook panicked at that, the
// extend would stay under way forever.
//
// The wait counts toward the time limit of the extend, which runs from since: otherwise, on a
// server that does not answer, each of many extends would wait for all those before it.
func (l *Lease) beginExtend(ctx context.Context, since clock.Reading) (left time.Duration, err error) {
	for {
		l.mu.Lock()
		left, events := l.left()
		var settled <-chan struct{}
		err := l.err
		switch lead := l.leading(); {
		case err != nil:
		case lead.pending:
			settled = lead.settledLocked().over
		default:
			lead.pending = true
		}
		l.unlock(events...)
		if settled == nil {
			return left, err
		}
		most := l.keeper.Timeout
		waiting, cancel := context.WithTimeout(ctx, most-l.keeper.Now().Since(since))
		select {
		case <-settled:
			cancel()
			continue
		case <-waiting.Done():
			cancel()
		}
		if ctx.Err() != nil {
			return 0, l.failed("extend", fault.WhyDone(ctx))
		}
		return 0, l.failed("extend", fmt.Errorf("%w within %v: another extend or a release is under way", fault.ErrUnreachable, most))
	}
}

// settleExtend ends an extend that was sent at sent and asked for ttl. reply is what Redis said, if
// err is nil. It returns the error of the extend, and the news that the caller tells the hook.
func (l *Lease) settleExtend(reply conn.Reply, sent clock.Reading, ttl, left time.Duration, err error) (news, error) {
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
	own, others := lead.unlockUntold(events)
	return news{lead, own, others}, err
}

// outcome applies the result of an extend to a lease that is held and leads, and to those that
// share its entry. by is the lease that the extend was sent for. The caller holds l.mu.
func (l *Lease) outcome(by *Lease, reply conn.Reply, sent clock.Reading, ttl, left time.Duration, err error) ([]lock.Event, error) {
	now := l.keeper.Now()
	switch {
	case err == nil && script.Done(reply) && l != by && l.overdueLocked(): // it was for another lease, and prolongs none
		l.outlasts = true
		l.reschedule(now)
		return nil, l.refusedByMaxHold()
	case err == nil && script.Done(reply) && (l.resent || l.keeper.Quorum) && l.overAt(now) && by.overAt(now):
		// It is tempting to believe that the owner is inside. But its lease had run out: a late
		// copy of the acquisition, or a late vote, may have let it in again after another owner.
		l.outlasts = true
		return []lock.Event{l.losing(lock.Loss{Reason: l.whyExpired()})}, l.err
	case err == nil && script.Done(reply):
		soon, slack := l.extendAt(now).Sub(now.Time()), l.slack()
		extended := lock.Event{What: lock.Extended, Before: left, Given: by.ttl}
		l.confirm(by, sent, ttl)
		l.extendOthers(by, sent, ttl, extended, now)
		l.extendAfter = nextExtend(l.pace())
		if l.keeper.Quorum && slack < soon && soon < mendAfterMost { // by the program, and too early to mend
			l.extendAfter = now.Since(l.sentAt) + soon
		}
		switch {
		case l.doubted:
			l.doubted, l.extendAfter = false, now.Since(sent)
		case l.forced: // a false alarm: from a program, or a server that has lost that change
			l.forced = false
			l.keeper.unforced(l.owner)
		}
		l.reschedule(now)
		if l.wishing() {
			l.askWanted()
		}
		extended.Remaining = l.timeLeft(now)
		return []lock.Event{extended}, nil
	case err == nil || retry.WrongType(err):
		return []lock.Event{l.losing(l.whyGone(script.ParseGone(reply)))}, l.err
	}
	for _, m := range l.others() {
		m.outlasts = m.outlasts || mayBeDone(err)
		if !m.overdueLocked() {
			l.nest.tell(m, m.doubting(now, err)...)
		}
	}
	l.outlasts = l.outlasts || mayBeDone(err)
	events := l.doubting(now, err)
	l.extendAfter = now.Since(l.sentAt) + extendAfterFailure(l.lock.TTL)
	l.reschedule(now)
	return events, err
}

// mayBeDone reports whether Redis may have done an extend that failed with err. A server that refuses
// writes has done nothing.
func mayBeDone(err error) bool { return !retry.RefusesWrites(err) }

// doubting puts a lease into jeopardy, since an extend failed with err, and returns the events to tell.
// The caller holds l.mu.
func (l *Lease) doubting(now clock.Reading, err error) []lock.Event {
	failed := lock.Event{What: lock.ExtendFailed, Remaining: l.timeLeft(now), Err: err}
	events := []lock.Event{failed}
	if l.state == held {
		failed.What = lock.Jeopardy
		events = append(events, failed)
	}
	l.state = inJeopardy
	return events
}

// settleLocked ends the extend or release under way. The caller holds l.mu.
func (l *Lease) settleLocked() {
	l.pending = false
	if l.settled != nil {
		close(l.settled.over)
		l.settled = nil
	}
}

// settledLocked returns the end of the extend or release under way. The caller holds l.mu.
func (l *Lease) settledLocked() *settling {
	if l.settled == nil {
		l.settled = &settling{over: make(chan struct{})}
	}
	return l.settled
}

// failed wraps err with the operation, the lock and the server.
func (l *Lease) failed(op string, err error) error {
	return l.keeper.Asker.Failed(l.lock.Subject, op, err)
}

// overdue reports whether the lease has reached its MaxHold.
func (l *Lease) overdue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overdueLocked()
}
