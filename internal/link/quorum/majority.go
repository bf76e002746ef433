package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/conn"
)

// polls has the answers of the nodes to a batch of calls, for a caller that waits for the verdicts.
// The votes of an acquisition are counted in engine/ballot/tally.go.
type polls struct {
	addresses []string
	settled   chan struct{} // has room for one: nothing is left to wait for

	mu   sync.Mutex // guards what is below
	each []poll     // by call
	left int        // nodes that have not answered
	told bool       // the caller has been told, or has left
}

// add counts the answer of a node, unless the caller has what it waits for.
func (p *polls) add(a Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told {
		return
	}
	p.left--
	open := false
	for i, r := range a.Results {
		p.each[i].add(a.Node, r)
		if !open {
			_, ok := p.each[i].verdict()
			open = !ok
		}
	}
	if !open || p.left == 0 {
		p.told = true
		p.settled <- struct{}{}
	}
}

// results returns the verdicts. err is the error of the caller's context if that ended first.
func (p *polls) results(err error) []conn.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = true
	results := make([]conn.Result, len(p.each))
	for i := range p.each {
		r, ok := p.each[i].verdict()
		if !ok {
			r = conn.Result{Err: p.each[i].undecided(p.addresses, err)}
		}
		results[i] = r
	}
	return results
}

// poll has the answers of the nodes to one call.
type poll struct {
	size, majority int
	nodes          []int // that answered, in this order
	results        []conn.Result
}

func (p *poll) add(node int, r conn.Result) {
	p.nodes, p.results = append(p.nodes, node), append(p.results, r)
}

// verdict returns what a majority answered, if a majority agrees. If a script answers with a
// number, a positive one means yes, whatever it counts. No is the verdict as soon as a majority can
// no longer say yes.
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

// equal reports whether two nodes said the same, or refused with the same error code.
func equal(a, b conn.Result) bool {
	if a.Err == nil && b.Err == nil {
		return sameReply(a.Reply, b.Reply)
	}
	var x, y *conn.ReplyError
	return errors.As(a.Err, &x) && errors.As(b.Err, &y) && x.Code() == y.Code()
}

func sameReply(a, b conn.Reply) bool {
	return a.Int == b.Int && a.Text == b.Text && a.Nil == b.Nil && (a.List == nil) == (b.List == nil) &&
		slices.EqualFunc(a.List, b.List, sameReply)
}

// undecided returns the error of a call that no majority settled. It says what each node, by its
// address, answered. err is the error of the caller's context if that ended before all nodes had
// answered.
func (p *poll) undecided(addresses []string, err error) error {
	said := make([]string, len(addresses))
	for i, addr := range addresses {
		said[i] = addr + " was not waited for"
	}
	for i, r := range p.results {
		said[p.nodes[i]] = addresses[p.nodes[i]] + told(r)
	}
	all := strings.Join(said, "; ")
	if err != nil {
		return fmt.Errorf("%w; %s", err, all)
	}
	// Not wrapped: what one node said is not what the quorum says.
	return fmt.Errorf("no majority of the %d nodes said the same: %s", p.size, all)
}

// told returns what a node said, as a part of an error text.
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
