package redlatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Acquiring over a quorum.
//
// Without a majority the owner leaves again, wherever it may be inside, and tries again after a
// while of random length.

// maxPast is how many of its own owners an attempt knows again.
const maxPast = 16

// acquireQuorum is Lock and TryLock over a quorum.
func (a *attempt) acquireQuorum(ctx context.Context, wait bool) (*lease.Lease, error) {
	c := a.client
	if wait {
		bounded, cancel := a.bounded(ctx)
		defer cancel()
		ctx = bounded
	}
	h := &quorumWaiter{nodes: make([]bool, len(c.asker.Nodes())), silent: make([]bool, len(c.asker.Nodes()))}
	defer a.withdraw(h)
	for n := 0; ; n++ {
		if n > 0 {
			if c.checkOpen(ctx) != nil { // another round would tell less than the last
				return nil, a.cutShort(ctx, h)
			}
			a.changeOwner()
		}
		t, lease, err := a.round(ctx, h)
		over := c.now().Since(a.start) >= c.options.RequestTimeout
		if a.learn(h, &t, err); wait && a.answered {
			a.tellWait()
			a.tellReach(a.outage(h, err))
		}
		next, restore := ballot.Decide(&t, err, ballot.Situation{
			Waits: wait, Ended: c.checkOpen(ctx) != nil, Over: over,
			First: n == 0, Answered: a.answered, InLine: h.ticket != "",
		})
		if restore {
			a.client.restoreVotes(ctx, &a.Lock)
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
			h.countTies(&t)
			a.rest(ctx, h.try, a.patienceAfter(&t, h.ties))
		}
	}
}

// changeOwner gives the attempt another owner for its next round. What the last one left behind is
// cleaned up under its name. Until then a late request of its own may seem to hold the latch.
func (a *attempt) changeOwner() {
	a.past = append(a.past[max(0, len(a.past)-maxPast):], a.owner)
	a.owner = a.client.owner()
}

// joinLine has the attempt wait in the line of every node that refuses it. From now on a node
// tells it when to try. Its next try is at once, since the lock may have become free before that.
// The error matches ErrDeadlock if it would wait for itself.
func (a *attempt) joinLine(ctx context.Context, h *quorumWaiter) error {
	c := a.client
	c.line.Listen(ctx, &a.Lock)
	h.waiter = c.owner()
	if err := a.entangle(ctx, h.waiter); err != nil {
		return err
	}
	h.ticket, _ = c.line.Ticket(&a.Lock, h.waiter)
	h.try = c.tries.Add(h.waiter)
	return nil
}

// learn takes note of what a round came to. One that was cut short tells less than the one before,
// and is forgotten if there was one.
func (a *attempt) learn(h *quorumWaiter, t *quorum.Tally, err error) {
	found, _ := t.Verdict()
	if found == quorum.Taken {
		a.answered, a.occupant = true, t.Holder()
	}
	if h.votes == nil || found != quorum.CutShort {
		h.votes, h.last = t.Votes, err
	}
}

// outage returns the error of a round if rounds have had no answer for Options.RequestTimeout,
// which is how long one server may take before it counts as unreachable. A round that was cut short
// changes nothing.
func (a *attempt) outage(h *quorumWaiter, err error) error {
	now := a.client.now()
	switch found := errors.Is(err, ErrUnreachable); {
	case a.client.checkOpen(a.ctx) != nil:
		return nil
	case !found:
		h.outage = nil
	case h.outage == nil:
		h.outage = &now
	}
	if h.outage != nil && now.Since(*h.outage) >= a.client.options.RequestTimeout {
		return err
	}
	return nil
}

// cutShort returns the error of an acquisition whose context is done, or whose client is closed,
// with what its last round came to.
func (a *attempt) cutShort(ctx context.Context, h *quorumWaiter) error {
	err := a.client.checkOpen(ctx)
	if errors.Is(err, ErrClosed) {
		return a.failed("acquire", err)
	}
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(h.last, ErrUnreachable) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return &ballot.ToldError{Err: a.describeTimeout(ctx, a.failed("acquire", err)), Votes: h.votes}
}

