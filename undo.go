package redlatch

import (
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A client undoes in the background what an acquisition that failed or was cancelled may have left
// behind: see package internal/link/cleanup.

// lineLingers is how long a line stays without a heartbeat, as in tickets.lua. A ticket does not
// expire with a lease: anything else that its client waits for keeps it believed alive. Redis would
// grant the latch to it in turn, and no waiter would be there. So the client sends its release for
// that long.
const lineLingers = time.Hour

// abandon releases an owner of this client in the background, until it is neither inside nor in
// line.
func (l *latch) abandon(owner, ticket string) {
	for node := range l.client.asker.Nodes() {
		l.abandonAt(node, owner, ticket)
	}
}

// abandonAt is abandon at one node of a quorum.
func (l *latch) abandonAt(node int, owner, ticket string) {
	c := l.client
	until := max(l.options.TTL, c.liveFor())
	if ticket != "" {
		until = max(until, lineLingers)
	}
	c.cleanup.Add(node, l.undoing(owner, ticket), 0, until)
}

// undoing returns the release of an owner that did not begin.
func (l *latch) undoing(owner, ticket string) conn.Call {
	return l.release(owner, ticket, false)
}

// release returns the request that takes an owner out, and does what the options say for other
// libraries. begun says that the owner's acquisition came to a lease.
func (l *latch) release(owner, ticket string, begun bool) conn.Call {
	return script.For(l.kind.Release(l.keys, owner, ticket, begun, l.fenceTTL()), l.neighbours())
}

// releaseAdopted releases in the background what an attempt adopted and does not return. The run of
// a job took place, unlike that of an acquisition that is undone.
func (a *attempt) releaseAdopted() {
	c := a.client
	for node := range c.asker.Nodes() {
		c.cleanup.Add(node, a.release(a.owner, "", true), 0, max(a.options.TTL, c.liveFor()))
	}
}
