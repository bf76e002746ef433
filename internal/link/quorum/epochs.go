package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Epochs gives nodes their right to vote. The package comment says when, and why not earlier.
type Epochs struct {
	conn *Conn
	turn turn
}

// NewEpochs returns the rights to vote of these nodes.
func NewEpochs(q *Conn) *Epochs { return &Epochs{q, make(turn, 1)} }

// Right is the right to vote for one kind of lock.
type Right struct {
	Key   string        // on each node
	Bound time.Duration // the longest time for which the caller knows a vote to bind a node: TTL and lock.Lock.Extra
}

// Restore gives the right to vote to every node that may have it, and begins the rest of those that
// must wait. If the whole quorum is new, it does the same for the other rights. It returns when
// that is done or was tried, or when ctx is done. What failed is left to the next call. It is
// called for an acquisition that met a node without a vote (acquire/quorum.go), for a late vote
// (late.go there), and for the votes of a lease (lease/votes.go).
//
// Concurrent calls do not ask the nodes twice: one of them works for all.
func (e *Epochs) Restore(ctx context.Context, right Right, others ...Right) {
	if !e.turn.enter(ctx) {
		return
	}
	defer e.turn.leave()
	if !e.restore(ctx, right) {
		return
	}
	for _, other := range others {
		e.restore(ctx, other)
	}
}

// restore does what Restore does for one kind. It reports whether the whole quorum is new.
func (e *Epochs) restore(ctx context.Context, right Right) (isNew bool) {
	nodes := e.look(ctx, right.Key)
	unused := number(nodes, epoch.unused)
	isNew = unused == len(nodes)
	if !isNew && unused == number(nodes, epoch.answered) {
		return false // it may be new, but a node that did not answer would know better
	}
	e.begin(ctx, right, nodes, isNew)
	if isNew || slices.ContainsFunc(nodes, epoch.rested) {
		e.finish(ctx, right, nodes, isNew)
	}
	return isNew
}

// begin begins the rest of each node that must wait.
func (e *Epochs) begin(ctx context.Context, right Right, nodes []epoch, isNew bool) {
	var all sync.WaitGroup
	for i, n := range nodes {
		if n.forgot() {
			e.send(ctx, &all, i, script.Rest(right.Key, n.Process, rest(right.boundBy(nodes), isNew)))
		}
	}
	all.Wait()
}

// rest returns how long a node must wait for its vote if votes bind nodes for bound. No node of
// a new quorum gets the right before the rest of all has begun. So a node whose rest has
// not begun when others vote is not new: it forgot.
func rest(bound time.Duration, isNew bool) time.Duration {
	if isNew {
		return 0
	}
	return bound
}

// boundBy returns the longest time for which a vote may bind a node, as far as these nodes and the
// caller know.
func (r Right) boundBy(nodes []epoch) time.Duration {
	bound := r.Bound
	for _, n := range nodes {
		bound = max(bound, n.Bound)
	}
	return bound
}

// finish asks all nodes what they know, and gives the right to those whose rest had ended before
// that, or to all of a new quorum. It is tempting to give it also to a node whose rest ended while
// the nodes were asked. But then the others may have answered before that rest ended.
//
// A node that was silent when the rest began may know of a longer bound than the others did.
// So the rest is checked again, against what a majority of the others knows now: each lease is
// known to at least one of them, or was only at nodes that forgot it.
func (e *Epochs) finish(ctx context.Context, right Right, before []epoch, isNew bool) {
	nodes := e.look(ctx, right.Key)
	bound := right.boundBy(nodes)
	var all sync.WaitGroup
	for i, n := range nodes {
		inTime := isNew || before[i].rested() && before[i].Process == n.Process
		if number, ok := floor(nodes, i); ok && n.rested() && inTime {
			e.send(ctx, &all, i, script.Restore(right.Key, n.Process, rest(bound, isNew), number, bound))
		}
	}
	all.Wait()
}

// look asks every node about its right to vote.
func (e *Epochs) look(ctx context.Context, key string) []epoch {
	nodes := make([]epoch, len(e.conn.nodes))
	answers := e.conn.Each(ctx, script.Look(key))
	for range nodes {
		select {
		case a := <-answers:
			if r := a.Results[0]; r.Err == nil {
				told, err := script.ParseEpoch(r.Reply)
				nodes[a.Node] = epoch{told, err == nil}
			}
		case <-ctx.Done():
			return nodes
		}
	}
	return nodes
}

// send changes the right of one node, concurrently with the others. If that fails, the next Restore
// tries it again.
func (e *Epochs) send(ctx context.Context, all *sync.WaitGroup, node int, call conn.Call) {
	all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, e.conn.timeout)
		defer cancel()
		e.conn.nodes[node].Eval(ctx, call)
	})
}

// epoch is what a node said about its right to vote. Without an answer, it is in none of the states
// below.
type epoch struct {
	script.Epoch
	ok bool // it answered
}

// answered reports whether the node answered.
func (e epoch) answered() bool { return e.ok }

// unused reports whether the node never voted, as far as it knows: it is new, or has forgotten all.
func (e epoch) unused() bool { return e.ok && !e.Voted && e.Rest <= 0 }

// forgot reports whether the node has no vote, and its rest has not begun.
func (e epoch) forgot() bool { return e.ok && !e.Votes && e.Rest < 0 }

// rested reports whether the rest of the node has ended, and nothing but the number is missing.
func (e epoch) rested() bool { return e.ok && e.Rest == 0 }

// number returns how many of the nodes are in a state.
func number(nodes []epoch, state func(epoch) bool) (n int) {
	for _, e := range nodes {
		if state(e) {
			n++
		}
	}
	return n
}

// floor returns the number from which a node may go on counting, and whether enough is known for
// that. If a majority of the other nodes votes, it knows every token. Otherwise, more was forgotten
// than a quorum can tolerate. Then all the others must have answered, and the clocks count as
// numbers, too.
func floor(nodes []epoch, node int) (high int64, ok bool) {
	others := len(nodes) - 1
	voters, answers, clock := 0, 0, int64(0)
	for i, e := range nodes {
		if !e.ok {
			continue
		}
		high, clock = max(high, e.High), max(clock, e.Clock)
		if i != node {
			answers++
			if e.Votes {
				voters++
			}
		}
	}
	switch {
	case !nodes[node].ok:
		return 0, false
	case voters >= others/2+1:
		return high, true
	}
	return max(high, clock), answers == others
}

// turn keeps several goroutines from working on the same nodes. It has room for one.
type turn chan struct{}

// enter reports whether the caller has the turn. If another goroutine has it, that goroutine works
// for the caller, too: enter then returns when the other has finished, or when ctx is done.
func (t turn) enter(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	select {
	case t <- struct{}{}:
		t.leave()
	case <-ctx.Done():
	}
	return false
}

// leave ends the caller's turn.
func (t turn) leave() { <-t }
