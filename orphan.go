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

// orphan is one of them.
type orphan struct {
	latch  *latch
	owner  string
	ticket string    // "" if it never stood in line
	until  time.Time // by then it is gone by itself
	looks  int       // how often Redis said that it was not inside
}

// orphans are those of a client.
type orphans struct {
	entry schedule.Entry

	mu   sync.Mutex // guards what is below
	list []orphan
}

// abandon makes an owner an orphan.
func (c *Client) abandon(l *latch, owner, ticket string) {
	now := c.now().Time()
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	c.orphans.list = append(c.orphans.list, orphan{
		latch: l, owner: owner, ticket: ticket, until: now.Add(max(l.options.TTL, c.horizon())),
	})
	c.schedule.Advance(&c.orphans.entry, now)
}

// bury releases all orphans, once. Those that have to be looked at again are left for next time.
func (c *Client) bury(ctx context.Context) {
	c.orphans.mu.Lock()
	list := c.orphans.list
	c.orphans.list = nil
	c.orphans.mu.Unlock()
	var left []orphan
	silent := false
	for batch := range slices.Chunk(list, maxBatch) {
		if !silent {
			batch, silent = c.buryBatch(ctx, batch)
		}
		left = append(left, batch...)
	}
	if len(left) == 0 {
		return
	}
	c.orphans.mu.Lock()
	defer c.orphans.mu.Unlock()
	c.orphans.list = append(c.orphans.list, left...)
	c.schedule.Advance(&c.orphans.entry, c.now().Time().Add(jitter(c.options.RequestTimeout/3, 0.3)))
}

// buryBatch returns those that have to be looked at again, and whether nothing at all was answered. If Redis says that an owner was not
// inside, the request that is to be undone may still be on its way, over another connection: such an owner is looked at twice.
func (c *Client) buryBatch(ctx context.Context, batch []orphan) (left []orphan, silent bool) {
	silent = true
	calls := make([]conn.Call, len(batch))
	for i, o := range batch {
		calls[i] = o.latch.kind.Release(o.latch.keys, o.owner, o.ticket, "", c.options.FenceTTL)
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout/3)
	defer cancel()
	now := c.now().Time()
	for i, r := range c.conn.Eval(ctx, calls...) {
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