// round asks all nodes, and begins a lease if a majority lets the owner in. It returns the votes
// that decided that. The answers that come later are left to the background.
func (a *attempt) round(ctx context.Context, h *quorumWaiter) (quorum.Tally, *lease.Lease, error) {
	votes := a.vote(ctx, h)
	t := votes.Clone() // votes goes on counting, and belongs to the background from here on
	owner, sent := a.owner, votes.Sent
	var begun *lease.Lease
	var err error
	if t.Won() {
		begun, err = a.begin(ctx, a.won(&t, sent))
	} else {
		err = a.lost(&t)
	}
	l := a.latch
	if begun == nil {
		l.leave(owner, &t)
		votes.LeaveTo(nil, func() { l.hearOut(votes, &t, owner, nil) })
	} else {
		begun.AwaitVotes(votes)
		votes.LeaveTo(begun.HearLate, func() { l.hearOut(votes, &t, owner, begun) })
	}
	return t, begun, err
}

// leave has an owner without a majority leave the nodes that let it in.
func (l *latch) leave(owner string, t *quorum.Tally) {
	for node, v := range t.Votes {
		if v.Stand() == quorum.Granted {
			l.client.undo.LeaveAt(node, &l.Lock, owner)
		}
	}
}

// hearOut is called when the answers that a round lacked when t was counted have come, and acts on
// them. A request that is not answered may have let the owner in, or still do so. An owner without
// a lease leaves that node. A lease remembers it for its end, or is cleaned up if it has ended by
// then.
func (l *latch) hearOut(votes *ballot.Round, t *quorum.Tally, owner string, begun *lease.Lease) {
	switch {
	case begun == nil:
		l.leaveLate(owner, t, votes)
	case votes.Unanswered():
		begun.MarkResent()
	default:
		begun.HaveVotes()
	}
	if votes.Forgot() {
		l.client.quorum.Go(func() { // a hook that is slow must not hold up the answers to others
			l.client.restoreVotes(l.client.closing, &l.Lock)
		})
	}
}

// leaveLate has an owner without a majority leave the nodes that gave no answer at first, unless
// they have said since that it is not inside.
func (l *latch) leaveLate(owner string, first *quorum.Tally, last *ballot.Round) {
	for node, v := range last.Votes {
		late := !first.Votes[node].Answered()
		switch stand := v.Stand(); {
		case last.Replaced(node) || late && stand == quorum.Silent:
			l.client.undo.AbandonAt(node, &l.Lock, owner, "")
		case late && stand == quorum.Granted:
			l.client.undo.LeaveAt(node, &l.Lock, owner)
		}
	}
}

// rest returns when it is time to try again.
func (a *attempt) rest(ctx context.Context, try <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-try:
	case <-ctx.Done():
	case <-a.client.closing.Done():
	}
}

// quorumWaiter is what an attempt keeps from round to round, and its place in the lines of the
// nodes.
type quorumWaiter struct {
	waiter string
	ticket string // "" if it does not wait yet
	try    <-chan struct{}
	nodes  []bool         // those that may have the ticket
	silent []bool         // those to which a request with the ticket may still be on its way
	votes  []quorum.Vote  // of the last round that was not cut short, or else of the last
	last   error          // what that came to
	outage *clock.Reading // since when no round had an answer; nil if the last one had
	ties   int            // rounds in a row without a lease, in which no other owner had a majority
}

// countTies notes whether a round without a lease was a tie, or had no answers.
func (h *quorumWaiter) countTies(t *quorum.Tally) {
	if h.ties++; t.Holder() != "" {
		h.ties = 0
	}
}

// withdraw takes the ticket back.
func (a *attempt) withdraw(h *quorumWaiter) {
	if h.ticket == "" {
		return
	}
	a.client.tries.Remove(h.waiter)
	for node, has := range h.nodes {
		if has || h.silent[node] {
			a.client.undo.AbandonAt(node, &a.Lock, h.waiter, h.ticket)
		}
	}
}

