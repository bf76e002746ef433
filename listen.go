package redlatch

import (
	"context"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// subscription returns the subscription by which grants of a latch are heard.
func (l *latch) subscription() *subscribe.Subscription {
	return l.client.listener.For(l.Keys.State())
}

// listen starts the subscription by which a latch is heard, and gives it a moment to be confirmed.
// Without it, waiters ask every pollDisconnected: a server or a user without publish/subscribe
// costs speed, and nothing else.
func (l *latch) listen(ctx context.Context) {
	c := l.client
	channel := ""
	if c.listener.Sharded() {
		channel = l.Keys.Grants(c.id)
	}
	c.listener.Connect(ctx, l.Keys.State(), channel)
}

// onSubscription is called when a subscription was connected or lost. Grants may have been
// published while it was not, and from now on its waiters have to ask more often, or need not any
// more.
func (c *Client) onSubscription(s *subscribe.Subscription) {
	c.waiters.pollNow(s)
	c.tries.WakeAll()
	c.countdowns.askAll()
}

// waited reports whether a goroutine waits for the name with this key.
func (c *Client) waited(key string) bool { return c.waiters.any(key) || c.countdowns.any(key) }

// hear takes one message. A text that is none is ignored: anybody may publish on the channel.
func (c *Client) hear(text string) {
	switch m := script.ParseMessage(text); m.Verb {
	case script.MessageGrant:
		c.hearGrant(m.Owner, m.Token, m.Detail)
	case script.MessageFirst:
		c.waiters.pollAtExpiry(m.Owner, m.Remaining) // its heartbeat would be later
	case script.MessageRevoke:
		c.keeper.Revoked(m.Owner, m.Note)
	case script.MessageWanted:
		c.keeper.Wanted(m.Owner)
	case script.MessageZero:
		c.countdowns.hear(m.Key, m.Token)
	case script.MessageFree:
		c.tries.Wake(m.Owner)
	}
}

func (c *Client) hearGrant(owner string, token int64, detail string) {
	waiting := c.waiters.deliver(owner, func(w *waiter) lock.Grant {
		return lock.Grant{
			Owner: owner, Token: token, Spare: w.latch.Spare(), Detail: detail, Resent: w.resent, Ticket: w.ticket,
			Sent: w.sentAt, TTL: min(w.latch.TTL, c.liveFor()),
		}
	})
	if waiting {
		return
	}
	// It is tempting to give back every grant without a waiter. But a poll, or the acquire itself,
	// may have told this grant first, and then a lease is in use. Only a cancelled waiter's grant
	// is given back: a request that was on its way put its ticket in line after all.
	if gone := c.waiters.wasCancelled(owner); gone.latch != nil {
		gone.latch.abandon(owner, gone.ticket)
	}
}
