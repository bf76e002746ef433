package quorum

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
)

var _ conn.Conn = (*Conn)(nil)

// Conn is a [conn.Conn] over the nodes of a quorum. It sends a call to all of them and returns when
// a majority has settled it, while the slower ones still answer; each of them gets a limited time.
type Conn struct {
	nodes   []conn.Conn
	timeout time.Duration
	flights flights // requests to single nodes

	// Lost is called for each call to which a node gave no answer, or an error, on a goroutine that
	// Close waits for. Set it before use.
	Lost func(node int, call conn.Call)
}

// New is the connection to these nodes, each of which has that long for an answer.
func New(nodes []conn.Conn, timeout time.Duration) *Conn {
	return &Conn{nodes: nodes, timeout: timeout}
}

// Nodes is the connection to each node.
func (q *Conn) Nodes() []conn.Conn { return q.nodes }

// Timeout is how long each node has for an answer.
func (q *Conn) Timeout() time.Duration { return q.timeout }

// Majority is how many nodes make one.
func (q *Conn) Majority() int { return len(q.nodes)/2 + 1 }

// Answer is what one node said to a batch of calls.
type Answer struct {
	Node    int
	Results []conn.Result
}

// Each sends the calls to every node at once and returns the channel of their answers, one from
// each, in the order in which they come. The requests outlive ctx: they are sent also if the caller
// stops listening early.
func (q *Conn) Each(ctx context.Context, calls ...conn.Call) <-chan Answer {
	calls = slices.Clone(calls) // the caller's, and this goes on when the caller does
	answers := make(chan Answer, len(q.nodes))
	for i, node := range q.nodes {
		q.flights.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.timeout)
			defer cancel()
			results := node.Eval(ctx, calls...)
			answers <- Answer{i, results}
			for j, r := range results {
				if r.Err != nil && q.Lost != nil {
					q.Lost(i, calls[j])
				}
			}
		})
	}
	return answers
}

// Go runs f, and Close waits for it; so it must not outlast a node's time by much.
func (q *Conn) Go(f func()) { q.flights.Go(f) }

// Eval implements [conn.Conn].
func (q *Conn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return q.EvalMissing(ctx, nil, calls...)
}

// EvalMissing is Eval. Where a majority said yes to a call, it also tells of each node that said
// no, sooner or later; on a goroutine that Close waits for.
func (q *Conn) EvalMissing(ctx context.Context, missing func(node, call int), calls ...conn.Call) []conn.Result {
	if len(calls) == 0 {
		return nil
	}
	answers := q.Each(ctx, calls...)
	polls := make([]poll, len(calls))
	for i := range polls {
		polls[i] = poll{size: len(q.nodes), majority: q.Majority()}
	}
	var all []Answer
	for len(all) < len(q.nodes) && !settled(polls) {
		select {
		case a := <-answers:
			all = append(all, a)
			for i, r := range a.Results {
				polls[i].add(a.Node, r)
			}
		case <-ctx.Done():
			return q.results(polls, ctx.Err())
		}
	}
	results := q.results(polls, nil)
	if missing != nil {
		q.Go(func() {
			for len(all) < len(q.nodes) {
				all = append(all, <-answers)
			}
			for i, r := range results {
				for _, a := range all {
					if yes(r) && no(a.Results[i]) {
						missing(a.Node, i)
					}
				}
			}
		})
	}
	return results
}

func (q *Conn) results(polls []poll, err error) []conn.Result {
	results := make([]conn.Result, len(polls))
	for i := range polls {
		r, ok := polls[i].verdict()
		if !ok {
			r = conn.Result{Err: polls[i].undecided(q.addrs(), err)}
		}
		results[i] = r
	}
	return results
}

// Scan implements [conn.Conn]: every key of a majority of the nodes, and more.
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
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", node.Target().Addr, err))
		}
	}
	if len(q.nodes)-len(failed) < q.Majority() {
		return fmt.Errorf("%d of %d nodes could not be searched: %w",
			len(failed), len(q.nodes), oneLine(failed))
	}
	return nil
}

