package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// each calls f for every node of the quorum at the same time, and returns when all have ended.
func (s *Survey) each(f func(i int, node conn.Conn)) {
	var asking sync.WaitGroup
	for i, node := range s.Asker.Nodes() {
		asking.Add(1)
		s.Quorum.Go(func() {
			defer asking.Done()
			f(i, node)
		})
	}
	asking.Wait()
}

// lookAtMost is lookAll over a quorum: what a majority of the nodes knows.
func (s *Survey) lookAtMost(ctx context.Context, names []string, met acquaintances) []Picture {
	seen := make([][]Picture, len(s.Asker.Nodes()))
	s.each(func(i int, node conn.Conn) { seen[i] = s.lookAt(ctx, node, names, met.at(i)) })
	votes := sync.OnceValue(func() []Node { // after the look: a node that votes by now had forgotten nothing
		nodes := make([]Node, len(seen))
		s.each(func(i int, node conn.Conn) {
			if slices.ContainsFunc(seen[i], func(p Picture) bool { return p.err == nil }) {
				nodes[i] = s.node(ctx, node)
			}
		})
		return nodes
	})
	all := make([]Picture, len(names))
	for i, name := range names {
		of := make([]Picture, len(seen))
		for n := range seen {
			of[n] = seen[n][i]
		}
		all[i] = s.agreed(name, of, votes)
	}
	return all
}

// agreed returns what a majority of the nodes knows of a name, given what each of them knows. It
// asks for their votes if a holder may be missing.
func (s *Survey) agreed(name string, seen []Picture, votes func() []Node) Picture {
	by := make(map[string][]Picture) // by what the name is used for there
	failed, stands := 0, make([]error, len(seen))
	for i, p := range seen {
		if stands[i] = p.err; p.err != nil {
			failed++
			continue
		}
		stands[i] = fmt.Errorf("%s answered", s.Asker.Nodes()[i].Target().Addr)
		by[p.Use()] = append(by[p.Use()], p)
	}
	answered, majority := len(seen)-failed, s.Quorum.Majority()
	untold := func() error {
		return fmt.Errorf("redlatch: inspect %q: %w by enough nodes: %w", name, fault.ErrUnreachable, fault.Join(stands...))
	}
	if answered < majority {
		return Picture{Subject: seen[0].Subject, err: untold()} // which List shows
	}
	most := ""
	for use, p := range by {
		if use != "" && (most == "" || len(p) > len(by[most]) || len(p) == len(by[most]) && use > most) {
			most = use
		}
	}
	all := merge(by[most], majority)
	atWork := func(h Holder) bool { return !h.Resting } // nodes that voted for several runs all have a window
	if slices.ContainsFunc(all.Holders, atWork) && !all.Kind.Sized() {
		return all // no other owner is inside
	}
	nodes, kinds := votes(), []string{all.Use()}
	switch {
	case all.Lock:
	case s.of != "":
		kinds = []string{s.of}
	default: // it may be in use for any
		kinds = quorate()
	}
	for _, kind := range kinds {
		forgot := forgetful(nodes, kind)
		if !perhaps(seen, forgot, all, majority) {
			continue
		}
		for i, n := range nodes {
			if seen[i].err == nil && forgot[i] {
				stands[i] = n.mute(kind)
			}
		}
		all.Doubt = untold()
		return all
	}
	if len(by[""]) > len(by[most]) {
		return merge(by[""], majority)
	}
	return all
}

// forgetful returns for each node whether it may have forgotten owners of a kind: it was restarted
// or emptied while others were in use, and what it may have forgotten has not run out yet.
func forgetful(nodes []Node, kind string) []bool {
	used := slices.ContainsFunc(nodes, func(n Node) bool { e := n.Votes[kind]; return e.Votes || e.Voted })
	forgot := make([]bool, len(nodes))
	for i, n := range nodes {
		e := n.Votes[kind]
		forgot[i] = n.Err != nil || used && !e.Votes && e.Rest != 0
	}
	return forgot
}

// mute returns the error that a node does not vote for a kind.
func (n *Node) mute(kind string) error {
	if n.Err != nil {
		return n.Err
	}
	text := n.Addr + " was restarted or emptied, and does not vote"
	if rest := n.Votes[kind].Rest; rest > 0 {
		text += fmt.Sprintf(" for another %v", rest.Round(time.Second))
	}
	return errors.New(text)
}

