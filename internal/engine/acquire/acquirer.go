package acquire

import (
	"context"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// One acquires a lock, and waits for it if the program wants that.
func (c *Acquirer) One(ctx context.Context, l *lock.Lock, w Wish, wait bool) (*lease.Lease, error) {
	return c.attempt(ctx, l, w, wait).acquire()
}

// acquire runs the attempt and returns its lease.
func (a *attempt) acquire() (*lease.Lease, error) {
	return a.undertake("acquire", func() (*lease.Lease, error) {
		defer a.disentangle()
		if a.Kind.Name == script.Election.Name {
			a.by.Presence.AnnounceFirst(a.ctx)
		}
		if a.patient && a.Turns != "" {
			return a.lockInGroup(a.ctx)
		}
		return a.run(a.ctx)
	})
}

// undertake begins the attempt, unless the client is closed or the context done, and returns what do
// returns. The attempt has ended when undertake returns, even if a hook panics.
func (a *attempt) undertake(op string, do func() (*lease.Lease, error)) (got *lease.Lease, err error) {
	if err := a.by.Enter(); err != nil {
		return nil, a.failed(op, err)
	}
	defer a.by.Leave()
	if err := fault.WhyDone(a.ctx); err != nil {
		return nil, a.failed(op, err)
	}
	defer func() { a.tellFailed(err) }()
	a.tellAttempt()
	return do()
}