// oneLine is errors that came together, told on one line.
type oneLine []error

func (e oneLine) Error() string {
	all := make([]string, len(e))
	for i, err := range e {
		all[i] = err.Error()
	}
	return strings.Join(all, "; ")
}

func (e oneLine) Unwrap() []error { return e }

// Target implements [conn.Conn].
func (q *Conn) Target() conn.Target { return conn.Target{Addr: strings.Join(q.addrs(), ",")} }

func (q *Conn) addrs() []string {
	addrs := make([]string, len(q.nodes))
	for i, node := range q.nodes {
		addrs[i] = node.Target().Addr
	}
	return addrs
}

// Wait returns when no request is under way.
func (q *Conn) Wait() { q.flights.Wait() }

// Close implements [conn.Conn].
func (q *Conn) Close() error {
	q.Wait()
	var failed []error
	for _, node := range q.nodes {
		failed = append(failed, node.Close())
	}
	return errors.Join(failed...)
}

// poll is how the nodes answered one call.
type poll struct {
	size, majority int
	nodes          []int // that answered, in this order
	results        []conn.Result
}

func (p *poll) add(node int, r conn.Result) {
	p.nodes, p.results = append(p.nodes, node), append(p.results, r)
}

func settled(polls []poll) bool {
	return !slices.ContainsFunc(polls, func(p poll) bool {
		_, ok := p.verdict()
		return !ok
	})
}

// verdict is what a majority answered, if there is such a thing. To a script that answers a number,
// yes is a positive one, whatever it counts; and no is an answer as soon as yes cannot be one any
// more.
func (p *poll) verdict() (conn.Result, bool) {
	var ayes, noes int
	for i, r := range p.results {
		if yes(r) {
			ayes++
		}
		if no(r) {
			noes++
		}
		if ayes == p.majority || noes == p.majority || noes > p.size-p.majority && no(r) {
			return r, true
		}
		same := 0
		for _, other := range p.results[:i+1] {
			if equal(r, other) {
				same++
			}
		}
		if same == p.majority {
			return r, true
		}
	}
	return conn.Result{}, false
}

func yes(r conn.Result) bool { return r.Err == nil && r.Reply.Int > 0 }

func no(r conn.Result) bool {
	return r.Err == nil && r.Reply.Int <= 0 && r.Reply.Text == "" && r.Reply.List == nil && !r.Reply.Nil
}

// equal reports whether two nodes said the same, also in refusing.
func equal(a, b conn.Result) bool {
	var x, y *conn.ReplyError
	if errors.As(a.Err, &x) && errors.As(b.Err, &y) {
		return x.Code() == y.Code()
	}
	return a.Err == nil && b.Err == nil && reflect.DeepEqual(a.Reply, b.Reply)
}

// undecided is the error of a call that no majority settled. It tells of each node, by its address,
// what it said. err is that of the caller's context, if that was over before all nodes had
// answered.
func (p *poll) undecided(addrs []string, err error) error {
	said := make([]string, len(addrs))
	for i, addr := range addrs {
		said[i] = addr + " was not waited for"
	}
	for i, r := range p.results {
		said[p.nodes[i]] = addrs[p.nodes[i]] + told(r)
	}
	all := strings.Join(said, "; ")
	if err != nil {
		return fmt.Errorf("%w; %s", err, all)
	}
	// Not wrapped: what one node said is not what the quorum says.
	return fmt.Errorf("no majority of the %d nodes said the same: %s", p.size, all)
}

// told is what a node said, in the words of an error.
func told(r conn.Result) string {
	switch {
	case r.Err != nil:
		return ": " + r.Err.Error()
	case yes(r):
		return " said yes"
	case no(r):
		return " said no"
	}
	return " said something else"
}
