package redlatch

import (
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// onSubscription is called when a subscription was connected or lost. Grants may have been
// published while it was not, and from now on its waiters have to ask more often, or need not any
// more.
func (c *Client) onSubscription(s *subscribe.Subscription) {
	c.line.PollNow(s)
	c.tries.WakeAll()
	c.countdowns.askAll()
}

// waited reports whether a goroutine waits for the name with this key.
func (c *Client) waited(key string) bool { return c.line.Waits(key) || c.countdowns.any(key) }

// hear takes one message. A text that is none is ignored: anybody may publish on the channel.
func (c *Client) hear(text string) {
	switch m := script.ParseMessage(text); m.Verb {
	case script.MessageGrant:
		c.line.Granted(m.Owner, m.Token, m.Detail)
	case script.MessageFirst:
		c.line.PollAtExpiry(m.Owner, m.Remaining) // its heartbeat would be later
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
