package acquire

import (
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// leave has an owner without a majority leave the nodes that let it in.
func (c *Acquirer) leave(l *lock.Lock, owner string, t *ballot.Tally) {
	for node, v := range t.Votes {
		if v.Stand() == ballot.Granted {
			c.Undo.LeaveAt(node, l, owner)
		}
	}
}

// hearOut is called when the answers that a round lacked when t was counted have come, and acts on
// them. A request that was not answered may have let the owner in, or may still do so. An owner
// without a lease leaves that node. A lease remembers the node for its end, or is cleaned up there
// if it has ended by then.
func (c *Acquirer) hearOut(l *lock.Lock, votes *ballot.Round, t *ballot.Tally, owner string, begun *lease.Lease) {
	switch late := votes.Unanswered(); {
	case begun == nil:
		c.leaveLate(l, owner, t, votes)
	case len(late) > 0:
		for _, node := range late {
			begun.MarkLateAt(node)
		}
	default:
		begun.HaveVotes()
	}
	if begun != nil && votes.Split() {
		begun.LackVotes()
	}
	if votes.Forgot() {
		c.Quorum.Go(func() { // a hook that is slow must not hold up the answers to others
			c.Restore(c.Closing, l)
		})
	}
}

// leaveLate has an owner without a majority leave the nodes that gave no answer at first, unless
// they have said since that it is not inside.
func (c *Acquirer) leaveLate(l *lock.Lock, owner string, first *ballot.Tally, last *ballot.Round) {
	for node, v := range last.Votes {
		late := !first.Votes[node].Answered()
		switch stand := v.Stand(); {
		case last.Replaced(node) || late && stand == ballot.Silent:
			c.Undo.AbandonAt(node, l, owner, "")
		case late && stand == ballot.Granted:
			c.Undo.LeaveAt(node, l, owner)
		}
	}
}
