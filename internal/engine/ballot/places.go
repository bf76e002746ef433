package ballot

import "sync"

// Places is where the ticket of a waiter may be in line. A round ends when its outcome is clear, so
// some nodes answer later. Usually the answer is on its way then, and says that the node has no
// ticket of a waiter that has the latch: it let the waiter in.
type Places struct {
	mu    sync.Mutex
	nodes []place
	last  int    // the number of the last round
	open  int    // rounds of which not all answers have come
	leave func() // what the last of them does; nil if nothing is left to do
}

// place is what is known of the ticket at one node.
type place struct {
	in      bool // the ticket may be in line
	open    int  // requests with the ticket that are not answered yet
	crossed bool // there was such a request when the last round was sent
	lost    bool // a request with the ticket got no answer, and may arrive late
}

// NewPlaces returns the places at so many nodes: none yet.
func NewPlaces(nodes int) *Places { return &Places{nodes: make([]place, nodes)} }

// Asking notes that a round with the ticket is about to be sent. The caller calls asked when its outcome
// is clear, before the round is left to the background, and settle when all answers have come, or their
// time has passed.
func (p *Places) Asking() (asked func(*Tally, *Round) (settle func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	for node := range p.nodes {
		p.nodes[node].crossed = p.nodes[node].open > 0
	}
	return p.asked
}

// asked notes what the nodes have said in the round that was sent last, by its tally so far.
func (p *Places) asked(t *Tally, votes *Round) (settle func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	number := p.last
	later := make([]bool, len(p.nodes))
	for node, v := range t.Votes {
		at := &p.nodes[node]
		if votes.Replaced(node) {
			at.in, at.lost = true, true
		}
		if later[node] = v.Stand() == Unheard; later[node] {
			at.open++
			continue
		}
		at.hear(v.Stand(), true)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for node, late := range later {
			if at := &p.nodes[node]; late {
				at.open--
				at.hear(votes.Votes[node].Stand(), number == p.last)
			}
		}
		if p.open--; p.open == 0 && p.leave != nil {
			p.leave()
		}
	}
}

// hear notes what the node said. last says that it was asked nothing since. A node that lets the
// owner in takes the ticket off its line. One without the right to vote leaves the line alone.
//
// It is tempting to believe that the last round came last. But its request can overtake an earlier
// one, which then puts the ticket back in line, and whose answer can come before that of the last.
func (at *place) hear(s Stand, last bool) {
	switch s {
	case Granted:
		at.in = at.in && (!last || at.crossed)
	case Refused:
		at.in = true
	case Silent, Unheard:
		at.in, at.lost = true, true
	}
}

// Leave calls undo for each node at which the ticket may be, or may arrive. answered says that the
// node has answered all requests with the ticket. A waiter that has the latch is in no hurry: Leave
// may call undo later, when all answers have come.
func (p *Places) Leave(hasLatch bool, undo func(node int, answered bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave = func() {
		p.leave = nil
		for node, at := range p.nodes {
			if at.in || at.lost || at.open > 0 {
				undo(node, !at.lost && at.open == 0)
			}
		}
	}
	if !hasLatch || p.open == 0 {
		p.leave()
	}
}
