package redlatchrueidis

import (
	"errors"
	"strings"
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

	// Of a node of a cluster. A client of the cluster sends a request to another node if the key is
	// there by now, over a connection that may have to be made. So requests go direct over this one.
	addr    string
	client  rueidis.Client
	provers atomic.Int32 // requests that prove the client at this moment, 1 at most
	refused atomic.Int64 // when a request over the client failed last, on the clock of elapsed; 0 if none did
}

// proveEvery is how long a node of a cluster is left to the client of the cluster after a request
// over its own client failed: another node may have taken over.
const proveEvery = time.Second

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

// prove reports whether the next request shall go over the node's own client, to prove it. The
// caller ends that by tried.
func (n *node) prove() bool {
	if n == nil || n.client == nil {
		return false
	}
	if last := n.refused.Load(); last != 0 && elapsed()-time.Duration(last) < proveEvery {
		return false
	}
	return n.provers.CompareAndSwap(0, 1)
}

// tried ends what prove began.
func (n *node) tried(answered bool) {
	if !answered {
		n.refused.Store(int64(elapsed()))
	}
	n.provers.Store(0)
}

// node returns a node of a cluster, with its own client; nil if there is none. all returns the
// clients of all nodes. It takes a lock under which rueidis closes connections, so no other is held.
func (d *direct) node(addr string, all func() map[string]rueidis.Client) *node {
	n, missing := d.known(addr)
	if n != nil || missing || addr == "" {
		return n
	}
	client := all()[addr]
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[addr]; n != nil {
		return n
	}
	if d.nodes == nil {
		d.nodes, d.missing = make(map[string]*node), make(map[string]time.Duration)
	}
	if client == nil {
		d.missing[addr] = elapsed()
		return nil
	}
	n = &node{addr: addr, client: client}
	d.nodes[addr] = n
	return n
}

// known returns a node if it is known, or reports that it was missing a moment ago.
func (d *direct) known(addr string) (n *node, missing bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, missing := d.missing[addr]
	return d.nodes[addr], missing && elapsed()-last < proveEvery
}

// forgetClosed drops a node whose client was closed, as err says: rueidis has another, or none.
func (c *Conn) forgetClosed(n *node, err error) {
	if n.client == nil || !errors.Is(err, rueidis.ErrClosing) {
		return
	}
	c.direct.mu.Lock()
	defer c.direct.mu.Unlock()
	if c.direct.nodes[n.addr] == n {
		delete(c.direct.nodes, n.addr)
	}
}

// ended notes that a connection to an address ended.
func (d *direct) ended(addr string) {
	d.server.trouble()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes[addr].trouble()
}

// elsewhere reports whether the node of a cluster answered that the key is at another node, and
// learns at which.
func (c *Conn) elsewhere(n *node, err error) bool {
	var said *conn.ReplyError
	if n == nil || n.client == nil || !errors.As(err, &said) {
		return false
	}
	c.places.Learn(said.Text, n.addr)
	return strings.HasPrefix(said.Text, "MOVED ") || strings.HasPrefix(said.Text, "ASK ")
}
