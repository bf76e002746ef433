package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/dial"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// minNodes is the smallest quorum: of two nodes, none may fail.
const minNodes = 3

// OpenQuorum connects to independent Redis servers, at least three, and returns a client whose
// locks are held by a majority of them (Redlock): so a lock survives the loss of the others, with
// its data. The URLs are those of [Open], each of another server; the servers must not replicate
// each other. An odd number is best: four survive the loss of one, like three, and need three votes
// instead of two. It returns when a majority has answered, or ctx is done.
//
// [Mutex], [Election], [Job] and [SlotPool] work as on one server, with fencing tokens that only
// grow. The other kinds are refused with an error that matches [ErrInvalid] and
// [errors.ErrUnsupported]. Differences: an acquisition takes one or two round trips, to all nodes
// at once; a waiter is told when it is worth trying, and is mostly, not always, served in turn.
//
// [ErrTaken] says that a majority of the nodes voted, and not for the caller. Either another owner
// has a majority; or it is a tie of several attempts, which TryLock tries again for
// Options.RequestTimeout before it says so. [ErrUnreachable] says that no majority voted: the
// others were silent, or had no vote. That holds even if every node that did vote refused: of four
// nodes with two silent ones, no client can tell a holder from an attempt that is about to fail. A
// wait that runs out of time returns the error of its context with that of the last round that came
// to an end. The text of each error tells of every node, by its address, how it stood: it let the
// caller in, refused (and which owner was inside), was silent (and why), did not vote (and for how
// long), or was not waited for, since the outcome was clear before.
//
// A node that was restarted, or whose data was deleted, may have forgotten locks. It does not vote
// until the longest TTL in use has passed and a client has told it the tokens of the others, as
// every client does. All nodes must be there when a quorum is used for the first time. A node must
// tell scripts its run_id (INFO); a server that does not, as some hosted ones, refuses with an error
// that says so. A URL that leads to a cluster is [ErrInvalid] once it is connected.
//
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ describes the algorithm
// without tokens; docs/protocol.md tells what was added.
func OpenQuorum(ctx context.Context, urls []string, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	nodes, wrapped := make([]*quorum.Lazy, len(urls)), make([]conn.Conn, len(urls))
	for i, url := range urls {
		if nodes[i], err = dial.Node(i+1, url, o.dialing()); err != nil {
			return nil, err
		}
		wrapped[i] = o.wrap(nodes[i])
	}
	c, err := newQuorum(wrapped, o, clock.Now)
	if err != nil {
		return nil, err
	}
	if err := dial.Most(ctx, nodes, c.engine.Quorum.Majority()); err != nil {
		return nil, fault.Join(err, c.Close())
	}
	return c, nil
}

// NewQuorum is [OpenQuorum] over connections that the program already has, one to each node. It
// sends nothing. The error matches [ErrInvalid].
func NewQuorum(nodes []conn.Conn, o Options) (*Client, error) { return newQuorum(nodes, o, clock.Now) }

func newQuorum(nodes []conn.Conn, o Options, now clock.Clock) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(nodes) < minNodes {
		return nil, invalid("a quorum of %d nodes: give %d or more, of which most must be up", len(nodes), minNodes)
	}
	var addrs []string
	for i, node := range nodes {
		if node == nil {
			return nil, invalid("the connection to node %d of the quorum is nil", i+1)
		}
		t := node.Target()
		if t.Cluster {
			return nil, invalid("a node of the quorum is the cluster %s: a node is one server", t.Addr)
		}
		if slices.Contains(addrs, t.Addr) {
			return nil, invalid("%s is twice among the nodes of the quorum: each needs a server of its own", t.Addr)
		}
		addrs = append(addrs, t.Addr)
	}
	return newClient(quorum.New(nodes, o.RequestTimeout/3), o, now)
}

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
	if c.engine.Quorum == nil {
		return nil
	}
	nodes := c.engine.Asker.Nodes()
	infos := make([]NodeInfo, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Add(1)
		c.engine.Quorum.Go(func() {
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
	start := c.engine.Now()
	results := node.Eval(ctx, calls...)
	n := NodeInfo{Addr: node.Target().Addr, Took: c.engine.Now().Since(start)}
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
