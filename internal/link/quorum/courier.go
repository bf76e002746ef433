package quorum

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/batch"
)

// courier carries requests to one node, on goroutines that Close waits for. A request goes out with
// all requests that goroutines able to run at that moment have for the node, in one pipeline and in
// order: the busier the program is, the fewer round trips they cost. No request waits for the
// answer to another.
type courier struct {
	node    conn.Conn
	number  int // of the node
	timeout time.Duration
	flights *flights

	mu    sync.Mutex // guards what is below
	first *errand    // of those that a goroutine is about to take; nil if there is none
	more  []*errand  // after it
}

// Answer is what one node said to a batch of calls.
type Answer struct {
	Node    int
	Results []conn.Result
}

// errand is a batch of calls on its way to all nodes.
type errand struct {
	ctx   *batch.Limited
	calls []conn.Call
	heard func(Answer)
	left  atomic.Int32 // nodes that have not answered
}

// answered calls heard with the answer of a node.
func (e *errand) answered(node int, results []conn.Result) {
	e.heard(Answer{node, results})
	if e.left.Add(-1) == 0 {
		e.ctx.End()
	}
}

// send sends an errand. It does not wait.
func (c *courier) send(e *errand) {
	c.flights.begin() // before any errand joins that goroutine
	if c.add(e) {
		go c.leave()
		return
	}
	c.flights.done()
}

// add puts an errand into the queue. It reports whether the queue was empty.
func (c *courier) add(e *errand) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first != nil {
		c.more = append(c.more, e)
		return false
	}
	c.first = e
	return true
}

// take empties the queue.
func (c *courier) take() (first *errand, more []*errand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, more = c.first, c.more
	c.first, c.more = nil, nil
	return first, more
}

// leave sends what is in the queue. It lets every goroutine that can run join first.
func (c *courier) leave() {
	defer c.flights.done()
	runtime.Gosched()
	first, more := c.take()
	if len(more) == 0 {
		first.answered(c.number, c.node.Eval(first.ctx, first.calls...))
		return
	}
	calls := slices.Clone(first.calls)
	for _, e := range more {
		calls = append(calls, e.calls...)
	}
	ctx := batch.WithLimit(context.Background(), c.timeout)
	defer ctx.End()
	results := c.node.Eval(ctx, calls...)
	n := len(first.calls)
	first.answered(c.number, results[:n:n])
	for _, e := range more {
		results = results[n:]
		n = len(e.calls)
		e.answered(c.number, results[:n:n])
	}
}
