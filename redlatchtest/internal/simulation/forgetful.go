package simulation

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// What is in this file is about nodes of a quorum that forget. A scene has a quorum of its own, so
// that it can do to the nodes what no other actor expects.

// quorum is the servers of a scene's own quorum.
type quorum []*server

// founds returns a quorum of three nodes that vote.
func (a *actor) founds() quorum {
	q := make(quorum, 3)
	a.net.call(func() {
		for i := range q {
			q[i] = newServer(a.net, 10+i)
		}
	})
	p := q.meets(a, lasting(time.Second))
	defer func() { _ = p.Close() }()
	for _, k := range quorumKinds("first") {
		if l, err := k.lock(p.Client, a.ctx, false); err == nil {
			_ = l.Release(context.Background())
		}
	}
	return q
}

// meets opens a client of the quorum.
func (q quorum) meets(a *actor, changes ...func(*redlatch.Options)) *partner {
	return a.meetsAt(q, openQuorum, changes)
}

// lasting gives a partner leases of that length. Its requests do not take long.
func lasting(ttl time.Duration) func(*redlatch.Options) {
	return func(o *redlatch.Options) {
		o.Lock.TTL, o.Lock.Renew, o.RequestTimeout = ttl, redlatch.Off, 300*time.Millisecond
	}
}

// cutsOff has a partner not reach a node for a while.
func (p *partner) cutsOff(node int, d time.Duration) {
	p.world.net.call(func() { p.links[node].set(refuses, d) })
}

// forgetful has a lock at two of three nodes, of which the first forgets it. That node does not vote
// before the lease is over.
func forgetful(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	if a.plan.harm != calm {
		a.rest(5 * time.Second)
		return
	}
	nodes := a.founds()
	switch a.random.IntN(3) {
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
	defer func() {
		_ = holder.Close()
		_ = next.Close()
	}()
	holder.cutsOff(2, time.Minute)
	k := a.kindsOver(a.scene("dead"))
	l, err := k.lock(holder.Client, a.ctx, false)
	if err != nil {
		a.wantf(false, "a %s at two nodes of three: %v", k.kind, err)
		return
	}
	unknown := a.oneIn(2) // the node that knows how long the lease lasts says so later
	a.net.call(func() {
		switch a.random.IntN(3) {
		case 0:
			nodes[0].Flush()
		case 1:
			nodes[0].kill()
			nodes[0].restart(nil)
		default:
			nodes[0].kill()
			nodes[0].restart(old)
		}
		if unknown {
			nodes[1].hang()
			a.net.after(600*time.Millisecond, nodes[1].resume)
		}
	})
	for end := time.Now().Add(2 * ttl); time.Now().Before(end) && a.ctx.Err() == nil; a.rest(100 * time.Millisecond) {
		second, err := k.lock(next.Client, a.ctx, false)
		if err != nil {
			continue
		}
		a.wantf(!l.Held(), "a %s is held twice since a node forgot it, which voted before the lease was over", k.kind)
		_ = second.Release(context.Background())
		return
	}
	a.wantf(false, "a %s that a node forgot is not free when its lease is over", k.kind)
}

// rollingRestart has all nodes forget, one after the other. A lease that is renewed survives, since
// the nodes are told of it again.
func (a *actor) rollingRestart(nodes quorum) {
	const ttl = time.Second
	holder := nodes.meets(a, func(o *redlatch.Options) { o.Lock.TTL = ttl })
	defer func() { _ = holder.Close() }()
	k := a.kindsOver(a.scene("dead"))
	l, err := k.lock(holder.Client, a.ctx, false)
	if err != nil {
		return
	}
	for i, s := range nodes {
		a.net.call(func() {
			s.kill()
			s.restart(nil)
		})
		a.rest(3 * ttl)
		a.wantf(l.Held(), "a %s is lost when the nodes were restarted one by one, after node %d", k.kind, i)
	}
	_ = l.Release(context.Background())
}

// countsOn has the node forget that knows the last token with another one. Its clock, and that of the
// node that never knew the token, are behind. The next token is larger all the same.
func (a *actor) countsOn(nodes quorum) {
	first, second := nodes.meets(a, lasting(time.Second)), nodes.meets(a, lasting(time.Second))
	defer func() {
		_ = first.Close()
		_ = second.Close()
	}()
	first.cutsOff(2, time.Minute)
	name, kind := a.scene("dead"), a.random.IntN(3)
	k := quorumKinds(name)[kind]
	l, err := k.lock(first.Client, a.ctx, false)
	if err != nil {
		return
	}
	token := l.Token()
	_ = l.Release(context.Background())
	a.net.call(func() {
		nodes[0].kill()
		nodes[0].restart(nil)
		nodes[0].step, nodes[2].step = -time.Hour, -time.Hour
	})
	for range 2 { // the node begins its rest, and gets its right to vote again
		a.net.call(func() { // no node is told of tokens of others
			for _, l := range second.links {
				for range 4 {
					l.mishaps = append(l.mishaps, &mishap{text: "raise redlatch:" + name + "-other", how: requestLost})
				}
			}
		})
		if l, err := quorumKinds(name + "-other")[kind].lock(second.Client, a.ctx, false); err == nil {
			_ = l.Release(context.Background())
		}
		a.rest(2 * time.Second)
	}
	second.cutsOff(1, time.Minute)
	for range 5 {
		if l, err = k.lock(second.Client, a.ctx, false); err == nil {
			a.wantf(l.Token() > token, "a %s has the token %d after %d, and the node that knew the last token has forgotten it", k.kind, l.Token(), token)
			_ = l.Release(context.Background())
			return
		}
		a.rest(time.Second)
	}
	a.wantf(false, "a %s at two nodes of three, of which one has forgotten: %v", k.kind, err)
}

// kindsOver returns a lock of a kind that quorums have.
func (a *actor) kindsOver(name string) sharable {
	all := quorumKinds(name)
	return all[a.random.IntN(len(all))]
}

// copyOf returns what a server holds now.
func (a *actor) copyOf(s *server) (held memory.Copy) {
	a.net.call(func() { held = s.Copy() })
	return held
}
