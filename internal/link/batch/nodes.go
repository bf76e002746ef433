package batch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/driver/slots"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxAloneNode is how many requests to one node of a cluster may be under way by themselves.
const maxAloneNode = 8

// Nodes sends requests to a cluster. It batches the requests for each node separately, as a
// [Sender] does, so a node that does not answer holds up no request to another. It is safe for
// concurrent use.
//
// The connection knows which node a request is for. If that is out of date, the request waits
// together with those for the node that had its slot before.
type Nodes struct {
	conn    conn.Conn
	clock   clock.Clock
	timeout time.Duration
	node    func(key string) string

	mu  sync.Mutex // guards all
	all map[string]*Sender
}

// NewNodes returns the senders to the nodes of a cluster, whose Target must have Node.
func NewNodes(over conn.Conn, now clock.Clock, timeout time.Duration) *Nodes {
	return &Nodes{
		conn: over, clock: now, timeout: timeout, node: over.Target().Node, all: make(map[string]*Sender),
	}
}

// Do is [Sender.Do]. A waiters' heartbeat to a known node never goes by itself: many come at once.
func (n *Nodes) Do(ctx context.Context, request conn.Call, limit time.Duration) Outcome {
	s := n.at(request)
	switch {
	case s == nil:
		return Direct(ctx, n.conn, n.clock, request, limit)
	case script.Awaits(request):
		return s.Join(ctx, request, limit)
	}
	return s.Do(ctx, request, limit)
}

// SendAll is [Sender.SendAll], with one pipeline for each node.
func (n *Nodes) SendAll(ctx context.Context, calls []conn.Call) []Outcome {
	members := make(map[*Sender][]int)
	for i, call := range calls {
		s := n.at(call)
		members[s] = append(members[s], i)
	}
	outcomes := make([]Outcome, len(calls))
	var nodes sync.WaitGroup
	for s, which := range members {
		if s == nil {
			s = n.sender("")
		}
		nodes.Go(func() {
			for k, o := range s.SendAll(ctx, pick(calls, which)) {
				outcomes[which[k]] = o
			}
		})
	}
	nodes.Wait()
	return outcomes
}

// Wait is [Sender.Wait].
func (n *Nodes) Wait() {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.all))
	n.mu.Unlock()
	for _, s := range all {
		s.Wait()
	}
}

// at returns the sender to the node that a request is for, or nil if that is not known. All requests
// of redlatch name a key.
func (n *Nodes) at(request conn.Call) *Sender {
	if addr := n.node(request.Keys[0]); addr != "" {
		return n.sender(addr)
	}
	return nil
}

// sender returns the sender to a node.
func (n *Nodes) sender(addr string) *Sender {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.all[addr]
	if s == nil {
		s = New(n.conn, n.clock, n.timeout)
		s.alone = min(s.alone, maxAloneNode)
		s.slot = func(call conn.Call) int { return slots.Of(call.Keys[0]) }
		n.all[addr] = s
	}
	return s
}
