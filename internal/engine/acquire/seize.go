package acquire

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// robberies is how often Seize looks for the holder again, if another acquired the mutex between
// its look and its request.
const robberies = 10

// Robbery is how a lock is taken from its present holder.
type Robbery struct {
	script.Seizure        // From, Address, Shard, Note and Remember
	Tell           func() // called when the lock has been taken
}

// Seize takes a lock from its holder and acquires it, in one step. look finds the holder. of names
// the one holder from which it may be taken; "" for any.
func (c *Acquirer) Seize(
	ctx context.Context, l *lock.Lock, w Wish, of string, look func(ctx context.Context) (Robbery, error),
) (got *lease.Lease, err error) {
	a := c.attempt(ctx, l, w, false)
	if err := a.checkIn("take by force"); err != nil {
		return nil, err
	}
	defer a.checkOut(&err)
	a.tellAttempt()
	for range robberies {
		got, err = a.rob(of, look)
		if !errors.Is(err, fault.ErrTaken) {
			break
		}
		a.owner = c.Owner()
	}
	return got, a.tooLate(err)
}

// rob takes the lock from the holder of this moment, if there is one. The error matches
// fault.ErrTaken if that holder had gone, and another had come.
func (a *attempt) rob(of string, look func(ctx context.Context) (Robbery, error)) (*lease.Lease, error) {
	c := a.by
	looking, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	defer context.AfterFunc(c.Closing, cancel)() // it is several requests, for each of which Close would wait
	r, err := look(looking)
	switch {
	case c.Closing.Err() != nil:
		return nil, a.failed("take by force", fault.ErrClosed)
	case err != nil:
		return nil, err
	}
	if of != "" && of != r.From {
		return nil, a.failed("take by force", fmt.Errorf("%w by %q", fault.ErrNotHeld, of))
	}
	c.Presence.Announce()
	a.since = c.Now()
	r.Owner, r.TTL, r.Param, r.FenceTTL = a.owner, a.TTL, a.Param, c.FenceTTL
	answer, err := a.askUndoing(a.ctx, "take by force", a.Kind.Seize(a.Keys, r.Seizure), func() { a.abandon(a.owner, "") })
	var standing script.Standing
	if err == nil {
		standing, err = script.ParseSeize(answer.Reply)
	}
	if err != nil || !standing.Inside && answer.Resent {
		a.abandon(a.owner, "") // a request that got no answer may be on its way still
	}
	switch {
	case err != nil:
		return nil, err
	case !standing.Inside && of != "":
		return nil, a.failed("take by force", fmt.Errorf("%w by %q", fault.ErrNotHeld, of))
	case !standing.Inside:
		a.occupant.Owner = standing.Occupant
		return nil, a.failed("take by force", a.taken())
	}
	g, told := a.Inside(a.owner, "", standing, answer, answer.Resent), false
	defer func() {
		if !told { // the hook panicked at the loss of the lease before
			a.returnGrant(g)
		}
	}()
	r.Tell()
	told = true
	return a.begin(a.ctx, g)
}
