package redlatch

import (
	"context"

	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A holder can ask to be told when it is waited for, so that long work can stop at a good place.
// The wish stands in Redis, beside the line; the script that puts a waiter in line finds it there
// and tells the holder's client. A lease without such a wish costs nothing more than before.

// wish is that of a lease to be told.
type wish struct {
	told   chan struct{}
	closed bool // told is
}

// Wanted returns a channel that is closed when another acquisition waits for the lock, in any
// process: at once if one waits already. It is for long work that can stop at a good place, and
// then release the lock. It takes nothing from the holder: the lease goes on for as long as the
// holder likes, and the channel stays closed when the waiter gives up. All calls return the same
// channel. It is not closed by the end of the lease; wait for the lease's context beside it.
//
// The first call sends a request in the background, and so does each extend after it. Redis pushes
// the word to a client that can listen. Where it cannot, or the word was lost, the next extend
// finds the waiter, with LockOptions.Renew set to [Off] as well. Of several leases on one
// semaphore, all that have asked are told. Over a quorum no holder is told: the channel stays open.
func (l *Lease) Wanted() <-chan struct{} {
	l = l.self()
	c := l.latch.client
	l.mu.Lock()
	first := l.wish == nil
	if first {
		l.wish = &wish{told: make(chan struct{})}
	}
	told, group := l.wish.told, l.group
	l.mu.Unlock()
	if !first {
		return told
	}
	c.wishes.Store(true) // before the look: a goroutine that joins the group later sees it
	if group != nil && c.handoffs.Others(group) > 0 {
		l.tellWanted()
	}
	l.askWanted()
	return told
}

// askWanted asks Redis in the background whether a waiter is in line, and to tell when one comes,
// if the lease is held and its wish has not come true.
func (l *Lease) askWanted() {
	c := l.latch.client
	if !l.latch.Kind.TellsHolders() || c.enter() != nil {
		return
	}
	go func() {
		defer c.background.Done()
		ctx, cancel := context.WithTimeout(c.closing, c.options.RequestTimeout)
		defer cancel()
		c.listener.ConnectPlain(ctx)
		l.mu.Lock()
		remember, needed := max(l.leftInRedis(), l.latch.TTL), l.wishing() && l.state <= inJeopardy
		l.mu.Unlock()
		if !needed {
			return
		}
		call := l.latch.Kind.Want(l.latch.Keys, l.owner, c.listener.Plain().Address(), remember)
		// An error is no matter: the next extend asks again.
		answer, err := l.latch.ask(ctx, "ask for the waiters of", call)
		if err == nil && script.Waited(answer.Reply) {
			l.tellWanted()
		}
	}()
}

// wishing reports whether the lease wants to be told, and was not. The caller holds l.mu.
func (l *Lease) wishing() bool { return l.wish != nil && !l.wish.closed }

// tellWanted tells the holder that it is waited for, if it has asked.
func (l *Lease) tellWanted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wishing() {
		l.wish.closed = true
		close(l.wish.told)
	}
}

// hearWanted tells the lease of an owner that it is waited for.
func (c *Client) hearWanted(owner string) {
	if l := c.keeper.of(owner); l != nil {
		l.tellWanted()
	}
}

// tellHolder tells the lease that has the turn of a group that a goroutine of the group waits.
func (c *Client) tellHolder(g *handoff.Group) {
	if c.wishes.Load() {
		c.hearWanted(g.Holder())
	}
}
