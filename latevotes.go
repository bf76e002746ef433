package redlatch

import (
	"context"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A majority makes a lease of a quorum, so the votes of the slower nodes come while it is held, or
// after its release. In most cases a node has the vote before the release, and nothing is left of
// the owner. The node says so: the owner was inside when it was released. If it says that the owner
// was not, and lets the owner in, the vote came after the release. Then the owner is released there
// once more.

// awaitVotes notes the votes of a lease of which some may be missing. The lease is no one's yet.
func (l *Lease) awaitVotes(votes *openTally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.votes = votes
}

// haveVotes notes that all votes have come. A release that begins after that cannot be crossed by
// one.
func (l *Lease) haveVotes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state <= inJeopardy {
		l.votes = nil
	}
}

// hearLate is told that a node let the owner in after the lease had begun, and whether the node
// missed the owner at a release. A lease that is held needs nothing: its release comes after that.
func (l *Lease) hearLate(node int, missed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if missed || l.state == lost {
		l.undoAtLocked(node)
	}
}

// missedBy notes that a node did not say that the owner was inside when it was asked to release it.
func (l *Lease) missedBy(node int, votes *openTally) {
	if votes.miss(node) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.undoAtLocked(node)
	}
}

// releaser returns the connection that a release is sent over. It tells the lease of the nodes that
// miss the owner.
func (l *Lease) releaser() conn.Conn {
	c := l.latch.client
	if c.quorum == nil {
		return c.conn
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.votes == nil {
		return c.conn
	}
	return &releaser{c.quorum, l, l.votes}
}

// releaser is a quorum over which a lease is released while votes for it may come.
type releaser struct {
	*quorum.Conn
	lease *Lease
	votes *openTally
}

// Eval implements [conn.Conn].
func (r *releaser) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return r.EvalHearing(ctx, func(a quorum.Answer) {
		if said := a.Results[0]; said.Err != nil || !script.Inside(said.Reply) {
			r.lease.missedBy(a.Node, r.votes)
		}
	}, calls...)
}
