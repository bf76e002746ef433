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

// Round is the tally of a round, and the answers that it still lacks. Answers are counted as they
// come. When the outcome is clear, the attempt goes on with a copy of the tally. Once it has left the
// round to the background, late answers are acted on by acquire/late.go, and for a lease by
// lease/votes.go.
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

	mu      sync.Mutex // guards what is below, and the tally
	pending int        // answers that have not come
	told    int        // how often clear was told

	// What the background does; set when it is left to that.
	late    func(node int, missed bool)
	all     func()
	crossed []crossing // by node; nil if none can cross the release
}

// crossing is what happened at a node after the tally was copied. If both happened, the vote came
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

// soFar returns a copy of the tally, for the attempt.
func (t *Round) soFar() *Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	clone := t.Tally
	clone.Votes = slices.Clone(t.Votes)
	return &clone
}

// LeaveTo leaves the round to the background. late is called for each node that has let the owner in
// since the tally was copied, or does so later, and is told whether the node missed it at a release.
// all is called once, when all nodes have answered, or their time has passed: perhaps before LeaveTo
// returns, else on the goroutine of an answer, which it must not block.
func (t *Round) LeaveTo(copied *Tally, late func(node int, missed bool), all func()) {
	t.mu.Lock()
	t.late, t.all = late, all
	var since []int
	for node, v := range t.Votes {
		if v.Stand() == Granted && copied.Votes[node].Stand() != Granted {
			since = append(since, node)
		}
	}
	over := t.pending == 0
	if !over || since != nil {
		t.crossed = make([]crossing, len(t.Votes))
	}
	for _, node := range since {
		t.crossed[node].granted = true
	}
	t.mu.Unlock()
	for _, node := range since {
		if late != nil {
			late(node, false)
		}
	}
	if over {
		all()
	}
}

// Miss notes that a node did not say that the owner was inside when asked to release the owner. It
// reports whether the node has let the owner in since the tally was copied.
func (t *Round) Miss(node int) (late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.crossed == nil {
		return false
	}
	t.crossed[node].missed = true
	return t.crossed[node].granted
}

// unheard returns the nodes with a request of this round that had no answer when its tally was
// copied.
func (t *Round) unheard(copied *Tally) []bool {
	nodes := slices.Clone(t.replaced)
	for node, v := range copied.Votes {
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
