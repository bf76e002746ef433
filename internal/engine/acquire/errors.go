package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// This file has the errors of an acquisition. A refusal for good is in the root (Client.refusal,
// latch.go), a deadlock in cycles.go, and too few replicas in grant.go.

// failed wraps err with the operation, the lock and the server.
func (a *attempt) failed(op string, err error) error { return a.by.Asker.Failed(a.Subject, op, err) }

// taken returns the error that says that there is no room.
func (a *attempt) taken() error { return a.by.Taken(a.Lock, a.occupant) }

// bounded returns ctx with the time limit of a wait that begins now.
func (a *attempt) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Waiting.Most > 0 {
		return context.WithTimeoutCause(ctx, a.Waiting.Most, fault.WaitOver(cmp.Or(a.most, a.Waiting.Most)))
	}
	return ctx, func() {}
}

// tooLate returns the error for the program if a grant came too late and is not waited for again.
func (a *attempt) tooLate(err error) error {
	if errors.Is(err, fault.ErrTooLate) {
		return a.failed("acquire", fmt.Errorf("%w before the lease was over again", fault.ErrUnreachable))
	}
	return err
}

// describeTimeout adds to the error of a wait that ran out of time what it waited for, if Redis
// ever said that there is something to wait for. It also adds an outage during the wait. An
// acquisition that was granted at once and is given back, since its context ended, waited for
// nothing. TakenError.Error in the root's errors.go names the holder; WaitOver in
// base/fault/done.go says that MaxWait has passed.
func (a *attempt) describeTimeout(ctx context.Context, err error) error {
	if ctx.Err() == nil || !a.answered || !a.patient {
		return err
	}
	occupant, outage := a.by.Line.Status(a.Lock)
	if occupant != (lock.Occupant{}) {
		a.occupant = occupant
	}
	waited := a.by.Now().Since(a.start).Round(time.Millisecond)
	err = fmt.Errorf("%w (waited %v): %w", err, waited, a.taken())
	if outage != nil {
		err = fmt.Errorf("%w; meanwhile: %w", err, cmp.Or(errors.Unwrap(outage), outage)) // which names the lock again
	}
	return err
}

// outOfTime returns the error of a first request that failed with err. A goroutine of a group may
// get its turn when its time is nearly up. If its one request has no answer by then, Redis may
// still be healthy: what counts is what the group last heard from Redis.
func (a *attempt) outOfTime(ctx context.Context, resent bool, err error) error {
	over := fault.WhyDone(ctx)
	if a.group == nil || over == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	a.answered = a.answered || a.group.Answered()
	if resent {
		a.group.MarkSilent()
	}
	if a.group.Reachable() {
		return a.failed("wait for", over)
	}
	return err
}

// lost returns the error of a round without a lease. If an earlier request of a try itself may keep
// it out, the error does not say that the lock is taken: that request got no answer in time, and
// perhaps no other owner has the lock.
func (a *attempt) lost(t *ballot.Tally) error {
	c := a.by
	found, v := t.Verdict()
	var err error
	switch {
	case found == ballot.Barred:
		err = c.Refusal(a.Lock, v.Refused)
	case found == ballot.Failed:
		err = c.Asker.Refused(c.Closing, a.Subject, c.Conn, "acquire", v.Err)
	case found != ballot.Taken && t.Undone != nil:
		err = a.failed("acquire", fmt.Errorf("%w when the token was told to the nodes: %w", fault.ErrUnreachable, t.Undone))
	case found != ballot.Taken:
		err = a.failed("acquire", fmt.Errorf("%w that a majority of the nodes would give", fault.ErrUnreachable))
	case t.Own() && !a.patient:
		err = a.failed("acquire", fmt.Errorf("%w in time to an earlier request, which may be what keeps the lock", fault.ErrUnreachable))
	case t.Decided() || t.Full():
		err = a.failed("acquire", c.Taken(a.Lock, lock.Occupant{Owner: t.Holder()}))
	default:
		err = a.failed("acquire", fmt.Errorf("a tie, in which no owner has a majority: %w", c.Taken(a.Lock, lock.Occupant{})))
	}
	return &ballot.ToldError{Err: err, Votes: t.Votes}
}
