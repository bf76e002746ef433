package redlatch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/script"
)

// wire is how the requests of many goroutines reach one server. A request that finds few others under way leaves at once. Beyond that it
// leaves together with those of all goroutines that can run at that moment. So the busier a client is, the less each of its requests costs.
//
// It is tempting to let requests wait for company for a while, or for one that is under way to come back. Either is time that a server far
// away would add to each of them.
type wire struct {
	alone int // how many requests leave by themselves; does not change

	mu      sync.Mutex // guards what is below
	flights int        // under way
	queue   []*letter  // about to leave together
	idle    *sync.Cond // nothing is under way, or about to be
}

// How many requests leave by themselves: as many as make up for what a batch costs, which is that client and Redis take turns.
const (
	maxAlone          = 2
	maxAlonePipelined = 16 // where they cost no more system calls than a batch
)

// letter is a request that waits, and then its outcome.
type letter struct {
	call conn.Call
	outcome
	back chan struct{} // with room for one
	left bool          // nobody waits for it any more; guarded by the wire's mu
}

// outcome is the result of a request.
type outcome struct {
	conn.Result
	sent  clock.Reading // before it left
	twice bool          // it may have taken place before the request that was answered
}

var letters = sync.Pool{New: func() any { return &letter{back: make(chan struct{}, 1)} }}

// post sends one request, and returns when it is answered or ctx is done.
func (c *Client) post(ctx context.Context, call conn.Call) outcome {
	w := &c.wire
	w.mu.Lock()
	if w.flights < w.alone {
		w.flights++
		w.mu.Unlock()
		defer w.landed()
		return c.send(ctx, c.conn, call)
	}
	l := letters.Get().(*letter)
	l.call = call
	w.queue = append(w.queue, l)
	first := len(w.queue) == 1
	w.mu.Unlock()
	if first {
		go c.fly() // ends with the request timeout
	}
	select {
	case <-l.back:
		o := l.outcome
		*l = letter{back: l.back}
		letters.Put(l)
		return o
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		l.left = true
		if i := slices.Index(w.queue, l); i >= 0 {
			w.queue = slices.Delete(w.queue, i, i+1)
		}
		return outcome{Result: conn.Result{Err: ctx.Err()}, sent: c.now()}
	}
}

// send sends one request by itself.
func (c *Client) send(ctx context.Context, node conn.Conn, call conn.Call) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout/3)
	defer cancel()
	sent := c.now()
	return outcome{Result: node.Eval(ctx, call)[0], sent: sent}
}

// fly sends the queue, once every goroutine that could run has had its turn to join.
func (c *Client) fly() {
	runtime.Gosched()
	w := &c.wire
	w.mu.Lock()
	batch := w.queue
	w.queue = nil
	w.flights++
	w.mu.Unlock()
	defer w.landed()
	if len(batch) == 0 { // they have left again
		return
	}
	calls := make([]conn.Call, 0, len(batch))
	for _, l := range batch {
		calls = append(calls, l.call)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.options.RequestTimeout/3)
	outcomes := c.sendAll(ctx, calls, func(i int) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !batch[i].left
	})
	cancel()
	for i, l := range batch {
		l.outcome = outcomes[i]
		l.back <- struct{}{}
	}
}

// landed ends a flight.
func (w *wire) landed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flights--; w.flights == 0 && len(w.queue) == 0 {
		w.idle.Broadcast()
	}
}

// rest returns when nothing is under way.
func (w *wire) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.flights > 0 || len(w.queue) > 0 {
		w.idle.Wait()
	}
}

// maxBundle is how many mutexes one script takes, to keep it short: Redis does nothing else meanwhile.
const maxBundle = 64

// sendAll sends requests in one pipeline, and those that can go together as bundles. What a bundle leaves undecided is sent by itself, if it is
// wanted still: whoever gave up meanwhile may have released it already.
func (c *Client) sendAll(ctx context.Context, calls []conn.Call, wanted func(i int) bool) []outcome {
	outcomes, sent := make([]outcome, len(calls)), c.now()
	var all []conn.Call
	var members [][]int // which of the calls each of them stands for
	for _, group := range groups(calls) {
		for part := range slices.Chunk(group, maxBundle) {
			members = append(members, part)
			if len(part) == 1 {
				all = append(all, calls[part[0]])
				continue
			}
			together := make([]conn.Call, len(part))
			for i, m := range part {
				together[i] = calls[m]
			}
			all = append(all, script.Bundle(together))
		}
	}
	var alone []int
	for i, r := range c.conn.Eval(ctx, all...) {
		part := members[i]
		if len(part) == 1 {
			outcomes[part[0]] = outcome{Result: r, sent: sent}
			continue
		}
		replies, err := script.Unbundle(r.Reply, len(part))
		if r.Err != nil {
			err = r.Err
		}
		// One that cannot be done stops the others of its bundle, and does not undo them: each is asked by itself.
		refused := errors.As(err, new(*conn.ReplyError))
		for j, m := range part {
			outcomes[m] = outcome{Result: conn.Result{Err: err}, sent: sent, twice: refused}
			if err == nil {
				outcomes[m].Reply = replies[j]
			}
			if (refused || err == nil && replies[j].Int == 0) && wanted(m) {
				alone = append(alone, m)
			}
		}
	}
	if len(alone) == 0 {
		return outcomes
	}
	all, sent = all[:0], c.now()
	for _, m := range alone {
		all = append(all, calls[m])
	}
	for i, r := range c.conn.Eval(ctx, all...) {
		outcomes[alone[i]] = outcome{Result: r, sent: sent, twice: outcomes[alone[i]].twice}
	}
	return outcomes
}

// groups is the calls by what can be bundled; the others are groups of one.
func groups(calls []conn.Call) [][]int {
	var all [][]int
	byScript := make(map[*conn.Script]int)
	for i, call := range calls {
		if !script.Bundles(call) {
			all = append(all, []int{i})
			continue
		}
		g, ok := byScript[call.Script]
		if !ok {
			g = len(all)
			byScript[call.Script], all = g, append(all, nil)
		}
		all[g] = append(all[g], i)
	}
	return all
}
