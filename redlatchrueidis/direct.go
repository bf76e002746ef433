package redlatchrueidis

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// direct sends requests on the goroutine of their caller. Rueidis respects a context there only
// while it waits for a reply: not while it or another request dials, and not while its queue is
// full. So a request goes direct only while the connection to its node is steady, and never dials;
// see await for the other way.
type direct struct {
	server node  // the only one; those of a cluster are in nodes
	most   int32 // requests under way; more might find the queue of a connection full

	idle sync.Pool // of *request

	mu       sync.Mutex          // guards what is below
	nodes    map[string]*node    // of a cluster, by their addresses
	lanesTo  func(*node) []*lane // of a cluster, until it is closed; else nil
	underWay []*request
	begun    uint64      // requests, ever
	seen     uint64      // begun, at the last look
	timer    *time.Timer // calls look; nil before the first request
	ticking  bool        // the timer is set
}

// lookEvery is how long after its context a request may end. Contexts are checked this often while
// requests are under way, since a timer for each would cost more than everything else here.
const lookEvery = 10 * time.Millisecond

// request is the context of a request that goes direct. It is reused if it was never done.
type request struct {
	ctx    context.Context
	over   chan struct{} // closed when ctx is done
	done   bool          // over is closed; guarded by mu of direct
	number uint64        // of all requests
	index  int           // in underWay
	lane   *lane         // that it has taken; nil if none
}

// Deadline implements [context.Context]. Rueidis reads on the caller's goroutine only if there is a
// deadline, and until then. On the shared connection, that would close it for all. In a lane, the
// deadline is later than the caller's, so that look finds the context done first.
func (r *request) Deadline() (time.Time, bool) {
	if r.lane == nil {
		return time.Time{}, false
	}
	deadline, ok := r.ctx.Deadline()
	return deadline.Add(lookEvery), ok
}

func (r *request) Done() <-chan struct{} { return r.over }

func (r *request) Err() error {
	select {
	case <-r.over:
		return r.ctx.Err()
	default:
		return nil
	}
}

func (r *request) Value(key any) any {
	if key == (undialed{}) {
		return true
	}
	return r.ctx.Value(key)
}

// begin returns the context for a request under ctx. The request has taken the lane, or shares the
// connection if that is nil. The caller ends it.
func (d *direct) begin(ctx context.Context, taken *lane) *request {
	r, _ := d.idle.Get().(*request)
	if r == nil {
		r = &request{over: make(chan struct{})}
	}
	r.ctx, r.lane = ctx, taken
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	r.number, r.index = d.begun, len(d.underWay)
	d.underWay = append(d.underWay, r)
	if !d.ticking {
		d.ticking = true
		if d.timer == nil {
			d.timer = time.AfterFunc(lookEvery, d.look)
		} else {
			d.timer.Reset(lookEvery)
		}
	}
	return r
}

// end ends a request. It reports whether the request was found to be done before.
func (d *direct) end(r *request) (done bool) {
	d.mu.Lock()
	last := len(d.underWay) - 1
	d.underWay[r.index] = d.underWay[last]
	d.underWay[r.index].index = r.index
	d.underWay[last] = nil
	d.underWay = d.underWay[:last]
	done = r.done
	d.mu.Unlock()
	if r.ctx, r.lane = nil, nil; !done {
		d.idle.Put(r)
	}
	return done
}

// look ends the requests whose contexts are done. It is called again as long as there are requests.
func (d *direct) look() {
	for _, r := range d.copies() {
		if r.ctx.Err() == nil { // which may call code of the program, so no lock is held
			continue
		}
		if socket := d.markDone(r.number); socket != nil {
			hangUp(*socket) // which may take a while
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ticking = d.seen != d.begun || len(d.underWay) > 0; d.ticking {
		d.timer.Reset(lookEvery)
	}
	d.seen = d.begun
}

// copies returns the requests under way as they are now.
func (d *direct) copies() (all []request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.underWay {
		all = append(all, *r)
	}
	return all
}

// markDone marks the request with this number as done, unless it has ended by now. It returns the
// connection that ends a request in a lane when it is closed.
func (d *direct) markDone(number uint64) (socket *net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.underWay {
		if r.number != number || r.done {
			continue
		}
		r.done = true
		close(r.over)
		if r.lane != nil {
			return r.lane.socket.Load()
		}
	}
	return nil
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
// node that left its cluster says that there are no masters.
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

// ended notes that a connection to an address ended. Rueidis may have closed its client for the
// address, too, and have another, or none.
func (d *direct) ended(addr string) {
	d.server.trouble()
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[addr]; n != nil {
		n.trouble()
		n.client.Store(nil)
	}
}
