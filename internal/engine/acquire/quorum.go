package acquire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Acquiring over a quorum.
//
// Without a majority the owner leaves all nodes where it may be inside, and the attempt tries again
// after a random delay. quorumWaiter.full and ballot.Decide say how long a try goes on.

// maxPast is how many of its own owners a waiting attempt recognizes: it may wait for days. A try
// recognizes all of them: the first may be the one whose answer is missing.
const maxPast = 16

// acquireQuorum is Lock and TryLock over a quorum.
func (a *attempt) acquireQuorum(ctx context.Context) (begun *lease.Lease, err error) {
	c := a.by
	if a.patient {
		bounded, cancel := a.bounded(ctx)
		defer cancel()
		ctx = bounded
	}
	h := new(quorumWaiter)
	defer func() { a.withdraw(h, begun != nil) }()
	for n := 0; ; n++ {
		select {
		case l := <-a.lookAgain(ctx):
			if err := a.found(l); err != nil {
				return nil, err
			}
		default:
		}
		switch {
		case n == 0:
		case c.CheckOpen(ctx) != nil: // another round would tell less than the last
			return nil, a.cutShort(ctx, h)
		case a.left() == 0:
			return nil, a.tooLate(err)
		default:
			a.changeOwner()
		}
		if err := a.enter(ctx, h); err != nil {
			return nil, err
		}
		var t *ballot.Tally
		var lease *lease.Lease
		t, lease, err = a.round(ctx, h)
		over := a.left() == 0
		if a.learn(h, t, err); a.patient && a.answered && lease == nil {
			a.tellWait()
			a.tellReach(a.outage(h, err))
		}
		next, restore := ballot.Decide(t, err, ballot.Situation{
			Waits: a.patient, Ended: c.CheckOpen(ctx) != nil, Over: over,
			First: n == 0, Answered: a.answered, InLine: h.ticket != "", Full: h.full(t, err),
		})
		if restore {
			a.restore(ctx)
		}
		switch next {
		case ballot.Finish:
			return lease, a.tooLate(err)
		case ballot.CutOff:
			return nil, a.cutShort(ctx, h)
		case ballot.JoinLine:
			if err := a.joinLine(ctx, h); err != nil {
				return nil, err
			}
		case ballot.TryLater:
			h.countTies(t, a.patient)
			ballot.Rest(ctx, c.Closing, h.try, c.Quorum.Majority(), min(a.patienceAfter(t, h.ties), a.left()))
		}
	}
}

// noBound is longer than a round, or the time between two.
const noBound = 24 * time.Hour

// left returns how long the attempt may send requests: until Options.RequestTimeout has passed. A
// wait that was answered has no such bound.
func (a *attempt) left() time.Duration {
	if a.patient && a.answered {
		return noBound
	}
	return max(a.by.Timeout-a.by.Now().Since(a.since)+a.spared, 0)
}

// enter waits until a round may begin: see batch.Room. For a waiter, time in which the nodes answer
// others does not count.
func (a *attempt) enter(ctx context.Context, h *quorumWaiter) error {
	c, began := a.by, a.by.Now()
	begins, answered := c.Contest.Enter(ctx, c.Closing, a.left(), a.patient)
	switch {
	case begins:
		if answered && a.patient {
			a.spared += c.Now().Since(began)
		}
		return nil
	case c.CheckOpen(ctx) != nil:
		return a.cutShort(ctx, h)
	case h.last != nil:
		return a.tooLate(h.last)
	}
	return a.failed("acquire", fmt.Errorf("%w within %v: the client waits for answers to %d other acquisitions: begin fewer at a time",
		fault.ErrUnreachable, c.Timeout, ballot.MaxUnderWay))
}

// restore gives nodes that have no right to vote that right, where they may have it.
func (a *attempt) restore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.left()+a.by.Timeout/3)
	defer cancel()
	a.by.Restore(ctx, a.Lock)
}

// changeOwner gives the attempt another owner for its next round. What the last one left behind is
// cleaned up under its name. Until then a late request of its own may seem to hold the lock.
func (a *attempt) changeOwner() {
	if a.patient {
		a.past = a.past[max(0, len(a.past)-maxPast):]
	}
	a.past = append(a.past, a.owner)
	a.owner = a.by.Owner()
}

