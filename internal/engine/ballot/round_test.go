package ballot

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// node is a connection that no request is sent over.
type node struct{ conn.Conn }

func (node) Target() conn.Target { return conn.Target{Addr: "node"} }

// round returns a round over n nodes.
func round(n int) *Round {
	nodes := slices.Repeat([]conn.Conn{node{}}, n)
	return newRound(quorum.New(nodes, time.Second), false, []string{"own"})
}

// granted is the answer of a node that lets the owner in.
func granted(node int) quorum.Answer {
	inside := conn.Reply{List: []conn.Reply{{Int: 1}, {Int: 7}, {Text: ""}}}
	return quorum.Answer{Node: node, Results: []conn.Result{{Reply: inside}}}
}

// silent is the answer of a node that gave none in time.
func silent(node int) quorum.Answer {
	return quorum.Answer{Node: node, Results: []conn.Result{{Err: context.DeadlineExceeded}}}
}

// TestVoteThatCrossesTheRelease: a node that missed the owner at its release, and lets the owner in,
// holds it until the TTL. It is told in whichever order the two happen, and once.
func TestVoteThatCrossesTheRelease(t *testing.T) {
	t.Parallel()
	for name, missedFirst := range map[string]bool{"missed first": true, "granted first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := round(3)
			r.hear(granted(0))
			r.hear(granted(1))
			told, ended := 0, false
			r.LeaveTo(r.soFar(), func(node int, missed bool) {
				check.That(t, node == 2, "node %d granted late", node)
				if missed {
					told++
				}
			}, func() { ended = true })
			check.That(t, !ended, "all have answered, and one has not")
			miss := func() {
				if r.Miss(2) {
					told++
				}
			}
			if missedFirst {
				miss()
				r.hear(granted(2))
			} else {
				r.hear(granted(2))
				miss()
			}
			if told != 1 || !ended {
				t.Errorf("told %d times that the vote crossed the release, and that all have answered: %t; want once, and yes", told, ended)
			}
		})
	}
}

// TestAnswersWhileTheAttemptLooks: those that come while the attempt looks at its copy of the tally do
// not change that, and are told when the attempt has left the round.
func TestAnswersWhileTheAttemptLooks(t *testing.T) {
	t.Parallel()
	r := round(3)
	r.hear(granted(0))
	copied := r.soFar()
	r.hear(granted(1))
	r.hear(silent(2))
	check.That(t, r.Won() && !copied.Won(), "an answer was counted in the copy of the tally, or not in the round")
	var late []int
	ended := 0
	r.LeaveTo(copied, func(node int, _ bool) { late = append(late, node) }, func() { ended++ })
	if !slices.Equal(late, []int{1}) || ended != 1 {
		t.Errorf("late votes of nodes %v, ended %d times; want that of node 1, once", late, ended)
	}
	check.That(t, len(r.Unanswered()) == 1, "a node that was silent may let the owner in later, and Unanswered says no")
}
