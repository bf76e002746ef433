package scenes

import (
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// This file is about nodes of a quorum that forget. Each scene has its own quorum, so that it can
// do to the nodes what no other actor expects.

// founds returns a quorum of n nodes that vote.
func (a *player) founds(n int) []*wire.Server {
	nodes := a.nodes(n)
	p := a.meetsAt(nodes, lasting(time.Second))
	for _, k := range a.kinds("first") {
		l, _ := k.try(p.Client)
		drop(l)
	}
	return nodes
}

// restarts makes a node come back with this data.
func (a *player) restarts(s *wire.Server, data memory.Copy) {
	a.Net.Call(func() {
		s.Kill()
		s.Restart(data)
	})
}

// forgetful holds a lock at two of three nodes, and the first of these forgets it. That node does
// not vote before the holder's lease ends.
func forgetful(a *player) {
	a.needs(a.Plan.Harm == world.Calm)
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
	var old memory.Copy
	a.Net.Call(func() { old = nodes[0].Copy() })
	const ttl = 5 * time.Second
	holder, next := a.meetsAt(nodes, lasting(ttl)), a.meetsAt(nodes, lasting(time.Second))
	holder.cutsOff(2, time.Minute)
	k := a.lock()
	l := k.heldBy(holder.Client)
	switch a.Random.IntN(3) {
	case 0:
		a.Net.Call(nodes[0].Flush)
	case 1:
		a.restarts(nodes[0], nil)
	default:
		a.restarts(nodes[0], old)
	}
	if a.OneIn(2) { // the node that knows how long the lease lasts says so later
		a.Net.Call(func() {
			nodes[1].Hang()
			a.Net.After(600*time.Millisecond, nodes[1].Resume)
		})
	}
	for end := time.Now().Add(2 * ttl); time.Now().Before(end) && a.Ctx.Err() == nil; a.Rest(100 * time.Millisecond) {
		second, err := k.try(next.Client)
		if err != nil {
			continue
		}
		a.Wantf(!l.Held(), "a %s is held twice since a node forgot it, which voted before the lease was over", k.kind)
		drop(second)
		return
	}
	a.Wantf(false, "a %s that a node forgot is not free when its lease is over", k.kind)
}

// evenly holds a lock at three of four nodes: a bare majority. A client that hears one of those
// last says that the lock is taken. A client that hears only two says that too few were reached.
func evenly(a *player) {
	a.needs(a.Plan.Harm == world.Calm)
	nodes := a.founds(4)
	holder, next := a.meetsAt(nodes, patient), a.meetsAt(nodes, patient)
	holder.cutsOff(3, time.Minute)
	k := a.lock("mutex", "election")
	k.heldBy(holder.Client)
	silent, begun, want := a.OneIn(2), time.Now(), redlatch.ErrTaken
	a.Net.Call(func() {
		last := next.links[2]
		last.Delay.Least, last.Delay.Most = last.Delay.Most, last.Delay.Most+time.Millisecond
		if silent {
			want = redlatch.ErrUnreachable
			last.Set(wire.Silent, time.Minute)
			next.links[3].Set(wire.Silent, time.Minute)
		}
	})
	second, err := k.try(next.Client)
	a.Wantf(errors.Is(err, want) && (silent || time.Since(begun) < sent/2),
		"a try of a %s that is held at three nodes of four, with silent nodes: %t, says after %v: %v", k.kind, silent, time.Since(begun), err)
	drop(second)
}

// rollingRestart makes all nodes forget, one after the other. A lease that is renewed survives,
// since the nodes are told of it again.
func (a *player) rollingRestart(nodes []*wire.Server) {
	const ttl = time.Second
	k, holder := a.lock(), a.meetsAt(nodes, func(o *redlatch.Options) { o.Lock.TTL = ttl })
	l := k.heldBy(holder.Client)
	for i, s := range nodes {
		a.restarts(s, nil)
		a.Rest(3 * ttl)
		a.Wantf(l.Held(), "a %s is lost when the nodes were restarted one by one, after node %d", k.kind, i)
	}
}

// foundedByTwo makes a client found a quorum, but not reach most nodes when they are to vote.
// Another client founds the rest, and all nodes vote soon.
func (a *player) foundedByTwo() {
	nodes := a.nodes(5)
	founder, next := a.meetsAt(nodes, lasting(time.Second)), a.meetsAt(nodes, lasting(time.Second))
	founder.loses(founder.links[2:], "epoch seat", 40)
	k := a.lock()
	l, _ := k.try(founder.Client)
	drop(l)
	l, err := k.lock(next.Client, a.within(5*time.Second), true)
	a.wantDone(err, "a %s over a quorum that another client has founded in part", k.kind)
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

// countsOn makes one of the two nodes forget that know the last token. Its clock is behind, and so
// is that of the node that never knew the token. The next token is still larger.
func (a *player) countsOn(nodes []*wire.Server) {
	first, second := a.meetsAt(nodes, lasting(time.Second)), a.meetsAt(nodes, lasting(time.Second))
	first.cutsOff(2, time.Minute)
	k := a.lock()
	l := k.heldBy(first.Client)
	token := l.Token()
	drop(l)
	a.restarts(nodes[0], nil)
	a.Net.Call(func() { nodes[0].Step, nodes[2].Step = -time.Hour, -time.Hour })
	other := a.lock(k.kind)
	for range 2 { // the node begins its rest, and gets its right to vote again
		second.loses(second.links, "raise "+other.key(), 4) // no node is told of tokens of others
		l, _ := other.try(second.Client)
		drop(l)
		a.Rest(2 * time.Second)
	}
	second.cutsOff(1, time.Minute)
	var err error
	for range 5 {
		if l, err = k.try(second.Client); err == nil {
			a.Wantf(l.Token() > token, "a %s has the token %d after %d, and the node that knew the last token has forgotten it", k.kind, l.Token(), token)
			drop(l)
			return
		}
		a.Rest(time.Second)
	}
	a.Wantf(false, "a %s at two nodes of three, of which one has forgotten: %v", k.kind, err)
}
