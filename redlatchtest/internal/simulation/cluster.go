package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	hashslots "github.com/redlatch/redlatch/internal/driver/slots"
)

// What is in this file is about clusters: servers that have a part of the slots each.

// cluster is the connection of one client to a cluster, over a link to each node.
type cluster struct{ links []*Link }

var (
	_ conn.Conn       = (*cluster)(nil)
	_ conn.Replicated = (*cluster)(nil)
	_ conn.Sharded    = (*cluster)(nil)
)

// at returns the server that has a key: of a cluster, the node that has its slot.
func (w *World) at(key string) *server { return w.servers[part(key, len(w.servers), w.plan.cluster)] }

// part returns which of so many nodes of a cluster has the slot of a key.
func part(key string, nodes int, cluster bool) int {
	if !cluster {
		return 0
	}
	return hashslots.Of(key) * nodes / hashslots.Count
}

func (c *cluster) to(key string) *Link { return c.links[part(key, len(c.links), true)] }

// Eval implements [conn.Conn]. Calls for several nodes leave together.
func (c *cluster) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	var nodes sync.WaitGroup
	for _, l := range c.links {
		var mine []conn.Call
		var which []int
		for i, call := range calls {
			if c.to(call.Keys[0]) == l {
				mine, which = append(mine, call), append(which, i)
			}
		}
		if len(mine) == len(calls) {
			return l.Eval(ctx, calls...)
		}
		if len(mine) > 0 {
			nodes.Go(func() {
				for i, r := range l.Eval(ctx, mine...) {
					results[which[i]] = r
				}
			})
		}
	}
	nodes.Wait()
	return results
}

// EvalReplicated implements [conn.Replicated].
func (c *cluster) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	return c.to(call.Keys[0]).EvalReplicated(ctx, call, n, wait)
}

// Subscribe implements [conn.Conn]: at one node, which hears what is published at the others.
func (c *cluster) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	return c.to(channel).Subscribe(ctx, channel, up, message)
}

// SubscribeSharded implements [conn.Sharded].
func (c *cluster) SubscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error {
	l := c.to(channel)
	return l.listen(ctx, &ear{link: l, channel: channel, sharded: true}, up, message)
}

// Scan implements [conn.Conn].
func (c *cluster) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	for _, l := range c.links {
		if err := l.Scan(ctx, pattern, each); err != nil {
			return err
		}
	}
	return nil
}

// Target implements [conn.Conn].
func (c *cluster) Target() conn.Target {
	return conn.Target{
		Addr: "cluster", Cluster: true, Pipelined: true, ShardsTogether: true,
		Node: func(key string) string { return c.to(key).server.String() },
	}
}

// Close implements [conn.Conn].
func (c *cluster) Close() error { return nil }

// joinServers makes servers the nodes of a cluster.
func joinServers(nodes []*server) {
	for _, s := range nodes {
		s.peers = nodes
		s.tellsPeers()
	}
}

// busDelay is how long a message is under way between two nodes of a cluster.
const busDelay = 100 * time.Microsecond

// tellsPeers has the other nodes of a cluster hear what is published here, in order.
func (s *server) tellsPeers() {
	if s.peers == nil {
		return
	}
	s.SubscribeAll(func(channel, payload string) {
		s.told = max(s.told+1, s.net.now()+busDelay)
		s.net.after(s.told-s.net.now(), func() {
			for _, o := range s.peers {
				if o != s && !o.down && !o.hangs {
					o.hears(channel, payload)
				}
			}
		})
	})
}

// hears tells listeners what was published at another node.
func (s *server) hears(channel, payload string) {
	for _, e := range slices.Clone(s.ears) {
		if e.channel == channel && !e.sharded {
			e.message(payload)
		}
	}
}

// apart has a client that does not reach one node of a cluster. What it asks of the others is
// answered as if nothing were amiss, however much it asks at once, and also what it gives back.
func apart(a *actor) {
	defer a.rest(2*time.Second + a.upTo(4*time.Second))
	const n = 900 // of which a node has some 300, and more than a batch
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	base := a.scene("dead")
	name := func(i int) string { return fmt.Sprintf("%s-%d", base, i) }
	away := a.at("redlatch:" + name(0))
	a.net.call(func() { p.links[away.number-1].set(silent, 3*sent) })
	each := func(n int, do func(i int)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	if !a.oneIn(3) {
		each(60, func(i int) {
			begun := time.Now()
			l, err := p.Mutex(name(i)).TryLock(a.ctx)
			late := time.Since(begun) > 4*a.trip()
			a.wantf(err == nil && !late || a.at("redlatch:"+name(i)) == away, "a node that does not answer has a try at another node last %v: %v", time.Since(begun), err)
			if err == nil {
				_ = l.Release(context.Background())
			}
		})
		return
	}
	ctx, giveUp := context.WithTimeout(a.ctx, a.plan.delay.least) // before a reply can be here
	defer giveUp()
	each(n, func(i int) {
		if l, err := p.Mutex(name(i)).TryLock(ctx); err == nil {
			_ = l.Release(context.Background())
		}
	})
	a.rest(sent/2 + 4*a.trip()) // a release that has overtaken its request is sent again after sent/3
	left := 0
	a.net.call(func() {
		for _, s := range a.servers {
			if s != away {
				left += len(s.Keys("redlatch:" + base + "-*"))
			}
		}
	})
	a.wantf(left == 0, "a node that does not answer has %d releases wait that are for other nodes", left)
}