// perhaps reports whether an owner that is none of the holders would be inside at a majority if
// each node that failed or may have forgotten it has it inside, too.
func perhaps(seen []Picture, forgot []bool, all Picture, majority int) bool {
	unknown := 0
	sure := make(map[string]int) // owners: how many of the other nodes tell them
	for i, p := range seen {
		known := 1
		if p.err != nil || forgot[i] {
			known = 0
			unknown++
		}
		for _, h := range p.Holders {
			sure[h.Owner] += known
		}
	}
	for _, h := range all.Holders {
		delete(sure, h.Owner)
	}
	for _, n := range sure {
		if n > 0 && n+unknown >= majority {
			return true
		}
	}
	return unknown >= majority && (len(all.Holders) == 0 || all.Kind.Sized()) // of an owner that no other node tells
}

// merge returns what a majority of the nodes agrees on: the holders inside at that many nodes, for
// as long as that many say; and all waiters.
func merge(seen []Picture, majority int) Picture {
	all := seen[0]
	all.Holders, all.Waiters, all.Token, all.Remaining = nil, nil, 0, 0
	all.Forced, all.Note = "", ""
	holders, waiters := make(map[string][]Holder), make(map[string][]Waiter)
	latest := int64(-1)
	for _, p := range seen {
		p = p.shifted(all.At.Sub(p.At)) // else a clock that is an hour ahead makes a wait an hour longer
		all.Token = max(all.Token, p.Token)
		if at, _, ok := script.ParseNote(p.Note); ok && at > latest {
			latest, all.Forced, all.Note = at, p.Forced, p.Note
		}
		for _, h := range p.Holders {
			holders[h.Owner] = append(holders[h.Owner], h)
		}
		for _, w := range p.Waiters {
			waiters[w.Owner] = append(waiters[w.Owner], w)
		}
	}
	for _, votes := range holders {
		if len(votes) < majority {
			continue
		}
		slices.SortFunc(votes, func(a, b Holder) int { return cmp.Compare(b.Remaining, a.Remaining) })
		h := votes[majority-1]
		tokens := make(map[int64]int)
		for _, v := range votes {
			tokens[v.Token]++
			h.Token = min(h.Token, v.Token) // no larger than the token, which one of these nodes has
			h.hear(v.Party)
		}
		for token, n := range tokens { // a node that was late may have counted further
			if n >= majority {
				h.Token = token
			}
		}
		all.Holders = append(all.Holders, h)
		all.Remaining = max(all.Remaining, h.Remaining)
	}
	for _, votes := range waiters {
		slices.SortFunc(votes, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
		w := votes[0]
		for _, v := range votes {
			w.hear(v.Party)
			if len(w.Holds) == 0 {
				w.Holds = v.Holds
			}
		}
		all.Waiters = append(all.Waiters, w)
	}
	slices.SortFunc(all.Holders, func(a, b Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	slices.SortFunc(all.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	return all
}

// shifted returns a picture with its times on the clock of another node, ahead by that much.
func (p Picture) shifted(by time.Duration) Picture {
	if by == 0 {
		return p
	}
	move := func(q *Party) {
		for _, t := range []*time.Time{&q.Since, &q.LastSeen} {
			if !t.IsZero() {
				*t = t.Add(by)
			}
		}
	}
	p.Holders, p.Waiters = slices.Clone(p.Holders), slices.Clone(p.Waiters)
	for i := range p.Holders {
		move(&p.Holders[i].Party)
	}
	for i := range p.Waiters {
		move(&p.Waiters[i].Party)
	}
	return p
}

// Node is how one node of a quorum stands.
type Node struct {
	Addr  string
	Err   error // why it did not answer
	Took  time.Duration
	Votes map[string]script.Epoch // its right to vote, by kind
}

// Nodes returns how each node of the quorum stands; none if there is no quorum.
func (s *Survey) Nodes(ctx context.Context) []Node {
	if s.Quorum == nil {
		return nil
	}
	all := make([]Node, len(s.Asker.Nodes()))
	s.each(func(i int, node conn.Conn) { all[i] = s.node(ctx, node) })
	return all
}

// quorate returns the kinds of locks that a quorum can hold.
func quorate() (kinds []string) {
	for _, k := range script.Kinds() {
		if k.Quorum() != nil {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// node returns how one node stands.
func (s *Survey) node(ctx context.Context, node conn.Conn) Node {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout/3)
	defer cancel()
	kinds := quorate()
	calls := make([]conn.Call, len(kinds))
	for i, kind := range kinds {
		calls[i] = script.Look(keys.Epoch(s.Prefix, kind))
	}
	start := s.Now()
	results := node.Eval(ctx, calls...)
	n := Node{Addr: node.Target().Addr, Took: s.Now().Since(start), Votes: make(map[string]script.Epoch)}
	for i, r := range results {
		e, err := script.ParseEpoch(r.Reply)
		if err = cmp.Or(r.Err, err); err != nil {
			n.Err, n.Votes = fmt.Errorf("redlatch: ask %s for its vote: %w", n.Addr, fault.Unreached(err)), nil
			break
		}
		n.Votes[kinds[i]] = e
	}
	return n
}
