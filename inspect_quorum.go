package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// inspectAll is inspect over a quorum: what a majority of the nodes knows.
func (c *Client) inspectAll(ctx context.Context, name string) (LockInfo, *latch, error) {
	type outcome struct {
		node  int
		info  LockInfo
		latch *latch
		err   error
	}
	nodes := c.nodes()
	outcomes := make(chan outcome, len(nodes))
	for i, node := range nodes {
		c.quorum.Go(func() {
			info, l, err := c.inspectAt(ctx, node, name)
			outcomes <- outcome{i, info, l, err}
		})
	}
	views := make(map[string][]LockInfo) // by what the name is used for there
	latches := make(map[string]*latch)
	failed, stands := 0, make([]error, len(nodes))
	for range nodes {
		o := <-outcomes
		if stands[o.node] = o.err; o.err != nil {
			failed++
			continue
		}
		stands[o.node] = fmt.Errorf("%s answered", nodes[o.node].Target().Addr)
		use := cmp.Or(o.info.Kind, o.info.RedisType)
		views[use], latches[use] = append(views[use], o.info), o.latch
	}
	if answered := len(nodes) - failed; answered < c.quorum.Majority() {
		return LockInfo{}, nil, fmt.Errorf("redlatch: inspect %q: %d of %d nodes answered: %w",
			name, answered, len(nodes), join(stands...))
	}
	kind := ""
	for k, v := range views {
		if len(v) > len(views[kind]) || len(v) == len(views[kind]) && k > kind {
			kind = k
		}
	}
	return c.merge(views[kind]), latches[kind], nil
}

// merge returns what a majority of the nodes agrees on: the holders inside at so many of them, for as long as so many say; and all waiters. A client that any node has
// heard of is not believed dead.
func (c *Client) merge(views []LockInfo) LockInfo {
	info := views[0]
	info.Holders, info.Waiters, info.Token, info.Remaining = nil, nil, 0, 0
	holders, waiters := make(map[string][]Holder), make(map[string][]Waiter)
	for _, v := range views {
		info.Token = max(info.Token, v.Token)
		for _, p := range v.Holders {
			holders[p.Owner] = append(holders[p.Owner], p)
		}
		for _, p := range v.Waiters {
			waiters[p.Owner] = append(waiters[p.Owner], p)
		}
	}
	for _, votes := range holders {
		if len(votes) < c.quorum.Majority() {
			continue
		}
		longest := func(a, b Holder) int { return cmp.Compare(b.Remaining, a.Remaining) }
		slices.SortFunc(votes, longest)
		p := votes[c.quorum.Majority()-1]
		tokens := make(map[int64]int)
		for _, v := range votes {
			tokens[v.Token]++
			p.Process = cmp.Or(p.Process, v.Process)
			p.LastSeen, p.Dead = later(p.LastSeen, v.LastSeen), p.Dead && v.Dead
		}
		for token, n := range tokens { // a node that was late may have counted further
			if n >= c.quorum.Majority() {
				p.Token = token
			}
		}
		info.Holders = append(info.Holders, p)
		info.Remaining = max(info.Remaining, p.Remaining)
	}
	for _, votes := range waiters {
		slices.SortFunc(votes, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
		p := votes[0]
		for _, v := range votes {
			p.Process = cmp.Or(p.Process, v.Process)
			p.LastSeen, p.Dead = later(p.LastSeen, v.LastSeen), p.Dead && v.Dead
		}
		info.Waiters = append(info.Waiters, p)
	}
	slices.SortFunc(info.Holders, func(a, b Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	slices.SortFunc(info.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	return info
}
