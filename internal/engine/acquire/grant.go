package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// begin turns a grant into a lease, or gives the grant back. It also gives the grant back if the
// hook panics.
func (a *attempt) begin(ctx context.Context, g lock.Grant) (got *lease.Lease, err error) {
	a.owner = g.Owner
	defer func() {
		if got == nil {
			a.returnGrant(g)
		}
	}()
	now, err := a.makeUsable(ctx, &g)
	if err != nil {
		return nil, err
	}
	left := g.Left(now)
	if left <= 0 { // the requests took too long
		return nil, fault.ErrTooLate
	}
	a.ended = true
	a.emit(lock.Event{
		What: lock.Granted, Token: g.Token, Waited: now.Since(a.start), Remaining: left,
	})
	a.disentangle()
	if labels := a.wish.Labels; len(labels) > 0 {
		// Before there is a lease, whose end drops it.
		a.by.Notes.Set(g.Owner, notes.Note{Labels: labels})
	}
	got = a.by.Keeper.Begin(a.Lock, a.id, a.ctx, g, now)
	if a.by.Closing.Err() != nil { // Close may have looked for leases before this one was there
		got.Lose(lock.ReasonClosed)
	}
	return got, nil
}

// makeUsable does what a grant needs before it can be a lease, and returns the time after that. With
// Replicas, makeUsable waits for them. A grant whose time has nearly passed by then is extended, so
// that no caller gets a lease that is about to end. The error says why the grant cannot be used.
func (a *attempt) makeUsable(ctx context.Context, g *lock.Grant) (now clock.Reading, err error) {
	if err := a.by.CheckOpen(ctx); err != nil {
		return now, a.describeTimeout(ctx, a.failed("acquire", err))
	}
	if a.Replicas > 0 && !g.Passed {
		err = a.replicate(ctx, g)
	}
	if now = a.by.Now(); err == nil && g.TTL-now.Since(g.Sent) < a.least(g.TTL) {
		err = a.extendGrant(ctx, g)
		now = a.by.Now()
	}
	switch {
	case err == nil || errors.Is(err, fault.ErrTooLate):
		return now, err
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return now, a.failed("acquire", fmt.Errorf("%w within %v", fault.ErrUnreachable, a.by.Timeout))
	}
	return now, a.describeTimeout(ctx, err)
}

// within bounds a second request of a try: it takes no longer for each name than any call may.
// (Package ask bounds the first.) A waiter is bounded by its context alone.
func (a *attempt) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.patient {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, a.by.Timeout*4/3-a.by.Now().Since(a.since))
}

// extendGrant gives a grant its full TTL again. The error is fault.ErrTooLate if the grant has run out.
func (a *attempt) extendGrant(ctx context.Context, g *lock.Grant) error {
	ctx, cancel := a.within(ctx)
	defer cancel()
	reply, err := a.ask(ctx, "extend", a.Kind.Renew(a.Keys, a.owner, a.TTL, g.Detail))
	if err != nil {
		return err
	}
	if !script.Done(reply.Reply) {
		g.Gone = true
		return fault.ErrTooLate
	}
	if a.mayBeAnother(g) {
		return fault.ErrTooLate
	}
	g.Sent, g.TTL = reply.Sent, a.TTL
	return nil
}

// mayBeAnother reports whether the owner that Redis has just found inside may have been out since the
// grant, and in again with another token: the grant has run out, and a late copy of the acquisition, or
// the late vote of a node, came after that.
func (a *attempt) mayBeAnother(g *lock.Grant) bool {
	return (g.Resent || a.by.Quorum != nil) && g.Left(a.by.Now()) <= 0
}

// returnGrant releases, in the background, a grant that did not become a lease.
func (a *attempt) returnGrant(g lock.Grant) {
	switch {
	case g.Gone && !g.Resent && a.Extra == 0: // nothing is left of it in Redis, or on its way there
	case g.Adopted:
		a.by.Undo.ReleaseAdopted(a.Lock, a.owner)
	default:
		a.abandon(g.Owner, g.Ticket)
	}
	if a.ended { // the hook panicked when it was told of a lease, which the program will not have
		a.emit(lock.Event{What: lock.Released, Token: g.Token, Err: a.failed("release", errPanicked)})
	}
}

// replicate waits for replicas to acknowledge the acquisition. It extends the lease: WAIT covers
// the writes of its own connection and all before them, and the grant may have been the write of
// another client. The deadline counts from that extend, which the replicas know.
func (a *attempt) replicate(ctx context.Context, g *lock.Grant) error {
	c, n := a.by, int(a.Replicas)
	ctx, cancel := a.within(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	// It is tempting to send a plain extend. But that writes nothing if it adds no time, and then
	// WAIT waits for nothing, on Redis 8.0. This extend is sent once: a late copy of it would
	// shorten a lease that ExtendTo has made longer.
	renew := a.Kind.Exactly(a.Kind.Renew(a.Keys, a.owner, a.TTL, ""))
	sent := c.Now()
	r, acks := c.Conn.(conn.Replicated).EvalReplicated(ctx, renew, n, c.Timeout/3)
	switch {
	case r.Err != nil:
		return a.failed("acquire", ask.Unanswered(ctx, c.Now().Since(sent), r.Err))
	case !script.Done(r.Reply), a.mayBeAnother(g):
		return fault.ErrTooLate
	case acks < n:
		return a.failed("acquire", fmt.Errorf("%w: %d of %d replicas acknowledged it within %v", fault.ErrNotReplicated, acks, n, c.Timeout/3))
	}
	g.Sent, g.TTL = sent, a.TTL
	return nil
}

// least is what must be left of a grant for it to be used as it is.
func (a *attempt) least(ttl time.Duration) time.Duration {
	if !a.Renews {
		return a.TTL * 9 / 10 // all that the program will ever get
	}
	return ttl / 3
}
