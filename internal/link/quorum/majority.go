package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/conn"
)

// polls is how the nodes answered a batch of calls, of which the caller waits for the verdicts. The votes
// of an acquisition are counted in engine/ballot/tally.go.
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

// results returns the verdicts. err is that of the caller's context, if that was over first.
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

// poll is how the nodes answered one call.
type poll struct {
	size, majority int
	nodes          []int // that answered, in this order
	results        []conn.Result
}

func (p *poll) add(node int, r conn.Result) {
	p.nodes, p.results = append(p.nodes, node), append(p.results, r)
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

// undecided is the error of a call that no majority settled. It tells of each node, by its address,
// what it said. err is that of the caller's context, if that was over before all nodes had
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