// joinLine has the attempt wait in the line of every node that refuses it. From now on a node
// tells it when to try. Its next try is at once, since the lock may have become free before that.
// The error matches fault.ErrDeadlock if it would wait for itself.
func (a *attempt) joinLine(ctx context.Context, h *quorumWaiter) error {
	c := a.by
	c.Line.Listen(ctx, a.Lock)
	h.waiter = c.Owner()
	if err := a.entangle(ctx, h.waiter); err != nil {
		return err
	}
	h.ticket, _ = c.Line.Ticket(a.Lock, h.waiter)
	h.places = ballot.NewPlaces(len(c.Asker.Nodes()))
	h.try = c.Tries.Add(h.waiter)
	return nil
}

// learn notes the result of a round. A round that was cut short tells less than the one before it,
// and is forgotten if there was one.
func (a *attempt) learn(h *quorumWaiter, t *ballot.Tally, err error) {
	found, _ := t.Verdict()
	if found == ballot.Taken {
		a.answered, a.occupant = true, lock.Occupant{Owner: t.Holder()}
	}
	if h.votes == nil || found != ballot.CutShort {
		h.votes, h.last = t.Votes, err
	}
	a.answered = a.answered || errors.Is(err, fault.ErrTooLate) // from here on it is a wait
}

// outage returns the error of a round if rounds have had no answer for Options.RequestTimeout,
// which is how long one server may take before it counts as unreachable. A round that was cut short
// changes nothing.
func (a *attempt) outage(h *quorumWaiter, err error) error {
	now := a.by.Now()
	switch found := errors.Is(err, fault.ErrUnreachable); {
	case a.by.CheckOpen(a.ctx) != nil:
		return nil
	case !found:
		h.outage = nil
	case h.outage == nil:
		h.outage = &now
	}
	if h.outage != nil && now.Since(*h.outage) >= a.by.Timeout {
		return err
	}
	return nil
}

