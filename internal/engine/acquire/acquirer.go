package acquire

import (
	"cmp"
	"context"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// One acquires a lock, and waits for it if the program wants that.
func (c *Acquirer) One(ctx context.Context, l *lock.Lock, w Wish, wait bool) (*lease.Lease, error) {
	return c.attempt(ctx, l, w, wait).acquire(ctx)
}

// acquire runs the attempt until ctx is done, and returns its lease. The attempt has ended when acquire
// returns, even if a hook panics.
func (a *attempt) acquire(ctx context.Context) (got *lease.Lease, err error) {
	if err := a.checkIn("acquire"); err != nil {
		return nil, err
	}
	defer a.checkOut(&err)
	defer a.disentangle()
	a.tellAttempt()
	if a.Kind.Name == script.Election.Name {
		a.by.Presence.AnnounceFirst(a.ctx)
	}
	if a.patient && a.Turns != "" {
		got, err = a.lockInGroup(ctx)
	} else {
		got, err = a.run(ctx)
	}
	if err != nil {
		err = cmp.Or(lostOf(a.beside), err) // which ended ctx
	}
	return got, err
}

// checkIn keeps Close waiting until checkOut. The error, in which op is what the attempt does, says that
// the client is closed, or the context done.
func (a *attempt) checkIn(op string) error {
	over := fault.WhyDone(a.ctx) // first: a context of the program may panic
	if err := a.by.Enter(); err != nil {
		return a.failed(op, err)
	}
	if over != nil {
		a.by.Leave()
		return a.failed(op, over)
	}
	return nil
}

// checkOut ends the attempt, if need be with this error, and what checkIn began.
func (a *attempt) checkOut(err *error) {
	defer a.by.Leave()
	a.tellFailed(*err)
}
