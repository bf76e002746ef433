package redlatch

import (
	"time"

	"github.com/redlatch/redlatch/conn"
)

// What an acquisition that failed or was given up may have left behind is undone in the background: see package internal/cleanup.

// lineLingers is how long a line stays without a heartbeat, as in tickets.lua. A ticket is not gone by itself when a lease is: whatever else
// its client waits for keeps it believed alive, and the ticket would be served in turn, to nobody. So its release is sent for that long.
const lineLingers = time.Hour

// abandon has an owner of this client released in the background: it must be neither inside nor in line.
func (c *Client) abandon(l *latch, owner, ticket string) {
	for node := range c.nodes() {
		c.abandonAt(node, l, owner, ticket)
	}
}

// abandonAt is abandon at one node of a quorum.
func (c *Client) abandonAt(node int, l *latch, owner, ticket string) {
	until := max(l.options.TTL, c.horizon())
	if ticket != "" {
		until = max(until, lineLingers)
	}
	c.cleanup.Add(node, l.undoing(owner, ticket), 0, until)
}

// undoing returns the release of an owner that did not begin.
func (l *latch) undoing(owner, ticket string) conn.Call {
	return l.kind.Release(l.keys, owner, ticket, "", l.client.options.FenceTTL)
}

// nodes returns the servers that this client talks to, each by itself: one, but for a quorum.
func (c *Client) nodes() []conn.Conn {
	if c.quorum != nil {
		return c.quorum.Nodes()
	}
	return []conn.Conn{c.conn}
}
