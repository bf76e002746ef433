package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// NodeInfo is how one node of a quorum stands.
type NodeInfo struct {
	Addr  string
	Err   error         // why the node did not answer; nil if it did
	Took  time.Duration // until it answered, or was given up
	Votes []NodeVote    // its right to vote for each kind of lock, by kind; empty if it did not answer
}

// NodeVote is the right of a node to vote for one kind of lock.
type NodeVote struct {
	Kind  string // "mutex", ...
	State NodeState
	Rest  time.Duration // how long the node still rests; 0 in other states
}

// NodeState is what a node of a quorum does when it is asked for its vote.
type NodeState string

// The states of a node. A node that was restarted goes from NodeForgot to NodeRests, NodeRested and
// NodeVotes; each step is made by the clients that meet it.
const (
	NodeVotes  NodeState = "votes"  // it votes
	NodeNew    NodeState = "new"    // no client has used it for this kind
	NodeForgot NodeState = "forgot" // it was restarted or lost its data, and no client has met it since
	NodeRests  NodeState = "rests"  // it waits until all that it may have forgotten has ended
	NodeRested NodeState = "rested" // it votes when a client next tells it the tokens of the others
)

// Nodes returns how each node of a quorum stands, in the order of their URLs. It returns when all
// have answered, or a third of Options.RequestTimeout has passed, or ctx is done. A node that does
// not answer is in the list, with an error that matches [ErrUnreachable], or the server's own. It
// changes nothing. On one server, or a cluster, it asks nothing and returns nil.
func (c *Client) Nodes(ctx context.Context) []NodeInfo {
	if c.quorum == nil {
		return nil
	}
	nodes := c.asker.Nodes()
	infos := make([]NodeInfo, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Add(1)
		c.quorum.Go(func() {
			defer asking.Done()
			infos[i] = c.lookAt(ctx, node)
		})
	}
	asking.Wait()
	return infos
}

// lookAt returns how one node of a quorum stands.
func (c *Client) lookAt(ctx context.Context, node conn.Conn) NodeInfo {
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout/3)
	defer cancel()
	var kinds []string
	var calls []conn.Call
	for _, k := range script.Kinds() {
		if k.Quorum() != nil {
			kinds, calls = append(kinds, k.Name), append(calls, script.Look(keys.Epoch(c.options.Prefix, k.Name)))
		}
	}
	start := c.now()
	results := node.Eval(ctx, calls...)
	n := NodeInfo{Addr: node.Target().Addr, Took: c.now().Since(start)}
	for i, r := range results {
		e, err := script.ParseEpoch(r.Reply)
		if err = cmp.Or(r.Err, err); err != nil {
			n.Err, n.Votes = fmt.Errorf("redlatch: ask %s for its vote: %w", n.Addr, fault.Unreached(err)), nil
			break
		}
		n.Votes = append(n.Votes, newNodeVote(kinds[i], e))
	}
	slices.SortFunc(n.Votes, func(a, b NodeVote) int { return cmp.Compare(a.Kind, b.Kind) })
	return n
}

// newNodeVote is the right to vote as a script tells it.
func newNodeVote(kind string, e script.Epoch) NodeVote {
	v := NodeVote{Kind: kind, State: NodeNew}
	switch {
	case e.Votes:
		v.State = NodeVotes
	case e.Probation > 0:
		v.State, v.Rest = NodeRests, e.Probation
	case e.Probation == 0:
		v.State = NodeRested
	case e.Voted:
		v.State = NodeForgot
	}
	return v
}
