package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

func (a *attempt) run(ctx context.Context) (*lease.Lease, error) {
	if a.by.Quorum != nil {
		return a.acquireQuorum(ctx)
	}
	if err := a.tooDeep(); err != nil {
		return nil, err
	}
	if a.Keepable() {
		if lease, err := a.takeKept(ctx); lease != nil || err != nil {
			return lease, a.tooLate(err)
		}
		a.wishToKeep()
	}
	if !a.patient {
		lease, err := a.try(ctx)
		if errors.Is(err, fault.ErrTaken) && a.askable() {
			lease, err = a.tryKept(ctx, err)
		}
		return lease, a.tooLate(err)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	if !a.by.Line.Hears(a.Lock) {
		// The first to wait starts the subscription, and only if the lock is not free.
		lease, err := a.try(ctx)
		switch {
		case err == nil:
			return lease, nil
		case !errors.Is(err, fault.ErrTaken) && !errors.Is(err, fault.ErrTooLate):
			return nil, a.describeTimeout(ctx, err)
		}
		a.owner = a.by.Owner() // the last owner may have been in and out
		a.answered = true      // from here on it is a wait, even if the grant came too late
	}
	for {
		a.by.Line.Listen(ctx, a.Lock) // each time: a subscription without waiters ends after a while
		lease, err := a.wait(ctx)
		if !errors.Is(err, fault.ErrTooLate) {
			return lease, err
		}
		if ctx.Err() != nil {
			return nil, a.describeTimeout(ctx, a.failed("wait for", fault.WhyDone(ctx)))
		}
		a.owner, a.answered = a.by.Owner(), true
	}
}

// heard notes that Redis has said how the attempt stands.
func (a *attempt) heard(s script.Standing) {
	a.answered, a.occupant = a.answered || !s.Inside, lock.OccupantAt(s.Occupant, s.Remaining, a.by.Now())
	a.first = s.First
	if a.group != nil {
		a.group.MarkAnswered()
	}
}

// try acquires without waiting.
func (a *attempt) try(ctx context.Context) (*lease.Lease, error) {
	asked := false
	defer func() {
		if !asked { // a connection observer has panicked, when the request had been sent
			a.abandon(a.owner, "")
		}
	}()
	standing, answer, err := a.by.Line.Request(ctx, a.Lock, a.owner, "", "", 0, 0)
	asked = true
	if err == nil {
		a.heard(standing)
	}
	if err != nil && !unwritten(answer, err) || err == nil && !standing.Inside && answer.Resent {
		a.abandon(a.owner, "") // a request that got no answer may be on its way still
	}
	switch {
	case err != nil:
		return nil, a.outOfTime(ctx, answer.Resent, err)
	case !standing.Inside && answer.Resent && !a.patient && a.leavesTraces():
		err = fmt.Errorf("%w to the first request, which Redis may have done: its lease has run out", fault.ErrUnreachable)
		return nil, a.failed("acquire", err)
	case !standing.Inside:
		return nil, a.failed("acquire", a.taken())
	}
	return a.begin(ctx, a.directly(standing, answer, a.Inside(a.owner, "", standing, answer, answer.Resent)))
}

// leavesTraces reports whether an earlier copy of the request may have let the owner in, whose
// lease has run out by now and still keeps others out: by the window of a job, or a slot at rest.
// Then the attempt itself has taken the lock.
func (a *attempt) leavesTraces() bool {
	return (a.Kind == script.Job || a.Kind == script.SlotPool) && a.by.Now().Since(a.start) >= a.TTL-lock.Drift(a.TTL)
}

// unwritten reports whether a request that failed with err has changed nothing, and no copy of it
// is on its way. The line was full, or Redis refused the script's first write for lack of space.
//
// It is tempting to undo every acquisition that failed. But a program that tries again and again
// while a disk is full would leave a release for each try, and all of them would be sent again and
// again until the disk has space.
func unwritten(a ask.Answer, err error) bool {
	return err != nil && !a.Resent && (errors.Is(err, fault.ErrLineFull) || retry.RefusesWrites(err))
}

// wait stands in line until the lock is granted or ctx is done. fault.ErrTooLate says that the
// grant had run out when it came.
func (a *attempt) wait(ctx context.Context) (*lease.Lease, error) {
	c := a.by
	// Before the request, not after its reply: the grant may overtake the reply.
	ticket, address := a.by.Line.Ticket(a.Lock, a.owner)
	most := a.Waiting.Line
	if a.placed { // it must not be refused the place that it had
		most = 0
	}
	w := c.Line.Add(a.Lock, a.group, a.owner, ticket, address, c.Now())
	over := false
	defer func() {
		if !over { // the hook or a connection observer has panicked: no goroutine will be there for a grant
			c.Line.Cancel(w)
		}
	}()
	standing, answer, err := a.by.Line.Request(ctx, a.Lock, a.owner, ticket, address, a.arrival, most)
	switch {
	case unwritten(answer, err):
		over = true
		c.Line.Fail(w, err)
		return nil, err
	case err != nil:
		over = true
		a.arrival = cmp.Or(c.Line.Cancel(w), a.arrival)
		return nil, a.describeTimeout(ctx, a.outOfTime(ctx, answer.Resent, err))
	}
	a.placed = a.placed || !standing.Inside
	a.heard(standing)
	if c.Line.Place(w, standing, answer) {
		a.tellWait()
		err = a.entangle(ctx, a.owner)
	}
	for err == nil {
		news, outage := c.Line.Watch(w)
		a.tellReach(outage)
		select {
		case g := <-w.Granted:
			if err = g.Err; err != nil { // its ticket may still be in line
				continue
			}
			a.arrival, over = 0, true
			if told := c.Line.Told(w); told.Owner != a.owner { // for the error of a grant that comes to nothing
				a.occupant = cmp.Or(told, a.occupant)
			}
			g.Resent = g.Resent || answer.Resent // the message may have come before that answer
			return a.begin(ctx, a.directly(standing, answer, g))
		case <-news:
		case l := <-a.lookAgain(ctx):
			err = a.found(l)
		case <-ctx.Done():
			if outage != nil && a.group != nil {
				a.group.MarkSilent()
			}
			err = a.describeTimeout(ctx, a.failed("wait for", fault.WhyDone(ctx)))
		case <-c.Closing.Done():
			err = a.failed("wait for", fault.ErrClosed)
		}
	}
	over = true
	a.arrival = c.Line.Cancel(w) // it gives back a grant that has come, and line/grants.go one that comes later
	return nil, err
}
