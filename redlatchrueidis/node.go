package redlatchrueidis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
)

// node is a server that requests go to: the only one, or a node of a cluster. It knows whether a
// request may go direct, without waiting for a connection: if a request was answered and no
// connection has ended since.
type node struct {
	troubles atomic.Uint64 // connections that ended, and requests that got no answer
	steadyAt atomic.Uint64 // troubles when some answered request began, plus 1
	sharing  atomic.Int32  // calls of Eval that share a connection at this moment
	lanes    []*lane       // none with Sentinel

	// For a node of a cluster. The client of the cluster sends a request to another node if the key
	// is there by now, over a connection that may have to be made. So requests go direct over the
	// client of the node. One request first proves that client, and may wait for its connection.
	addr    string
	client  atomic.Pointer[rueidis.Client] // that was proved; nil before, and after its connection ended
	proving atomic.Bool
	leftAt  atomic.Int64 // when it was left to the client of the cluster, on the clock of elapsed; 0 if never
}

// leftFor is how long a node of a cluster is left to the client of the cluster, which looks for a
// node that took over.
const leftFor = time.Second

// fitsLane reports whether calls may go in a lane: there are lanes, no other request is under way
// over the connection that requests share, and ctx has a deadline.
func (n *node) fitsLane(ctx context.Context, calls []conn.Call) bool {
	if len(n.lanes) == 0 || len(calls) != 1 || n.sharing.Load() != 0 {
		return false
	}
	_, ok := ctx.Deadline()
	return ok
}

// steady reports whether the connection is up and answered the request before.
func (n *node) steady() bool { return n != nil && n.steadyAt.Load() == n.troubles.Load()+1 }

// trouble notes that a connection ended, or that a request got no answer.
func (n *node) trouble() {
	n.troubles.Add(1)
}

// mark returns what to pass to proved for a request that begins now.
func (n *node) mark() uint64 {
	if n == nil {
		return 0
	}
	return n.troubles.Load() + 1
}

// proved notes that a request was answered. No connection has ended since its mark if troubles is
// still the same, so the one that it used is open.
func (n *node) proved(mark uint64) {
	if n != nil {
		n.steadyAt.Store(mark)
	}
}

// claim reports whether the next request should prove the node's client. The caller calls prove.
func (n *node) claim() bool {
	if n.addr == "" || n.steady() {
		return false
	}
	if left := n.leftAt.Load(); left != 0 && elapsed()-time.Duration(left) < leftFor {
		return false
	}
	return n.proving.CompareAndSwap(false, true)
}

// leave leaves the node to the client of the cluster for a moment.
func (n *node) leave() {
	n.trouble()
	n.leftAt.Store(int64(elapsed()))
}
