package redlatchtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

var (
	_ conn.Conn       = (*memoryConn)(nil)
	_ conn.Replicated = (*memoryConn)(nil)
)

// memoryConn is a connection to a [Memory]. The caller of a request does not wait for its answer once
// its context is done.
type memoryConn struct {
	memory *Memory

	mu     sync.Mutex // guards what is below
	cut    bool
	closed bool
	ears   map[*ear]*memory.Subscription
}

// ear is one subscription: the messages that have arrived, and whether it has ended.
type ear struct {
	arrived chan struct{} // has room for one: something below has changed

	mu       sync.Mutex // guards what is below
	messages []string
	ended    bool
}

var errEnded = errors.New("the connection is closed")

// Eval implements [conn.Conn].
func (c *memoryConn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	calls = slices.Clone(calls) // the request may outlast the call, and calls is the caller's
	var results []conn.Result
	if err := c.ask(ctx, func(s *memory.Server) { results, _ = s.Eval(calls...) }); err != nil {
		return slices.Repeat([]conn.Result{{Err: err}}, len(calls))
	}
	return results
}

// EvalReplicated implements [conn.Replicated], as if all replicas acknowledged at once.
func (c *memoryConn) EvalReplicated(ctx context.Context, call conn.Call, n int, _ time.Duration) (conn.Result, int) {
	return c.Eval(ctx, call)[0], n
}

// Scan implements [conn.Conn].
func (c *memoryConn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	var keys []string
	if err := c.ask(ctx, func(s *memory.Server) { keys = s.Keys(pattern) }); err != nil {
		return err
	}
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return nil
}

// Target implements [conn.Conn].
func (c *memoryConn) Target() conn.Target { return conn.Target{Addr: c.memory.addr, Pipelined: true} }

// Close implements [conn.Conn].
func (c *memoryConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.endSubscriptions()
	return nil
}

// ask has the server do what is asked, and returns when the answer is there or ctx is done.
func (c *memoryConn) ask(ctx context.Context, request func(*memory.Server)) error {
	cut, closed := c.state()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case closed:
		return errEnded
	}
	answered := make(chan struct{})
	if !cut {
		taken, delay := c.memory.take(request)
		go c.answer(taken, delay, answered)
	}
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.memory.ended:
		return errEnded
	}
}

// answer lets the caller of a request go on, that much later than the server has taken it.
func (c *memoryConn) answer(taken <-chan struct{}, delay time.Duration, answered chan<- struct{}) {
	select {
	case <-taken:
	case <-c.memory.ended:
		return
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-c.memory.ended:
			return
		}
	}
	if cut, _ := c.state(); !cut {
		close(answered)
	}
}

// Subscribe implements [conn.Conn].
func (c *memoryConn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	select {
	case <-c.memory.awake():
	case <-ctx.Done():
		return ctx.Err()
	case <-c.memory.ended:
		return errEnded
	}
	e, hangUp, err := c.listen(channel)
	if err != nil {
		return err
	}
	defer hangUp()
	up()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.arrived:
		}
		messages, ended := e.take()
		for _, payload := range messages {
			message(payload)
		}
		if ended {
			return errors.New("the subscription ended: the connection was lost")
		}
	}
}

// listen returns a new subscription, and what ends it.
func (c *memoryConn) listen(channel string) (e *ear, hangUp func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.closed {
		return nil, nil, errEnded
	}
	e = &ear{arrived: make(chan struct{}, 1)}
	sub := c.memory.server.Subscribe(channel, func(payload string) {
		e.change(func() { e.messages = append(e.messages, payload) })
	})
	if c.ears == nil {
		c.ears = make(map[*ear]*memory.Subscription)
	}
	c.ears[e] = sub
	return e, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ears, e)
		c.memory.server.Unsubscribe(sub)
	}, nil
}

// change changes the subscription, and tells its listener.
func (e *ear) change(what func()) {
	e.mu.Lock()
	what()
	e.mu.Unlock()
	select {
	case e.arrived <- struct{}{}:
	default:
	}
}

// take returns what has arrived since it was called last.
func (e *ear) take() (messages []string, ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	messages, e.messages = e.messages, nil
	return messages, e.ended
}

// endSubscriptions ends all subscriptions. The server has forgotten them when it returns.
func (c *memoryConn) endSubscriptions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e, sub := range c.ears {
		c.memory.server.Unsubscribe(sub)
		e.change(func() { e.ended = true })
	}
	clear(c.ears)
}

// set cuts the connection, or mends it.
func (c *memoryConn) set(cut bool) {
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
	if cut {
		c.endSubscriptions()
	}
}

func (c *memoryConn) state() (cut, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut, c.closed
}
