package lease

import (
	"context"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A majority is enough for a lease of a quorum, so the votes of the slower nodes come while it is
// held, or after its release. In most cases a node is asked to vote before it is asked to release,
// and nothing is left of the owner. The node says so: the owner was inside when it was released. If
// it says that the owner was not, and lets the owner in, the vote came after the release. Then the
// owner is released there once more.

// AwaitVotes notes the votes of a lease of which some may be missing. The program has no lease yet.
func (l *Lease) AwaitVotes(votes *ballot.Round) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.votes = votes
}

// HaveVotes notes that all votes have come. No vote can cross a release that begins after that.
func (l *Lease) HaveVotes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state <= inJeopardy {
		l.votes = nil
	}
}

// HearLate notes that a node let the owner in after the lease had begun. missed says that the node
// did not find the owner at a release. A lease that is held needs nothing: its release comes after
// that.
func (l *Lease) HearLate(node int, missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if missed || l.state == lost {
		l.undoAtLocked(node)
	}
}

// LackVotes notes that a node voted, but not for the owner: another owner had its vote. The lease
// rests on fewer nodes than there are. So it is extended soon, when most competing owners have
// left: an extend also asks the node to take the owner in.
func (l *Lease) LackVotes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state > inJeopardy || !l.renews() {
		return
	}
	now := l.keeper.Now()
	l.extendAfter = min(l.extendAfter, now.Since(l.sentAt)+mendAfter())
	l.reschedule(now)
}

// heedRelease returns the function that hears each node's answer to a release over a quorum. If a
// node gives no answer, it leaves the release there to the clean-up, for as long as the lease may
// last. It notes which nodes did not find the owner.
func (l *Lease) heedRelease(call conn.Call) func(node int, said conn.Result) {
	k := l.keeper
	if !k.Quorum {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	votes, keep := l.votes, l.stays()
	return func(node int, said conn.Result) {
		if said.Err != nil {
			k.Cleanup.Add(node, call, 0, keep)
		}
		if missed := said.Err != nil || !script.Inside(said.Reply); votes != nil && missed && votes.Miss(node) {
			l.HearLate(node, missed)
		}
	}
}

// mend asks a node to take back a lease that the node does not know, but that a majority has just
// said is held. First it asks how far the node has counted. It is tempting to use the node's answer
// to the extend. But the node counts on with each slot that it gives: of several slots that were
// extended together, it would give only the first.
//
// It is tempting to mend at once what an operator took by force. But the force reaches the nodes
// one after the other: the first would have the lease again before the second hears of the force.
func (l *Lease) mend(node int) {
	if !l.Held() {
		return
	}
	k, on := l.keeper, l.lock
	ctx, cancel := context.WithTimeout(k.Closing, k.Timeout/3)
	defer cancel()
	to := k.Asker.Nodes()[node]
	said := to.Eval(ctx, on.Kind.Renew(on.Keys, l.owner, on.TTL, l.detail))[0]
	if said.Err != nil || script.Done(said.Reply) || !l.Held() || l.forcedLately() { // or a later owner may have counted
		return
	}
	l.MarkLateAt(node) // the request may arrive after the release
	param := on.Param
	switch on.Kind.Name {
	case script.SlotPool.Name:
		slot, _ := strconv.ParseInt(l.detail, 10, 64)
		param = script.From(param, slot)
	case script.Job.Name: // whose window began with the run
		// It is tempting to use Since. But a wall clock that was set forward would open the window early.
		age := k.Now().Time().Sub(l.acquired.Time())
		param = strconv.FormatInt(max(on.Extra-age+lock.Drift(age), 0).Milliseconds(), 10)
	}
	r := to.Eval(ctx, on.Kind.Mend(on.Keys, script.Ballot{
		Owner: l.owner, TTL: on.TTL, Param: param, Bound: on.TTL + on.Extra, FenceTTL: k.FenceTTL,
	}, l.token, l.detail, script.Counted(said.Reply)))[0]
	inside, nonvoting := script.ParseMend(r.Reply)
	switch {
	case r.Err != nil || inside:
	case nonvoting:
		k.Restore(on)
	case on.Kind.Name == script.SlotPool.Name && k.Now().Since(l.acquired) < swapped:
		l.LackVotes()
	}
}

// forcedLately reports whether a message has named the process that took the lock by force, within
// the last two request timeouts.
func (l *Lease) forcedLately() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forcedAt != nil && l.keeper.Now().Since(*l.forcedAt) < 2*l.keeper.Timeout
}

// swapped is how long the holder of a fresh slot keeps asking such a node. A node that got the
// requests of two holders in the opposite order gave each the slot of the other. Each holder leaves
// that slot with its own extend, so the first to extend finds its own slot still taken.
const swapped = time.Second
