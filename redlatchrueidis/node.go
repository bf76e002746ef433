package redlatchrueidis

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
)

// node is a server that requests go to: the only one, or a node of a cluster. It knows whether a
// request may go direct, which waits for no connection: the connection answered a request, and none
// has ended since.
type node struct {
	troubles atomic.Uint64 // connections that ended, and requests that got no answer
	steadyAt atomic.Uint64 // troubles when a request began that was answered, plus 1
	sharing  atomic.Int32  // calls of Eval that share a connection at this moment
	lanes    []*lane       // none with Sentinel

	// Of a node of a cluster. A client of the cluster sends a request to another node if the key is
	// there by now, over a connection that may have to be made. So requests go direct over the client
	// of the node itself. That is proved by one request first, which may wait for its connection.
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
	if n != nil {
		n.troubles.Add(1)
	}
}

// mark returns what proved wants of a request that begins now.
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

// claim reports whether the next request shall prove the client of the node. It goes on with prove.
func (n *node) claim() bool {
	if n == nil || n.addr == "" || n.steady() {
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

// prove sends calls over the client that rueidis has for the node now. It returns false if the node
// did none of them.
func (c *Conn) prove(ctx context.Context, at *node, calls []conn.Call, build func(*conn.Call) rueidis.Completed) ([]conn.Result, bool) {
	defer at.proving.Store(false)
	over := c.client.Nodes()[at.addr]
	if over == nil {
		at.leave()
		return nil, false
	}
	mark := at.mark()
	results, sent := c.runApart(ctx, nil, over, calls, build)
	err := results[0].Err
	switch {
	case c.astray(at, err):
		return nil, false
	case !sent || err != nil && !errors.As(err, new(*conn.ReplyError)):
		at.leave()
	default:
		at.client.Store(&over)
		at.proved(mark)
	}
	return results, sent
}

// astray reports whether a node of a cluster refused a request, before it did any of it, since
// another node may have the key, or the node cannot serve it now. The next look at the cluster is
// then due, and the client of the cluster sends the request again.
func (c *Conn) astray(at *node, err error) bool {
	if err == nil || at == nil || at.addr == "" {
		return false
	}
	var said *conn.ReplyError
	if !errors.As(err, &said) {
		return false
	}
	switch code := said.Code(); {
	case slices.Contains([]string{"MOVED", "ASK", "TRYAGAIN"}, code): // it is about one slot
		c.places.Learn(said.Text, at.addr)
	case slices.Contains([]string{"CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"}, code):
		c.places.Refresh()
		at.leave()
	default:
		return false
	}
	return true
}

// node returns what is known of a node of a cluster; nil without an address.
func (d *direct) node(addr string) *node {
	if addr == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[addr]
	if n == nil {
		n = &node{addr: addr}
		if d.lanesTo != nil {
			n.lanes = d.lanesTo(n)
		}
		if d.nodes == nil {
			d.nodes = make(map[string]*node)
		}
		d.nodes[addr] = n
	}
	return n
}

// forget ends the lanes of nodes that are not among the masters any more, and forgets these nodes. A
// node that left its cluster says that there are none.
func (d *direct) forget(masters []string) {
	if len(masters) == 0 {
		return
	}
	var lanes []*lane
	d.mu.Lock()
	for addr, n := range d.nodes {
		if !slices.Contains(masters, addr) {
			n.trouble() // so that no request takes a lane that is about to be closed
			lanes = append(lanes, n.lanes...)
			delete(d.nodes, addr)
		}
	}
	d.mu.Unlock()
	for _, l := range lanes {
		l.close()
	}
}

// close ends all lanes, and lets no more be made.
func (d *direct) close() {
	d.mu.Lock()
	d.lanesTo = nil
	lanes := slices.Clone(d.server.lanes)
	for _, n := range d.nodes {
		lanes = append(lanes, n.lanes...)
	}
	d.mu.Unlock()
	for _, l := range lanes {
		l.close()
	}
}

// ended notes that a connection to an address ended. Rueidis may have closed its client, too, and
// have another for the address, or none.
func (d *direct) ended(addr string) {
	d.server.trouble()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[addr]; n != nil {
		n.trouble()
		n.client.Store(nil)
	}
}
