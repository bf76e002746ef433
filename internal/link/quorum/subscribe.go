package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// retry is the time between two attempts to subscribe to a node.
const retry = 500 * time.Millisecond

// errDeaf is why a subscription ended: too few of its nodes were left.
var errDeaf = errors.New("no majority of the nodes is heard any more")

// Subscribe implements [conn.Conn]. A quorum is heard while a majority of its nodes is: a release
// takes effect at a majority, and so at one or more nodes that are heard. With fewer, every message
// may be missed, and a client that counts on hearing it would wait in vain. With more, nothing is
// gained.
//
// So Subscribe calls up when a majority is first heard. When, after that, a majority is no longer
// heard, it ends, also at the nodes that still are, and the caller subscribes again. If the
// subscription to a node fails at any other time, that node is tried again.
func (q *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	e := &earshot{majority: q.Majority(), up: up, message: message, end: end}
	var nodes sync.WaitGroup
	for _, node := range q.nodes {
		nodes.Go(func() { e.follow(ctx, node, channel) })
	}
	nodes.Wait()
	return context.Cause(ctx)
}

// earshot is the nodes that are heard on one channel. One node at a time calls up or message.
type earshot struct {
	majority int
	up       func()
	message  func(string)
	end      context.CancelCauseFunc

	mu     sync.Mutex // guards what is below
	heard  int        // nodes
	enough bool       // a majority was heard
}

// follow listens to one node until ctx is done.
func (e *earshot) follow(ctx context.Context, node conn.Conn, channel string) {
	for ctx.Err() == nil {
		e.listen(ctx, node, channel)
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

// listen listens to one node once. Calls that come after it has ended are ignored. Why it ended
// does not matter: the node is tried again, and a waiter does not depend on what it hears.
func (e *earshot) listen(ctx context.Context, node conn.Conn, channel string) {
	up, over := false, false // guarded by e.mu
	_ = node.Subscribe(ctx, channel, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !up && !over {
			up = true
			e.gain()
		}
	}, func(payload string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !over {
			e.message(payload)
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	if over = true; up {
		e.lose()
	}
}

// gain notes that a node is heard. The caller holds e.mu.
func (e *earshot) gain() {
	if e.heard++; e.heard == e.majority && !e.enough {
		e.enough = true
		e.up()
	}
}

// lose notes that a node is not heard any more. The caller holds e.mu.
func (e *earshot) lose() {
	if e.heard--; e.heard < e.majority && e.enough {
		e.end(errDeaf)
	}
}
