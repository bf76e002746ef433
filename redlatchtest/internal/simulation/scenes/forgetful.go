package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file is about nodes of a quorum that forget. A scene has a quorum of its own, so
// that it can do to the nodes what no other actor expects.

// quorum is the servers of a scene's own quorum.
type quorum []*wire.Server

// nodes returns a quorum of nodes that no client has met.
func (a *player) nodes(n int) quorum {
	q := make(quorum, n)
	a.Net.Call(func() {
		for i := range q {
			q[i] = wire.NewServer(a.Net, 10+i)
		}
	})
	return q
}

// founds returns a quorum of n nodes that vote.
func (a *player) founds(n int) quorum {
	q := a.nodes(n)
	p := q.meets(a, lasting(time.Second))
	defer func() { _ = p.Close() }()
	for _, k := range quorumKinds("first") {
		if l, err := k.lock(p.Client, a.Ctx, false); err == nil {
			drop(l)
		}
	}
	return q
}

// meets opens a client of the quorum.
func (q quorum) meets(a *player, changes ...func(*redlatch.Options)) *partner {
	return a.meetsAt(q, world.OpenQuorum, changes)
}

// forgetful has a lock at two of three nodes, of which the first forgets it. That node does not vote
// before the lease is over.
func forgetful(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	if a.Plan.Harm != world.Calm {
		a.Rest(5 * time.Second)
		return
	}
	if a.OneIn(4) {
		a.foundedByTwo()
		return
	}
	nodes := a.founds(3)
	switch a.Random.IntN(3) {
	case 0:
		a.rollingRestart(nodes)
		return
	case 1:
		a.countsOn(nodes)
		return
	}
	old := a.copyOf(nodes[0])
	const ttl = 5 * time.Second
	holder, next := nodes.meets(a, lasting(ttl)), nodes.meets(a, lasting(time.Second))
	defer func() { _ = errors.Join(holder.Close(), next.Close()) }()
	holder.cutsOff(2, time.Minute)
	k := a.kindsOver(a.scene("dead"))
	l, err := k.lock(holder.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a %s at two nodes of three: %v", k.kind, err)
		return
	}
	unknown := a.OneIn(2) // the node that knows how long the lease lasts says so later
	a.Net.Call(func() {
		switch a.Random.IntN(3) {
		case 0:
			nodes[0].Flush()
		case 1:
			nodes[0].Kill()
			nodes[0].Restart(nil)
		default:
			nodes[0].Kill()
			nodes[0].Restart(old)
		}
		if unknown {
			nodes[1].Hang()
			a.Net.After(600*time.Millisecond, nodes[1].Resume)
		}
	})
	for end := time.Now().Add(2 * ttl); time.Now().Before(end) && a.Ctx.Err() == nil; a.Rest(100 * time.Millisecond) {
		second, err := k.lock(next.Client, a.Ctx, false)
		if err != nil {
			continue
		}
		a.Wantf(!l.Held(), "a %s is held twice since a node forgot it, which voted before the lease was over", k.kind)
		drop(second)
		return
	}
	a.Wantf(false, "a %s that a node forgot is not free when its lease is over", k.kind)
}

// evenly has a lock at three of four nodes: a bare majority. A client that hears one of those last
// says that the lock is taken; one that does not hear two nodes, that too few are reached.
func evenly(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	if a.Plan.Harm != world.Calm {
		a.Rest(5 * time.Second)
		return
	}
	nodes := a.founds(4)
	holder, next := nodes.meets(a, patient), nodes.meets(a, patient)
	defer func() { _ = errors.Join(holder.Close(), next.Close()) }()
	holder.cutsOff(3, time.Minute)
	k := quorumKinds(a.scene("dead"))[a.Random.IntN(2)]
	l, err := k.lock(holder.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a %s at three nodes of four: %v", k.kind, err)
		return
	}
	silent, begun := a.OneIn(2), time.Now()
	a.Net.Call(func() {
		last := next.links[2]
		last.Delay.Least, last.Delay.Most = last.Delay.Most, last.Delay.Most+time.Millisecond
		if silent {
			last.Set(wire.Silent, time.Minute)
			next.links[3].Set(wire.Silent, time.Minute)
		}
	})
	second, err := k.lock(next.Client, a.Ctx, false)
	want := redlatch.ErrTaken
	if silent {
		want = redlatch.ErrUnreachable
	}
	a.Wantf(errors.Is(err, want) && (silent || time.Since(begun) < sent/2),
		"a try of a %s that is held at three nodes of four, with silent nodes: %t, says after %v: %v", k.kind, silent, time.Since(begun), err)
	drop(second)
	drop(l)
}