// vote asks all nodes, and returns when it is clear what comes of it.
func (a *attempt) vote(ctx context.Context, h *quorumWaiter) *ballot.Round {
	c := a.client
	c.presence.Announce()
	t := c.contest.Ask(ctx, a.Kind, a.Keys, script.Ballot{
		Owner: a.owner, TTL: a.TTL, Param: a.Param, Bound: a.TTL + a.Extra, FenceTTL: c.options.FenceTTL,
		Ticket: h.ticket, Address: c.listener.Plain().Address(), LiveFor: c.liveFor(), Waited: c.now().Since(a.start),
	}, a.past)
	if h.ticket != "" {
		h.noteTickets(t)
	}
	return t
}

// noteTickets notes which nodes may have the ticket after a round. A node that lets the owner in
// takes the ticket off its line, and one without the right to vote leaves its line as it is.
func (h *quorumWaiter) noteTickets(t *ballot.Round) {
	for node, v := range t.Votes {
		s := v.Stand()
		if s != quorum.Nonvoting {
			h.nodes[node] = s != quorum.Granted
		}
		if s == quorum.Silent || s == quorum.Unheard || t.Replaced(node) {
			h.silent[node] = true
		}
	}
}

// won returns the grant of a round in which a majority let the owner in.
func (a *attempt) won(t *quorum.Tally, sent clock.Reading) lock.Grant {
	detail := t.Inside()[0].Detail
	return lock.Grant{Owner: a.owner, Token: t.Token(), Detail: detail, Sent: sent, TTL: a.TTL}
}

// lost returns the error of a round without a lease.
func (l *latch) lost(t *quorum.Tally) error {
	found, v := t.Verdict()
	var err error
	switch {
	case found == quorum.Barred:
		err = l.client.refusal(&l.Lock, v.Refused)
	case found == quorum.Failed:
		err = l.client.asker.Refused(l.client.closing, l.Subject, l.client.conn, "acquire", v.Err)
	case found != quorum.Taken && t.Undone != nil:
		err = fmt.Errorf("%w when the token was told to the nodes: %w", ErrUnreachable, t.Undone)
		err = l.failed("acquire", err)
	case found != quorum.Taken:
		err = fmt.Errorf("%w that a majority of the nodes would give", ErrUnreachable)
		err = l.failed("acquire", err)
	case t.Decided():
		err = l.failed("acquire", l.taken(t.Holder()))
	default:
		err = fmt.Errorf("a tie, in which no owner has a majority: %w", l.taken(""))
		err = l.failed("acquire", err)
	}
	return &ballot.ToldError{Err: err, Votes: t.Votes}
}

// patienceAfter returns how long to wait before the next try, after so many ties in a row.
func (a *attempt) patienceAfter(t *quorum.Tally, ties int) time.Duration {
	c := a.client
	holder := t.Holder()
	if holder == "" { // a tie, or no answers: soon, but not all at once, and the first in line first
		soon := retry.Jitter(5*time.Millisecond<<min(ties, 5), 0.9)
		return min(soon*time.Duration(1+t.Rank()), c.options.Heartbeat)
	}
	d := retry.Jitter(c.options.Heartbeat, 0.1)
	if !c.listener.Plain().Connected() {
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

// restoreVotes gives every node the right to vote that may have it, for the kind of a lock. If
// the whole quorum is new, it does so for all kinds.
func (c *Client) restoreVotes(ctx context.Context, l *lock.Lock) {
	var others []quorum.Right
	for _, k := range script.Kinds() {
		if k.Quorum() != nil && k.Name != l.Kind.Name {
			others = append(others, quorum.Right{
				Key: keys.Epoch(c.options.Prefix, k.Name), Bound: l.TTL,
			})
		}
	}
	c.epochs.Restore(ctx, quorum.Right{Key: l.Keys.Epoch, Bound: l.TTL + l.Extra}, others...)
}
