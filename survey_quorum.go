package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/ask"
)

// lookAtMost is lookAll over a quorum: what a majority of the nodes knows.
func (s *survey) lookAtMost(ctx context.Context, names []string, met acquaintances) []view {
	nodes := s.asker.Nodes()
	seen := make([][]view, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Add(1)
		s.quorum.Go(func() {
			defer asking.Done()
			seen[i] = s.lookAt(ctx, node, names, met.at(i))
		})
	}
	asking.Wait()
	views := make([]view, len(names))
	for i, name := range names {
		of := make([]view, len(nodes))
		for n := range nodes {
			of[n] = seen[n][i]
		}
		views[i] = s.agreed(name, of)
	}
	return views
}

// agreed is what a majority of the nodes knows of a name, given what each of them knows.
func (s *survey) agreed(name string, seen []view) view {
	views := make(map[string][]LockInfo) // by what the name is used for there
	about := make(map[string]ask.Subject)
	failed, stands := 0, make([]error, len(seen))
	for i, v := range seen {
		if stands[i] = v.err; v.err != nil {
			failed++
			continue
		}
		stands[i] = fmt.Errorf("%s answered", s.asker.Nodes()[i].Target().Addr)
		use := cmp.Or(v.info.Kind, v.info.RedisType)
		views[use], about[use] = append(views[use], v.info), v.about
	}
	if answered := len(seen) - failed; answered < s.quorum.Majority() {
		return view{err: fmt.Errorf("redlatch: inspect %q: %d of %d nodes answered: %w", name, answered, len(seen), fault.Join(stands...))}
	}
	most := ""
	for use, v := range views {
		if len(v) > len(views[most]) || len(v) == len(views[most]) && use > most {
			most = use
		}
	}
	return view{info: merge(views[most], s.quorum.Majority()), about: about[most]}
}

// merge returns what a majority of the nodes agrees on: the holders inside at so many of them, for
// as long as so many say; and all waiters. A client that any node has heard of is not believed
// dead.
func merge(views []LockInfo, majority int) LockInfo {
	info := views[0]
	info.Holders, info.Waiters, info.Token, info.Remaining = nil, nil, 0, 0
	info.Forced = nil
	holders, waiters := make(map[string][]Holder), make(map[string][]Waiter)
	for _, v := range views {
		info.Token = max(info.Token, v.Token)
		if f := v.Forced; f != nil && (info.Forced == nil || f.At.After(info.Forced.At)) {
			info.Forced = f
		}
		for _, p := range v.Holders {
			holders[p.Owner] = append(holders[p.Owner], p)
		}
		for _, p := range v.Waiters {
			waiters[p.Owner] = append(waiters[p.Owner], p)
		}
	}
	for _, votes := range holders {
		if len(votes) < majority {
			continue
		}
		longest := func(a, b Holder) int { return cmp.Compare(b.Remaining, a.Remaining) }
		slices.SortFunc(votes, longest)
		p := votes[majority-1]
		tokens := make(map[int64]int)
		for _, v := range votes {
			tokens[v.Token]++
			p.Process = cmp.Or(p.Process, v.Process)
			p.LastSeen, p.Dead = later(p.LastSeen, v.LastSeen), p.Dead && v.Dead
			p.Labels = merged(p.Labels, v.Labels)
		}
		for token, n := range tokens { // a node that was late may have counted further
			if n >= majority {
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
			p.Labels = merged(p.Labels, v.Labels)
			if len(p.Holds) == 0 {
				p.Holds = v.Holds
			}
		}
		info.Waiters = append(info.Waiters, p)
	}
	slices.SortFunc(info.Holders, func(a, b Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	slices.SortFunc(info.Waiters, func(a, b Waiter) int { return a.Since.Compare(b.Since) })
	return info
}
