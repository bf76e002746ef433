package wire

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	hashslots "github.com/redlatch/redlatch/internal/driver/slots"
)

// This file is about clusters: servers that each have a part of the slots.

// Cluster is the connection of one client to a cluster, over a link to each node.
type Cluster struct{ Links []*Link }

var (
	_ conn.Conn       = (*Cluster)(nil)
	_ conn.Replicated = (*Cluster)(nil)
	_ conn.Sharded    = (*Cluster)(nil)
)

// Part returns which of so many nodes of a cluster has the slot of a key.
func Part(key string, nodes int, cluster bool) int {
	if !cluster {
		return 0
	}
	return hashslots.Of(key) * nodes / hashslots.Count
}

func (c *Cluster) to(key string) *Link { return c.Links[Part(key, len(c.Links), true)] }

// Eval implements [conn.Conn]. Calls for several nodes leave together.
func (c *Cluster) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	var nodes sync.WaitGroup
	for _, l := range c.Links {
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
func (c *Cluster) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	return c.to(call.Keys[0]).EvalReplicated(ctx, call, n, wait)
}

// Subscribe implements [conn.Conn]. It asks one node, which hears what is published at the others.
func (c *Cluster) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	return c.to(channel).Subscribe(ctx, channel, up, message)
}

// SubscribeSharded implements [conn.Sharded].
func (c *Cluster) SubscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error {
	l := c.to(channel)
	return l.listen(ctx, &ear{Link: l, channel: channel, sharded: true}, up, message)
}

// Scan implements [conn.Conn].
func (c *Cluster) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	return adapter.Scan(ctx, c.Links, nil, each, func(l *Link, _ uint64) (page adapter.Page, err error) {
		err = l.Scan(ctx, pattern, func(key string) error {
			page.Keys = append(page.Keys, key)
			return nil
		})
		return page, err
	})
}

// Target implements [conn.Conn].
func (c *Cluster) Target() conn.Target {
	return conn.Target{
		Addr: "cluster", Cluster: true, Pipelined: true, ShardsTogether: true,
		Node: func(key string) string { return c.to(key).Server.String() },
	}
}

// Close implements [conn.Conn].
func (c *Cluster) Close() error { return nil }
