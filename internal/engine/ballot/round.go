package ballot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Round is the tally of a round, and the answers that it still lacks. It goes through three stages:
//
//	counting      answers are counted as they come, until the outcome is clear
//	stopped       the tally is the attempt's; answers that come are put aside
//	left          answers are counted again, and acted on: the background has it
//
// Late answers are acted on by acquire/late.go, and for a lease by lease/votes.go.
//
// Each answer is counted on the goroutine that brought it, so a round needs none of its own.
type Round struct {
	Tally
	Sent  clock.Reading // before the requests
	limit time.Duration // of the request to one node
	past  []string      // the attempt's owners of earlier rounds, which do not count as holders

	// Receives when the outcome is clear, and once more when it is known whether the latch is held,
	// if that was not known then. Once all answers have come, both are so.
	clear chan struct{}

	// The nodes whose answers to an earlier request of the round are not waited for any more, since
	// the attempt asked again for another slot. The earlier request may arrive late.
	replaced []bool

	mu      sync.Mutex // guards what is below, and the tally except while stopped
	pending int        // answers that have not been counted
	stopped bool
	told    int             // how often clear was told
	aside   []quorum.Answer // that came while it was stopped

	// What the background does; set when it is left to that.
	late    func(node int, missed bool)
	all     func()
	crossed []crossing // by node; nil if all answers had come when it was left
}

// crossing is what happened at a node after the tally was left. If both happened, the vote came
// after the release, and the owner is inside there.
type crossing struct {
	granted bool // it let the owner in
	missed  bool // it was asked to release the owner, and did not say that it was inside
}

// newRound returns a round without votes.
func newRound(q *quorum.Conn, slots bool, past []string) *Round {
	t := &Round{Tally: newTally(q, slots), limit: q.Timeout(), past: past, clear: make(chan struct{}, 2)}
	t.pending, t.replaced = len(t.Votes), make([]bool, len(t.Votes))
	return t
}

// hear takes the answer of a node.
func (t *Round) hear(a quorum.Answer) {
	t.mu.Lock()
	if t.stopped {
		t.aside = append(t.aside, a)
		t.mu.Unlock()
		return
	}
	t.take(a)
	if t.all == nil {
		t.tellLocked()
		t.mu.Unlock()
		return
	}
	granted, last := t.Votes[a.Node].Stand() == Granted, t.pending == 0
	t.crossed[a.Node].granted = granted
	missed := t.crossed[a.Node].missed
	t.mu.Unlock()
	if granted && t.late != nil {
		t.late(a.Node, missed)
	}
	if last {
		t.all()
	}
}

// tellLocked tells the attempt what is clear by now. The caller holds t.mu.
func (t *Round) tellLocked() {
	decided := t.pending == 0 || t.Clear()
	if t.told == 0 && decided || t.told == 1 && (t.pending == 0 || !t.MayBeHeld()) {
		t.told++
		t.clear <- struct{}{}
	}
}

// mayBeHeld reports whether it is worth waiting for answers that tell a holder from a tie.
func (t *Round) mayBeHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending > 0 && t.MayBeHeld()
}

// dwell waits until it is known whether one owner holds the latch, for d at most: a node may never
// answer, and a tie is worth another try soon.
func (t *Round) dwell(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.clear:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stop gives the tally to the attempt, as it is.
func (t *Round) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// LeaveTo leaves the tally to the background. late is called for each node that lets the owner in
// from now on, and is told whether the node missed it at a release. After that all is called, once,
// when all nodes have answered, or their time has passed: perhaps before LeaveTo returns, else on
// the goroutine of an answer, which it must not block.
func (t *Round) LeaveTo(late func(node int, missed bool), all func()) {
	t.mu.Lock()
	t.stopped, t.late, t.all = false, late, all
	aside, over := t.aside, t.pending == 0
	t.aside = nil
	if !over {
		t.crossed = make([]crossing, len(t.Votes))
	}
	t.mu.Unlock()
	for _, a := range aside {
		t.hear(a)
	}
	if over {
		all()
	}
}

// Miss notes that a node did not say that the owner was inside when asked to release the owner. It
// reports whether the node has let the owner in since the tally was left.
func (t *Round) Miss(node int) (late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crossed == nil {
		return false
	}
	t.crossed[node].missed = true
	return t.crossed[node].granted
}

// silence marks the nodes that have not answered in time.
func (t *Round) silence(patience time.Duration) {
	for i := range t.Votes {
		if v := &t.Votes[i]; v.Stand() == Unheard {
			v.Err = fmt.Errorf("no answer within %v", patience)
		}
	}
}

// unheard returns the nodes with a request of this round that got no answer so far.
func (t *Round) unheard() []bool {
	nodes := slices.Clone(t.replaced)
	for node, v := range t.Votes {
		nodes[node] = nodes[node] || !v.Answered()
	}
	return nodes
}

// Lacks reports whether a node has not answered the round by now, and may let its owner in, or have
// let it in.
func (t *Round) Lacks(node int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.Votes[node].Answered()
}

// Unanswered returns the nodes to which a request of the round got no answer, and which may let the
// owner in later.
func (t *Round) Unanswered() (nodes []int) {
	for node, v := range t.Votes {
		if v.Stand() == Silent || t.replaced[node] {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// take counts the answer of a node.
func (t *Round) take(a quorum.Answer) {
	t.pending--
	v := &t.Votes[a.Node]
	v.Heard = true
	if v.Err = a.Results[0].Err; v.Err == nil {
		v.Vote, v.Err = script.ParseVote(a.Results[0].Reply)
	}
	v.Fatal = v.Err != nil && !retry.Transient(v.Err)
	if errors.Is(v.Err, context.DeadlineExceeded) {
		v.Err = fmt.Errorf("no answer within %v", t.limit)
	}
	if slices.Contains(t.past, v.Holder) {
		v.Holder, v.Own = "", true
	}
}

// Replaced reports whether a node may get an earlier request of the round late.
func (t *Round) Replaced(node int) bool { return t.replaced[node] }
