package redlatch

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A lease can go on in another process. Detach ends it here without releasing it, and returns a
// text that names it. Adopt takes it up again, here or elsewhere, with the same token.
//
// In Redis the lease gets a new owner when it is adopted. So a text can be used once: a second
// Adopt finds the old owner gone. Nor can anything that was sent for the old owner, and arrives
// late, extend or release the lease of the new one.

// Adopt takes up a lease that [Lease.Detach] named, of any kind of lock, and gives it its full TTL
// again. The lease that it returns has the fencing token of the one that was detached, and is
// extended, released and lost as any other. ctx is the parent of its context. o says how it is held
// from now on, over the options of the client; TTL need not be what it was, and MaxHold counts from
// now.
//
// A text can be used once: the lease gets a new [Lease.Owner], so that of several calls
// with one text at most one succeeds. To hand the lease on, detach it again. See [Lease.Slot] for
// the number of a slot.
//
// The error matches [ErrNotHeld] if the lease has ended: its TTL has passed, the text was used
// before, or the lock was released, taken by force or deleted. It matches [ErrInvalid] if the text
// names no lease, and [ErrWrongKind] if the name is in use for something else by now. If it matches
// [ErrUnreachable], or is that of ctx, it is unknown whether the text is used up. If it is, the
// lock is released in the background, and another call with the text gets [ErrNotHeld].
func (c *Client) Adopt(ctx context.Context, text string, o LockOptions) (_ *Lease, err error) {
	l, t, err := c.named(text, o)
	if err == nil {
		err = labelsError(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, l.failed("adopt", err)
	}
	defer c.background.Done()
	if err := fault.WhyDone(ctx); err != nil {
		return nil, l.failed("adopt", err)
	}
	a := l.attempt(ctx, false)
	defer func() { a.tellFailed(err) }()
	a.tellAttempt()
	c.presence.Announce()
	if t.Kind == script.Election.Name {
		c.presence.AnnounceFirst(ctx)
	}
	got, err := a.adopt(ctx, t)
	return c.lend(got), err
}

// named returns what a text says, and the latch that the lease is on.
func (c *Client) named(text string, o LockOptions) (*latch, leaseText, error) {
	t, err := parseLeaseText(text)
	if err != nil {
		return nil, t, err
	}
	l := t.latch(c).with(o)
	return &l, t, l.invalid
}

// adopt makes the attempt the owner of a lease that was detached.
func (a *attempt) adopt(ctx context.Context, t leaseText) (*lease.Lease, error) {
	// Each request means the same, and so does one that is sent again after its reply was lost.
	// None lets an owner in: whatever arrives late finds nothing to do.
	call := a.Kind.Adopt(a.Keys, t.Owner, a.owner, a.TTL, t.Detail)
	answer, err := a.ask(ctx, "adopt", call)
	if err == nil && !script.Done(answer.Reply) {
		err = a.notThere(ctx, "adopt")
	}
	if err != nil {
		a.client.undo.ReleaseAdopted(&a.Lock, a.owner) // an answer was lost; or a minority of the nodes knew the lease
		return nil, err
	}
	got, err := a.begin(ctx, lock.Grant{
		Owner: a.owner, Token: t.Token, Detail: t.Detail, Sent: answer.Sent, TTL: a.TTL, Adopted: true,
	})
	return got, a.tooLate(err)
}

// notThere returns the error of a lease that was detached and is not there any more.
func (l *latch) notThere(ctx context.Context, op string) error {
	c := l.client
	if c.quorum == nil {
		use, err := c.asker.Use(ctx, l.Subject, c.conn)
		if err == nil && script.Named(use) != nil && use != l.Kind.Name {
			return wrongKind(l.Subject, use, 0)
		}
	}
	return l.failed(op, fmt.Errorf("%w: the lease that was detached has ended, or was adopted before", ErrNotHeld))
}
