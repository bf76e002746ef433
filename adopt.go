package redlatch

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A lease can go on in another process. Detach ends it here without releasing it, and returns a
// text that names it. Adopt takes it up again, here or elsewhere, with the same token.
//
// In Redis the lease gets a new owner when it is adopted. So a text can be used once: a second
// Adopt finds the old owner gone. Nor can anything that was sent for the old owner, and arrives
// late, extend or release the lease of the new one.

// Detach ends the lease in this process without releasing it, and returns a text that names it. The
// lock stays taken for a full TTL, which begins with this call. In that time [Client.Adopt] takes
// the lease up again, in this or another process, with the same fencing token. Stop the work first.
//
// Once Detach has returned, the lease is not held here: its context is done, with a cause that
// matches [ErrDetached] and [ErrNotHeld], the watchdog extends it no more, and Release does nothing
// and returns nil. If the text is not used within the TTL, the lock is free.
//
// The last thing that Detach does is an [Lease.Extend]. If that fails, so does Detach, with the
// same error, and the lease is as it is after such an Extend: still held, but in jeopardy, or lost.
// Call Detach again, or Release.
//
// The text is one printable word without quotes or blanks, some 150 bytes and at most 4096, safe in
// a file, an environment variable or on a command line. Keep it as you would a key: a program that
// has it, and may use the Redis server, has the lock. It names neither the server nor
// Options.Prefix, in which the clients must agree. Of a [MultiLease], detach each of
// [MultiLease.Leases].
func (l *Lease) Detach(ctx context.Context) (text string, err error) {
	l = l.self()
	if err := l.Extend(ctx); err != nil {
		return "", err
	}
	l.mu.Lock()
	_, events := l.left()
	if err = l.err; err == nil { // else it ended in this moment
		text = l.text()
		events = append(events, l.detaching())
	}
	l.unlock(events...)
	return text, err
}

// detaching ends a lease that is held here, and not in Redis. It returns the event to tell. The
// caller holds l.mu.
//
// It is tempting to release the owner of a lease that was resent, as other ends do: a late copy of
// its acquisition may still arrive. But the text may be used until the TTL has passed. Such a copy
// costs the others a TTL at most.
func (l *Lease) detaching() Event {
	l.state, l.err = detached, &detachedError{l.latch.Name}
	l.latch.client.keeper.forget(l)
	l.cancel(l.err)
	l.detachLocked()
	now := l.latch.client.now()
	remaining := l.validity() - now.Since(l.sentAt)
	l.latch.client.presence.Bequeath(now.Time().Add(remaining))
	return Event{Type: EventDetached, HeldFor: now.Since(l.acquired), Remaining: remaining}
}

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
func (c *Client) Adopt(ctx context.Context, text string, o LockOptions) (lease *Lease, err error) {
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
	lease, err = a.adopt(ctx, t)
	return c.trace(lease), err
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
func (a *attempt) adopt(ctx context.Context, t leaseText) (*Lease, error) {
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
	lease, err := a.begin(ctx, lock.Grant{
		Owner: a.owner, Token: t.Token, Detail: t.Detail, Sent: answer.Sent, TTL: a.TTL, Adopted: true,
	})
	return lease, a.tooLate(err)
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
