package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/batch"
)

var _ conn.Conn = (*Conn)(nil)

// Conn is a [conn.Conn] over the nodes of a quorum. It sends a call to all of them and returns when
// a majority has settled it, while slower nodes may still answer, each within a time limit.
type Conn struct {
	nodes     []conn.Conn
	addresses []string
	timeout   time.Duration
	flights   flights // requests to single nodes
	couriers  []courier
}

// New returns a connection to these nodes, each of which has that long to answer.
func New(nodes []conn.Conn, timeout time.Duration) *Conn {
	q := &Conn{nodes: nodes, timeout: timeout, couriers: make([]courier, len(nodes))}
	for i, node := range nodes {
		q.addresses = append(q.addresses, node.Target().Addr)
		c := &q.couriers[i]
		c.node, c.number, c.timeout, c.flights = node, i, timeout, &q.flights
	}
	return q
}

// Nodes returns the connection to each node.
func (q *Conn) Nodes() []conn.Conn { return q.nodes }

// Timeout returns how long each node has to answer.
func (q *Conn) Timeout() time.Duration { return q.timeout }

// Majority returns how many nodes are a majority.
func (q *Conn) Majority() int { return len(q.nodes)/2 + 1 }

// Send sends the calls to every node at once. It calls heard with each answer as it comes, on
// goroutines that Close waits for. These may call heard at the same time, and heard must not block.
// The requests outlive ctx: they are sent even if the caller stops listening early. The caller must
// not change the calls or what is in them.
func (q *Conn) Send(ctx context.Context, heard func(Answer), calls ...conn.Call) {
	e := &errand{ctx: batch.WithLimit(context.WithoutCancel(ctx), q.timeout), calls: calls, heard: heard}
	e.left.Store(int32(len(q.nodes)))
	for i := range q.couriers {
		q.couriers[i].send(e)
	}
}

// Each is Send, and returns a channel that gets one answer from each node.
func (q *Conn) Each(ctx context.Context, calls ...conn.Call) <-chan Answer {
	answers := make(chan Answer, len(q.nodes))
	q.Send(ctx, func(a Answer) { answers <- a }, calls...)
	return answers
}

// Go runs f on a goroutine that Close waits for, so f must not outlast a node's timeout by much.
func (q *Conn) Go(f func()) { q.flights.Go(f) }

// Eval implements [conn.Conn].
func (q *Conn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return q.EvalHearing(ctx, nil, calls...)
}

// EvalHearing is Eval. It calls heard with the answer of each node, as Send does, even after it has
// returned.
func (q *Conn) EvalHearing(ctx context.Context, heard func(Answer), calls ...conn.Call) []conn.Result {
	if len(calls) == 0 {
		return nil
	}
	calls = slices.Clone(calls) // the slice is the caller's, and the requests may outlive this call
	p := q.newPolls(len(calls))
	q.Send(ctx, func(a Answer) {
		p.add(a)
		if heard != nil {
			heard(a)
		}
	}, calls...)
	select {
	case <-p.settled:
		return p.results(nil)
	case <-ctx.Done():
		return p.results(ctx.Err())
	}
}

// newPolls returns the polls of that many calls, which no node has answered yet.
func (q *Conn) newPolls(calls int) *polls {
	p := &polls{addresses: q.addresses, settled: make(chan struct{}, 1), each: make([]poll, calls), left: len(q.nodes)}
	for i := range p.each {
		p.each[i] = poll{
			size: len(q.nodes), majority: q.Majority(),
			nodes: make([]int, 0, len(q.nodes)), results: make([]conn.Result, 0, len(q.nodes)),
		}
	}
	return p
}

// EvalMissing is Eval. If a majority said yes to a call, it also calls missing, sooner or later,
// for each node that said no, on a goroutine that Close waits for.
func (q *Conn) EvalMissing(ctx context.Context, missing func(node, call int), calls ...conn.Call) []conn.Result {
	var mu sync.Mutex // guards all
	var all []Answer
	return q.EvalHearing(ctx, func(a Answer) {
		mu.Lock()
		all = append(all, a)
		last := len(all) == len(q.nodes)
		mu.Unlock()
		if last {
			q.tellMissing(all, missing)
		}
	}, calls...)
}

// tellMissing calls missing for the nodes that EvalMissing reports, if there are any.
func (q *Conn) tellMissing(all []Answer, missing func(node, call int)) {
	type place struct{ node, call int }
	var places []place
	for i := range all[0].Results {
		ayes := 0
		for _, a := range all {
			if yes(a.Results[i]) {
				ayes++
			}
		}
		for _, a := range all {
			if ayes >= q.Majority() && no(a.Results[i]) {
				places = append(places, place{a.Node, i})
			}
		}
	}
	if len(places) > 0 {
		q.Go(func() {
			for _, at := range places {
				missing(at.node, at.call)
			}
		})
	}
}

// Scan implements [conn.Conn]. It finds every key that a majority of the nodes has, and others.
func (q *Conn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	var failed []error
	for _, node := range q.nodes {
		over := false
		err := node.Scan(ctx, pattern, func(key string) error {
			err := each(key)
			over = err != nil
			return err
		})
		if over || ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", node.Target().Addr, err))
		}
	}
	if len(q.nodes)-len(failed) < q.Majority() {
		return fmt.Errorf("%d of %d nodes could not be searched: %w",
			len(failed), len(q.nodes), fault.Join(failed...))
	}
	return nil
}

// Target implements [conn.Conn].
func (q *Conn) Target() conn.Target { return conn.Target{Addr: strings.Join(q.addresses, ",")} }

// Wait returns when no request is under way.
func (q *Conn) Wait() { q.flights.Wait() }

// Close implements [conn.Conn]. It closes all nodes at once: a node that is slow to close does not
// keep the others open.
func (q *Conn) Close() error {
	q.Wait()
	failed := make([]error, len(q.nodes))
	var all sync.WaitGroup
	for i, node := range q.nodes {
		all.Go(func() { failed[i] = node.Close() })
	}
	all.Wait()
	return errors.Join(failed...)
}
