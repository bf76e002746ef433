package redlatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
)

// Orphans are owners that Redis may know and nobody uses: of acquisitions that failed or were given up. A client sees to it that they are
// neither inside nor in line. It releases them in batches, so that an outage, in which every attempt leaves one, costs no more than that.

// orphan is one of them, at one server.
type orphan struct {
	node    int // among the client's nodes
	release conn.Call
	next    time.Time // not released again before
	until   time.Time // by then it is gone by itself
	looks   int       // how often Redis said that it was not inside
}

// A ticket is not gone by itself when a lease is: whoever else of its client waits keeps it believed alive, and it would be served in turn,
// to nobody. It is released until Redis answers, or the line is gone.
const (
	lineLingers = time.Hour // as in line.lua
	maxOrphans  = 1 << 16   // of an outage; the oldest ones are forgotten
)

// orphans are those of a client.
type orphans struct {
	entry schedule.Entry

	mu   sync.Mutex // guards what is below
	list []orphan
}

// abandon makes an owner an orphan.
func (c *Client) abandon(l *latch, owner, ticket string) {
	for node := range c.nodes() {
		c.abandonAt(node, l, owner, ticket)
	}
}

// abandonAt makes an owner an orphan at one node of a quorum.
func (c *Client) abandonAt(node int, l *latch, owner, ticket string) {
	until := max(l.options.TTL, c.horizon())
	if ticket != "" {
		until = max(until, lineLingers)
	}
	c.releaseLater(node, l.kind.Release(l.keys, owner, ticket, "", c.options.FenceTTL), until)
}

// releaseLater sends a release in the background. It is not needed any more when that time has passed.
func (c *Client) releaseLater(node int, release conn.Call, until time.Duration) {
	now := c.now().Time()
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	c.orphans.add(orphan{node: node, release: release, next: now, until: now.Add(until)})
	c.schedule.Advance(&c.orphans.entry, now)
}

// add keeps some more, with mu held.
func (os *orphans) add(more ...orphan) {
	os.list = append(os.list, more...)
	os.list = os.list[max(0, len(os.list)-maxOrphans):]
}

// nodes is the servers that this client talks to, each by itself: one, but for a quorum.
func (c *Client) nodes() []conn.Conn {
	if c.quorum != nil {
		return c.quorum.Nodes()
	}
	return []conn.Conn{c.conn}
}

// bury releases the orphans that are due, or all if this is the last time. Those that have to be looked at again are left for next time: a
// while later, however many others there are until then, since what is to be undone takes that while to arrive.
func (c *Client) bury(ctx context.Context, last bool) {
	now := c.now().Time()
	byNode := make(map[int][]orphan)
	var next time.Time // of those that are not due
	c.orphans.mu.Lock()
	c.orphans.list = slices.DeleteFunc(c.orphans.list, func(o orphan) bool {
		due := last || !o.next.After(now)
		if due {
			byNode[o.node] = append(byNode[o.node], o)
		} else if next.IsZero() || o.next.Before(next) {
			next = o.next
		}
		return due
	})
	if !next.IsZero() {
		c.schedule.Advance(&c.orphans.entry, next)
	}
	c.orphans.mu.Unlock()
	var buried sync.WaitGroup
	for node, list := range byNode {
		buried.Go(func() { c.buryAt(ctx, c.nodes()[node], list) })
	}
	buried.Wait()
}

// buryAt releases the orphans at one node.
func (c *Client) buryAt(ctx context.Context, node conn.Conn, list []orphan) {
	var left []orphan
	silent := false
	for batch := range slices.Chunk(list, maxBatch) {
		if !silent {
			batch, silent = c.buryBatch(ctx, node, batch)
		}
		left = append(left, batch...)
	}
	if len(left) == 0 {
		return
	}
	next := c.now().Time().Add(jitter(c.options.RequestTimeout/3, 0.3))
	for i := range left {
		left[i].next = next
	}
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	c.orphans.add(left...)
	c.schedule.Advance(&c.orphans.entry, next)
}

// buryBatch returns those that have to be looked at again, and whether nothing at all was answered. If Redis says that an owner was not
// inside, the request that is to be undone may still be on its way, over another connection: such an owner is looked at twice.
func (c *Client) buryBatch(ctx context.Context, node conn.Conn, batch []orphan) (left []orphan, silent bool) {
	silent = true
	calls := make([]conn.Call, len(batch))
	for i, o := range batch {
		calls[i] = o.release
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout/3)
	defer cancel()
	now := c.now().Time()
	for i, r := range node.Eval(ctx, calls...) {
		o := batch[i]
		if r.Err == nil {
			o.looks++
			silent = false
		}
		_, was := script.Left(r.Reply)
		over := was || o.looks == 2 || r.Err != nil && !transient(r.Err) || o.until.Before(now)
		if !over {
			left = append(left, o)
		}
	}
	return left, silent
}