// cutShort returns the error of an acquisition whose context is done, or whose client is closed,
// with the result of its last round.
func (a *attempt) cutShort(ctx context.Context, h *quorumWaiter) error {
	err := a.by.CheckOpen(ctx)
	if errors.Is(err, fault.ErrClosed) {
		return a.failed("acquire", err)
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(h.last, fault.ErrUnreachable) {
		err = fmt.Errorf("%w: %w", fault.ErrUnreachable, err)
	}
	return &ballot.ToldError{Err: a.describeTimeout(ctx, a.failed("acquire", err)), Votes: h.votes}
}

// round asks all nodes, and begins a lease if a majority lets the owner in. It returns the votes
// that decided that. The answers that come later are left to the background.
func (a *attempt) round(ctx context.Context, h *quorumWaiter) (*ballot.Tally, *lease.Lease, error) {
	t, votes, settle := a.vote(ctx, h)
	owner, sent := a.owner, votes.Sent
	var begun *lease.Lease
	var err error
	if t.Won() {
		begun, err = a.begin(ctx, a.won(t, sent))
	} else {
		h.suspect(t)
		err = a.lost(t)
	}
	if t.Slots && !a.patient {
		h.rounds = append(h.rounds, votes)
	}
	c, l := a.by, a.Lock
	if begun == nil {
		c.leave(l, owner, t)
		votes.LeaveTo(t, nil, func() { settle(); c.hearOut(l, votes, t, owner, nil) })
	} else {
		begun.AwaitVotes(votes)
		votes.LeaveTo(t, begun.HearLate, func() { settle(); c.hearOut(l, votes, t, owner, begun) })
	}
	return t, begun, err
}

// quorumWaiter is what an attempt keeps from round to round, and its place in the lines of the
// nodes.
type quorumWaiter struct {
	waiter string
	ticket string // "" if it does not wait yet
	try    <-chan int
	places *ballot.Places // where the ticket may be; nil without one
	votes  []ballot.Vote  // of the last round that was not cut short, or else of the last
	last   error          // the error of that round
	outage *clock.Reading // since when no round had an answer; nil if the last one had
	ties   int            // rounds in a row without a lease, in which no other owner had a majority

	// Only for a try to take a slot.
	rounds []*ballot.Round // before this one
	fulls  int             // rounds in a row in which no node had a slot to give
	taken  int             // rounds without a slot, since others had them
}

// countTies notes whether a round without a lease was a tie, or had no answers. A try that goes on
// has met no holder of the whole lock: an owner at a majority has one slot of several.
func (h *quorumWaiter) countTies(t *ballot.Tally, wait bool) {
	if h.ties++; wait && t.Holder() != "" {
		h.ties = 0
	}
}

// suspect marks the nodes of a slot pool that may keep the owner out because of an earlier request
// of the attempt itself. A node names one owner of all that have its slots, which need not be that
// one. So a node is only trusted if it has answered all earlier rounds: then it was told to let
// their owners go.
func (h *quorumWaiter) suspect(t *ballot.Tally) {
	for node := range t.Votes {
		lacks := func(r *ballot.Round) bool { return r.Lacks(node) }
		t.Votes[node].Own = t.Votes[node].Own || slices.ContainsFunc(h.rounds, lacks)
	}
}

// After how many rounds without a slot a try takes the pool for full: rounds in a row in which no
// node had a slot to give, and rounds of any kind. With the pauses between them, the former take
// about 10 ms, and the latter about 150 ms.
const (
	fullRounds  = 2
	takenRounds = 5
)

// full notes the result of a round. It reports whether a try takes the pool for full.
//
// No single round can tell. A node does not name the owners of its slots. Other attempts that are
// about to leave again can fill the nodes for a moment. In a pool that is full, a node may have room
// all the same, if a holder got its majority elsewhere. It is tempting to end the try at the first
// round in which no node has a slot: then one of eight tries failed where eight clients tried to take
// eight slots at once. It is tempting, too, to go on until RequestTimeout has passed: then a try of a
// full pool often took seconds.
func (h *quorumWaiter) full(t *ballot.Tally, err error) bool {
	if !t.Slots || !errors.Is(err, fault.ErrTaken) {
		return false
	}
	h.taken++
	if h.fulls++; !t.Full() {
		h.fulls = 0
	}
	return h.fulls >= fullRounds || h.taken >= takenRounds
}

// withdraw takes the ticket back.
func (a *attempt) withdraw(h *quorumWaiter, hasLatch bool) {
	if h.ticket == "" {
		return
	}
	a.by.Tries.Remove(h.waiter)
	// Without a, which would be on the heap for every acquisition.
	c, l, waiter, ticket := a.by, a.Lock, h.waiter, h.ticket
	h.places.Leave(hasLatch, func(node int, answered bool) {
		if answered {
			c.Undo.WithdrawAt(node, l, waiter, ticket)
			return
		}
		c.Line.Remember(l, waiter, ticket)
		c.Undo.AbandonAt(node, l, waiter, ticket)
	})
}

// vote asks all nodes, and returns when the outcome is clear: the tally by then, and the votes, which
// go on coming. The caller calls settle when all have come.
func (a *attempt) vote(ctx context.Context, h *quorumWaiter) (t *ballot.Tally, votes *ballot.Round, settle func()) {
	c := a.by
	defer func() { c.Contest.Leave(t != nil && t.Clear()) }()
	c.Presence.Announce()
	asked := func(*ballot.Tally, *ballot.Round) func() { return func() {} }
	if h.ticket != "" {
		asked = h.places.Asking()
	}
	t, votes = c.Contest.Ask(ctx, a.Kind, a.Keys, script.Ballot{
		Owner: a.owner, TTL: a.TTL, Param: a.Param, Bound: a.TTL + a.Extra, FenceTTL: c.FenceTTL,
		Ticket: h.ticket, Address: c.Listener.Plain().Address(), LiveFor: c.LiveFor, Waited: c.Now().Since(a.start),
	}, a.past, a.left())
	return t, votes, asked(t, votes)
}

// won returns the grant of a round in which a majority let the owner in.
func (a *attempt) won(t *ballot.Tally, sent clock.Reading) lock.Grant {
	detail := t.Inside()[0].Detail
	return lock.Grant{Owner: a.owner, Token: t.Token(), Detail: detail, Sent: sent, TTL: a.TTL}
}

// patienceAfter returns how long to wait before the next try, after so many ties in a row.
func (a *attempt) patienceAfter(t *ballot.Tally, ties int) time.Duration {
	c := a.by
	holder := t.Holder()
	if holder == "" || !a.patient { // a tie, or no answers: soon, but not all at once, and the first in line first
		soon := retry.Jitter(5*time.Millisecond<<min(ties, 5), 0.9)
		return min(soon*time.Duration(1+t.Rank()), c.Heartbeat)
	}
	d := retry.Jitter(c.Heartbeat, 0.1)
	if !c.Listener.Plain().Connected() {
		d = min(d, retry.Jitter(line.PollDisconnected, 0.3))
	}
	if !script.HandsOver(holder) {
		d = min(d, retry.Jitter(line.PollForeign, 0.5))
	}
	if remaining, ok := t.Remaining(); ok {
		d = min(d, remaining+retry.Jitter(2*line.PollAfterExpiry, 0.9))
	}
	return d
}
