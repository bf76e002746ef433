package acquire

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Adopt takes up a lease that was detached.
func (c *Acquirer) Adopt(ctx context.Context, l *lock.Lock, t lock.Text, w Wish) (got *lease.Lease, err error) {
	a := c.attempt(ctx, l, w, false)
	if err := a.checkIn("adopt"); err != nil {
		return nil, err
	}
	defer a.checkOut(&err)
	a.tellAttempt()
	c.Presence.Announce()
	if l.Kind.Name == script.Election.Name {
		c.Presence.AnnounceFirst(ctx)
	}
	return a.adopt(ctx, t)
}

// adopt makes the attempt the owner of a lease that was detached.
func (a *attempt) adopt(ctx context.Context, t lock.Text) (*lease.Lease, error) {
	// Each copy of the request means the same, even one that is sent again after its reply was
	// lost. None lets an owner in: a copy that arrives late finds nothing to do.
	call := a.Kind.Adopt(a.Keys, t.Owner, a.owner, a.TTL, t.Detail, a.TTL+a.Extra)
	answer, err := a.askUndoing(ctx, "adopt", call, func() { a.by.Undo.ReleaseAdopted(a.Lock, a.owner) })
	if err == nil && !script.Done(answer.Reply) {
		err = a.notThere(ctx, "adopt")
	}
	if err != nil {
		a.by.Undo.ReleaseAdopted(a.Lock, a.owner) // an answer was lost; or a minority of the nodes knew the lease
		return nil, err
	}
	// A slow node of a quorum may get to the adoption after the release of the lease, and would
	// keep the owner for its TTL. So the release is repeated, as after a request that was resent.
	got, err := a.begin(ctx, lock.Grant{
		Owner: a.owner, Token: t.Token, Detail: t.Detail, Sent: answer.Sent, TTL: a.TTL, Adopted: true,
		Resent: a.by.Quorum != nil,
	})
	if err == nil && a.by.Quorum != nil {
		// A node that has not answered is asked again: it would keep the previous owner, and after
		// that its slot at rest, or the window of its run. It is tempting to ask again before a
		// majority has answered. But then the text could be used up, and no process have the lease.
		for node := range a.by.Asker.Nodes() {
			a.by.Undo.Queue.AddOnce(node, call, a.TTL)
		}
	}
	return got, a.tooLate(err)
}

// notThere returns the error of a lease that was detached and is not there any more.
func (a *attempt) notThere(ctx context.Context, op string) error {
	c, l := a.by, a.Lock
	use, err := c.Asker.Use(ctx, l.Subject, c.Conn)
	if err == nil && script.Named(use) != nil && use != l.Kind.Name {
		return c.InUse(l.Subject, use, 0)
	}
	return a.failed(op, fmt.Errorf("%w: the lease that was detached has ended, or was adopted before", fault.ErrNotHeld))
}
