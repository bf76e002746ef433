package acquire

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// Local handoff. Goroutines of one client that want the same mutex are a group, which waits in the
// line of all processes as one. Once the mutex is granted, it passes from one goroutine to the next
// without a word to Redis: owner and deadline stay, and each goroutine has a token of its own,
// since the acquisition took several.
//
// A run goes to the goroutines that were waiting in this process when it began, and to 128 at most.
// Then the mutex goes back to Redis, and the group to the end of the line. So a waiter in another
// process is overtaken by no more than that.
//
// The group has one turn, which its first goroutine begins with. Each turn goes on in exactly one
// of four ways:
//
//	attach         the acquisition made a lease, which has the turn until it ends
//	               (goOn; then the lease goes on by handOff or detachLocked)
//	next acquires  there is no lease, or it has ended: the next goroutine acquires
//	               (goOn, detachLocked, passOn)
//	dissolve       the acquisition failed, perhaps for all: each acquires for itself
//	               (goOn)
//	passed on      the next goroutine takes the lease over, with the baton
//	               (handOff, passOn)
//
// If a turn went on in none, all that wait would wait forever. If it went on in two, two goroutines
// would share what one acquisition granted, or both would ask Redis for it. Only a hook that panics
// is an exception: its goroutine dissolves the group, whatever has become of its turn. The page of
// internal/engine/handoff has the picture.

// lockInGroup is Lock for a lock that is handed off.
func (a *attempt) lockInGroup(ctx context.Context) (*lease.Lease, error) {
	g, w := a.by.Handoffs.Join(a.Turns, a.Terms)
	switch {
	case g == nil: // the lease of the others would have other terms
		return a.run(ctx)
	case w == nil:
		return a.useTurn(ctx, g, handoff.Turn{Way: handoff.Begin})
	}
	a.by.Keeper.TellHolder(g)
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	turn, err := a.awaitTurn(ctx, g, w)
	switch {
	case err != nil:
		return nil, err
	case turn.Way == handoff.Alone:
		return a.run(ctx)
	}
	return a.useTurn(ctx, g, turn)
}

// awaitTurn waits in the group. On error the attempt has left the group, and a turn that it was
// given by then has gone on.
func (a *attempt) awaitTurn(
	ctx context.Context, g *handoff.Group, w *handoff.Waiter,
) (handoff.Turn, error) {
	c, waiting := a.by, true
	defer func() {
		if waiting && !c.Handoffs.Withdraw(g, w) { // also when the hook panicked
			c.passOn(a.Lock, g, <-w.Turn()) // which was given to it at this moment
		}
	}()
	a.tellWait()
	if err := a.entangle(ctx, a.owner); err != nil {
		return handoff.Turn{}, err
	}
	for {
		select {
		case l := <-a.lookAgain(ctx):
			if err := a.found(l); err != nil {
				return handoff.Turn{}, err
			}
			continue
		case turn := <-w.Turn():
			waiting = false
			if c.CheckOpen(ctx) == nil {
				return turn, nil
			}
			c.passOn(a.Lock, g, turn) // it gives up all the same
		case <-ctx.Done():
		case <-c.Closing.Done():
		}
		return handoff.Turn{}, a.withoutTurn(ctx, g)
	}
}

// withoutTurn returns the error of an attempt whose wait in the group ended before its turn came.
func (a *attempt) withoutTurn(ctx context.Context, g *handoff.Group) error {
	a.answered = g.Answered()
	if owner := g.Holder(); a.by.Keeper.Of(owner) != nil {
		a.occupant.Owner = owner
	}
	err := a.by.CheckOpen(ctx)
	if !g.Reachable() && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", fault.ErrUnreachable, err)
	}
	return a.describeTimeout(ctx, a.failed("wait for", err))
}

// useTurn acquires the lock with the turn of the group, and lets the turn go on.
func (a *attempt) useTurn(ctx context.Context, g *handoff.Group, turn handoff.Turn) (*lease.Lease, error) {
	wentOn := false
	defer func() {
		if !wentOn { // a hook panicked, and those of the goroutines that wait may be about to, too
			a.by.Handoffs.Dissolve(g)
		}
	}()
	lease, err := a.takeOver(ctx, g, turn)
	a.goOn(ctx, g, lease, err)
	wentOn = true
	return lease, err
}

// takeOver returns the lease that this turn is for: the one that was passed on, or a new one if
// there is none or it has run out. A new one takes tokens for the goroutines that still wait. The
// goroutine that began the group takes none for others: it has just found none there.
func (a *attempt) takeOver(ctx context.Context, g *handoff.Group, turn handoff.Turn) (*lease.Lease, error) {
	if turn.Way == handoff.Take {
		lease, err := a.begin(ctx, *turn.Baton)
		if !errors.Is(err, fault.ErrTooLate) {
			return lease, err
		}
		a.owner = a.by.Owner()
	}
	a.group, a.arrival = g, turn.Arrival
	if turn.Way != handoff.Begin {
		if others := a.by.Handoffs.Others(g); others > 0 {
			a.Lock = a.With(strconv.Itoa(1 + others))
		}
	}
	return a.run(ctx)
}

// goOn lets the turn go on after an acquisition that ended with this lease or error.
func (a *attempt) goOn(ctx context.Context, g *handoff.Group, l *lease.Lease, err error) {
	switch wayOn(err, ctx.Err() != nil) {
	case attachLease:
		l.Attach(g)
	case nextAcquires:
		a.by.Handoffs.Next(g, a.arrival)
	case dissolveGroup:
		a.by.Handoffs.Dissolve(g)
	}
}

// onward is how a turn goes on after an acquisition.
type onward uint8

const (
	attachLease onward = iota
	nextAcquires
	dissolveGroup
)

// wayOn returns how a turn goes on after an acquisition that ended with this error, under a context
// that is done or not. An error of this goroutine alone lets the next one try. Any other error may
// be the same for all: they find out at the same time, not one after the other.
func wayOn(err error, done bool) onward {
	switch {
	case err == nil:
		return attachLease
	case done || errors.Is(err, fault.ErrTaken) || errors.Is(err, fault.ErrDeadlock) || cutShort(err):
		return nextAcquires
	}
	return dissolveGroup
}

// cutShort reports whether an acquisition ended because its own time was up, and for no other
// reason.
func cutShort(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, fault.ErrUnreachable)
}

// passOn lets a turn go on that was given to a goroutine which does not want it any more.
func (c *Acquirer) passOn(l *lock.Lock, g *handoff.Group, turn handoff.Turn) {
	switch turn.Way {
	case handoff.Acquire:
		c.Handoffs.Next(g, turn.Arrival)
	case handoff.Take:
		if next := c.Handoffs.Pop(g, turn.Baton.Owner); next != nil {
			next.HandOver(turn.Baton)
			return
		}
		c.Undo.Abandon(l, turn.Baton.Owner, turn.Baton.Ticket)
		c.Handoffs.Next(g, 0)
	}
}
