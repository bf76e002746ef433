package redlatch

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ear is the client's one subscription, on which it hears of its grants. It starts with the first attempt that has to wait.
type ear struct {
	start sync.Once
	up    atomic.Bool
	first sync.Once
	was   chan struct{} // closed when it was up for the first time
}

func (e *ear) init() { e.was = make(chan struct{}) }

// hears reports whether grants would be heard now.
func (e *ear) hears() bool { return e.up.Load() }

// listen starts the subscription and gives it a moment to be confirmed. Without it, waiting goes on by asking every deafPace: a server
// or a user without publish/subscribe costs speed, and nothing else.
func (c *Client) listen(ctx context.Context) {
	c.ear.start.Do(func() { c.spawn(c.subscribe) })
	if c.ear.hears() {
		return
	}
	timer := time.NewTimer(min(time.Second, c.options.RequestTimeout))
	defer timer.Stop()
	select {
	case <-c.ear.was:
	case <-timer.C:
	case <-ctx.Done():
	case <-c.closing.Done():
	}
}

// subscribe keeps the subscription up until the client is closed.
func (c *Client) subscribe() {
	for n := 0; c.closing.Err() == nil; n++ {
		c.subscribeOnce()
		if c.ear.up.Swap(false) {
			n = 0
			c.hurry() // from now on at deafPace
		}
		sleep(c.closing, pause(n))
	}
}

// subscribeOnce listens until the subscription ends. What a library calls later than that is not heard: it would act for a client that
// may be closed by then.
func (c *Client) subscribeOnce() {
	var mu sync.Mutex
	over := false
	heed := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
		}
	}
	// Why it ended does not matter: whoever waits finds out by asking, and asks Redis itself.
	_ = c.conn.Subscribe(c.closing, c.address,
		func() { heed(c.hearing) },
		func(message string) { heed(func() { c.hear(message) }) })
	heed(func() { over = true })
}

// hearing notes that the subscription is confirmed.
func (c *Client) hearing() {
	c.ear.up.Store(true)
	c.ear.first.Do(func() { close(c.ear.was) })
	c.hurry() // grants may have been published while nobody listened
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
			owner: owner, token: token, got: got, anchor: w.anchor, ttl: min(w.latch.options.TTL, c.horizon()), resent: w.resent,
		}
	})
	if waiting {
		return
	}
	// It is tempting to give back whatever nobody waits for. But an await, or the acquire itself, may have told this grant first, and
	// then a lease is in use. Only what was given up is given back: a request that was on its way put it in line after all.
	if l := c.room.gaveUp(owner); l != nil {
		c.abandon(l, owner, "")
	}
}

// hearRevoke has the lease extended at once, which finds out whether it is really gone.
func (c *Client) hearRevoke(owner string) {
	for _, e := range c.schedule.Entries() {
		if lease, ok := e.Owner.(*Lease); ok && lease.owner == owner {
			lease.hurry()
		}
	}
}