// rollingRestart has all nodes forget, one after the other. A lease that is renewed survives, since
// the nodes are told of it again.
func (a *player) rollingRestart(nodes quorum) {
	const ttl = time.Second
	holder := nodes.meets(a, func(o *redlatch.Options) { o.Lock.TTL = ttl })
	defer func() { _ = holder.Close() }()
	k := a.kindsOver(a.scene("dead"))
	l, err := k.lock(holder.Client, a.Ctx, false)
	if err != nil {
		return
	}
	for i, s := range nodes {
		a.Net.Call(func() {
			s.Kill()
			s.Restart(nil)
		})
		a.Rest(3 * ttl)
		a.Wantf(l.Held(), "a %s is lost when the nodes were restarted one by one, after node %d", k.kind, i)
	}
	drop(l)
}

// foundedByTwo has a client found a quorum, but not reach most nodes when they are to vote. Another
// client founds the rest, and all nodes vote soon.
func (a *player) foundedByTwo() {
	nodes := a.nodes(5)
	founder, next := nodes.meets(a, lasting(time.Second)), nodes.meets(a, lasting(time.Second))
	defer func() { _ = errors.Join(founder.Close(), next.Close()) }()
	a.Net.Call(func() {
		for _, l := range founder.links[2:] {
			for range 40 {
				l.Mishaps = append(l.Mishaps, &wire.Mishap{Text: "epoch seat", How: wire.RequestLost})
			}
		}
	})
	k := a.kindsOver("founded")
	if l, err := k.lock(founder.Client, a.Ctx, false); err == nil {
		drop(l)
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
	defer cancel()
	l, err := k.lock(next.Client, ctx, true)
	a.Wantf(err == nil, "a %s over a quorum that another client has founded in part: %v", k.kind, err)
	a.Rest(time.Second)
	a.Net.Call(func() {
		for i, s := range nodes {
			if s.Do("HEXISTS", "{redlatch:"+k.kind+"}:epoch", "run").Reply.Int != 1 {
				go a.Wantf(false, "node %d of a quorum that two clients have founded does not vote on a %s", i, k.kind)
			}
		}
	})
	drop(l)
}

// countsOn has the node forget that knows the last token with another one. Its clock, and that of the
// node that never knew the token, are behind. The next token is larger all the same.
func (a *player) countsOn(nodes quorum) {
	first, second := nodes.meets(a, lasting(time.Second)), nodes.meets(a, lasting(time.Second))
	defer func() { _ = errors.Join(first.Close(), second.Close()) }()
	first.cutsOff(2, time.Minute)
	name, kind := a.scene("dead"), a.Random.IntN(3)
	k := quorumKinds(name)[kind]
	l, err := k.lock(first.Client, a.Ctx, false)
	if err != nil {
		return
	}
	token := l.Token()
	drop(l)
	a.Net.Call(func() {
		nodes[0].Kill()
		nodes[0].Restart(nil)
		nodes[0].Step, nodes[2].Step = -time.Hour, -time.Hour
	})
	for range 2 { // the node begins its rest, and gets its right to vote again
		a.Net.Call(func() { // no node is told of tokens of others
			for _, l := range second.links {
				for range 4 {
					l.Mishaps = append(l.Mishaps, &wire.Mishap{Text: "raise redlatch:" + name + "-other", How: wire.RequestLost})
				}
			}
		})
		if l, err := quorumKinds(name + "-other")[kind].lock(second.Client, a.Ctx, false); err == nil {
			drop(l)
		}
		a.Rest(2 * time.Second)
	}
	second.cutsOff(1, time.Minute)
	for range 5 {
		if l, err = k.lock(second.Client, a.Ctx, false); err == nil {
			a.Wantf(l.Token() > token, "a %s has the token %d after %d, and the node that knew the last token has forgotten it", k.kind, l.Token(), token)
			drop(l)
			return
		}
		a.Rest(time.Second)
	}
	a.Wantf(false, "a %s at two nodes of three, of which one has forgotten: %v", k.kind, err)
}

// kindsOver returns a lock of a kind that quorums have.
func (a *player) kindsOver(name string) sharable {
	all := quorumKinds(name)
	return all[a.Random.IntN(len(all))]
}

// copyOf returns what a server holds now.
func (a *player) copyOf(s *wire.Server) (held memory.Copy) {
	a.Net.Call(func() { held = s.Copy() })
	return held
}
