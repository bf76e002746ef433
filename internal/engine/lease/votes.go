package lease

import (
	"context"
	"strconv"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A majority makes a lease of a quorum, so the votes of the slower nodes come while it is held, or
// after its release. In most cases a node has the vote before the release, and nothing is left of
// the owner. The node says so: the owner was inside when it was released. If it says that the owner
// was not, and lets the owner in, the vote came after the release. Then the owner is released there
// once more.

// AwaitVotes notes the votes of a lease of which some may be missing. The lease is no one's yet.
func (l *Lease) AwaitVotes(votes *ballot.Round) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.votes = votes
}

// HaveVotes notes that all votes have come. A release that begins after that cannot be crossed by
// one.
func (l *Lease) HaveVotes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state <= inJeopardy {
		l.votes = nil
	}
}

// HearLate is told that a node let the owner in after the lease had begun, and whether the node
// missed the owner at a release. A lease that is held needs nothing: its release comes after that.
func (l *Lease) HearLate(node int, missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if missed || l.state == lost {
		l.undoAtLocked(node)
	}
}

// LackVotes is told that a node voted, and not for the owner: another had its vote. The lease rests
// on fewer nodes than there are, and most others have left by the time at which it is extended. That
// also asks the node to take the owner in.
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

// missedBy notes that a node did not say that the owner was inside when it was asked to release it.
func (l *Lease) missedBy(node int, votes *ballot.Round) {
	if votes.Miss(node) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.undoAtLocked(node)
	}
}

// heedRelease returns what hears the answers of the nodes of a quorum to a release. It leaves the release of
// a node that gave none to the clean-up, for as long as the lease may last there, and notes which nodes
// miss the owner.
func (l *Lease) heedRelease(call conn.Call) func(node int, said conn.Result) {
	k := l.keeper
	if !k.Quorum {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	votes, keep := l.votes, max(l.lock.TTL+l.lock.Extra, l.longest, k.LiveFor)
	return func(node int, said conn.Result) {
		if said.Err != nil {
			k.Cleanup.Add(node, call, 0, keep)
		}
		if votes != nil && (said.Err != nil || !script.Inside(said.Reply)) {
			l.missedBy(node, votes)
		}
	}
}

// mend asks a node to take a lease in again that it does not know, as it has said, and that a
// majority has just said is held.
func (l *Lease) mend(node int, said conn.Reply) {
	if !l.Held() {
		return
	}
	l.MarkLateAt(node) // the request may arrive after the release
	k, on := l.keeper, l.lock
	param := on.Param
	if on.Kind.Name == script.SlotPool.Name {
		var slot int64
		if s, err := strconv.Atoi(l.detail); err == nil {
			slot = int64(s)
		}
		param = script.From(param, slot)
	}
	ctx, cancel := context.WithTimeout(k.Closing, k.Timeout/3)
	defer cancel()
	r := k.Asker.Nodes()[node].Eval(ctx, on.Kind.Mend(on.Keys, script.Ballot{
		Owner: l.owner, TTL: on.TTL, Param: param, Bound: on.TTL + on.Extra, FenceTTL: k.FenceTTL,
	}, l.token, l.detail, script.Counted(said)))[0]
	if _, nonvoting := script.ParseMend(r.Reply); r.Err == nil && nonvoting {
		k.Restore(on)
	}
}
