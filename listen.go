package redlatch

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/schedule"
)

// ear is one subscription, on which the client hears of its grants. It starts with the first attempt that has to wait. A client has one; but in
// a cluster, from Redis 7.0 on, one for each name that it waits for, since a sharded channel is in the slot of the name: a plain
// message would go to all nodes of the cluster.
type ear struct {
	address string
	sharded bool
	state   string // of the latch, if it is sharded
	entry   schedule.Entry
	over    context.Context // done when it is not needed any more
	stop    context.CancelFunc
	start   sync.Once
	up      atomic.Bool
	first   sync.Once
	was     chan struct{} // closed when it was up for the first time, or cannot be
}

func newEar(ctx context.Context, address string) *ear {
	e := &ear{address: address, was: make(chan struct{})}
	e.entry.Owner = e
	e.over, e.stop = context.WithCancel(ctx)
	return e
}

// hears reports whether grants would be heard now.
func (e *ear) hears() bool { return e.up.Load() }

// shards is the ears of a client for sharded channels.
type shards struct {
	unknown atomic.Bool // to the server

	mu  sync.Mutex
	all map[string]*ear // by the key of the latch
}

// maxShards is how many names are listened to by themselves, each over a connection of its own; more share the plain channel.
const maxShards = 64

// sharded reports whether grants go by sharded channels.
func (c *Client) sharded() bool { return c.conn.Target().Cluster && !c.shards.unknown.Load() }

// earFor is the ear by which grants of a latch are heard: its own if there is one.
func (c *Client) earFor(l *latch) *ear {
	if !c.sharded() {
		return c.ear
	}
	c.shards.mu.Lock()
	defer c.shards.mu.Unlock()
	if e := c.shards.all[l.keys.State]; e != nil {
		return e
	}
	return c.ear
}

// grow is earFor for a latch that is about to be waited for, which gets an ear of its own if it can.
func (c *Client) grow(l *latch) *ear {
	e := c.earFor(l)
	if e.sharded || !c.sharded() {
		return e
	}
	c.shards.mu.Lock()
	defer c.shards.mu.Unlock()
	if len(c.shards.all) >= maxShards {
		return c.ear
	}
	if c.shards.all == nil {
		c.shards.all = make(map[string]*ear)
	}
	if e := c.shards.all[l.keys.State]; e != nil {
		return e
	}
	e = newEar(c.closing, l.keys.Grants(c.id))
	e.sharded, e.state = true, l.keys.State
	c.shards.all[e.state] = e
	c.schedule.Set(&e.entry, c.now().Time().Add(c.linger()), 0)
	return e
}

// linger is how long a name is listened to when nobody waits for it any more.
func (c *Client) linger() time.Duration { return c.horizon() }

// doze ends an ear for a name that nobody waits for. Who begins to wait at this moment has the plain one.
func (c *Client) doze(e *ear) {
	if c.room.waits(e.state) {
		c.schedule.Set(&e.entry, c.now().Time().Add(c.linger()), 0)
		return
	}
	c.shards.mu.Lock()
	defer c.shards.mu.Unlock()
	delete(c.shards.all, e.state)
	e.stop()
}

// listen starts the subscription and gives it a moment to be confirmed. Without it, waiting goes on by asking every deafPace: a server
// or a user without publish/subscribe costs speed, and nothing else.
func (c *Client) listen(ctx context.Context, l *latch) {
	e := c.grow(l)
	e.start.Do(func() { c.spawn(func() { c.subscribe(e) }) })
	if e.hears() {
		return
	}
	timer := time.NewTimer(min(time.Second, c.options.RequestTimeout))
	defer timer.Stop()
	select {
	case <-e.was:
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closing.Done():
	}
	if e.sharded && c.shards.unknown.Load() {
		c.listen(ctx, l)
	}
}

// subscribe keeps the subscription up until it is not needed, or the client is closed.
func (c *Client) subscribe(e *ear) {
	for n := 0; e.over.Err() == nil; n++ {
		err := c.subscribeOnce(e)
		if e.up.Swap(false) {
			n = 0
			c.hurry(e) // from now on at deafPace
		}
		if says(err, "unknown command") && e.sharded {
			c.shards.unknown.Store(true)
			e.first.Do(func() { close(e.was) })
			return
		}
		sleep(e.over, pause(n))
	}
}

// subscribeOnce listens until the subscription ends. What a library calls later than that is not heard: it would act for a client that
// may be closed by then. Why it ended matters only if the server does not know it: whoever waits finds out by asking, and asks Redis itself.
func (c *Client) subscribeOnce(e *ear) error {
	var mu sync.Mutex
	over := false
	heed := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
		}
	}
	subscribe := c.conn.Subscribe
	if e.sharded {
		subscribe = c.conn.SubscribeSharded
	}
	err := subscribe(e.over, e.address,
		func() { heed(func() { c.hearing(e) }) },
		func(message string) { heed(func() { c.hear(message) }) })
	heed(func() { over = true })
	return err
}

// hearing notes that the subscription is confirmed.
func (c *Client) hearing(e *ear) {
	e.up.Store(true)
	e.first.Do(func() { close(e.was) })
	c.hurry(e) // grants may have been published while nobody listened
}

// hear takes one message: a grant, the word that a lease was taken by force, or, from a node of a quorum, that a lock is worth trying.
//
//	grant   token  got  owner
//	revoke  owner
//	free    waiter
func (c *Client) hear(message string) {
	verb, rest, _ := strings.Cut(message, "\t")
	switch verb {
	case "grant":
		field := strings.SplitN(rest, "\t", 3)
		if len(field) != 3 {
			return
		}
		if token, err := strconv.ParseInt(field[0], 10, 64); err == nil {
			c.hearGrant(field[2], token, field[1])
		}
	case "revoke":
		c.hearRevoke(rest)
	case "free":
		c.hopes.wake(rest)
	}
}

func (c *Client) hearGrant(owner string, token int64, got string) {
	waiting := c.room.deliver(owner, func(w *waiter) grant {
		return grant{
			owner: owner, token: token, spare: w.latch.spare(), got: got, resent: w.resent, ticket: w.ticket,
			anchor: w.anchor, ttl: min(w.latch.options.TTL, c.horizon()),
		}
	})
	if waiting {
		return
	}
	// It is tempting to give back whatever nobody waits for. But an await, or the acquire itself, may have told this grant first, and
	// then a lease is in use. Only what was given up is given back: a request that was on its way put it in line after all.
	if d := c.room.gaveUp(owner); d.latch != nil {
		c.abandon(d.latch, owner, d.ticket)
	}
}

// hearRevoke has the lease doubted.
func (c *Client) hearRevoke(owner string) {
	c.relays.revoke(owner) // before the look: between two holders of a relay there is no lease
	for _, e := range c.schedule.Entries() {
		if lease, ok := e.Owner.(*Lease); ok && lease.owner == owner {
			lease.mu.Lock()
			lease.unlock(lease.doubt()...)
		}
	}
}
