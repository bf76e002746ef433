package lock

import (
	"time"

	"github.com/redlatch/redlatch/internal/link/cleanup"
)

// LineTTL is how long a line stays without a heartbeat, as in tickets.lua. A ticket does not expire
// with a lease: if its client waits for anything else, Redis believes the client alive. Redis would
// grant the lock to the ticket in turn, and no waiter would be there. So the client keeps sending
// its release for that long.
const LineTTL = time.Hour

// Undo undoes in the background what an acquisition that failed or was canceled may have left
// behind: see package internal/link/cleanup. An unused owner may be inside, in line, or on
// its way in a request that got no answer. What is called for it:
//
//	an acquisition ends without a lease           Abandon; LeaveLine if all its requests were answered
//	a node of a quorum: a request got no answer   AbandonAt
//	                    all were answered         LeaveAt; WithdrawAt for the ticket
//	a waiter is called after it has left          Abandon, by line/grants.go
//	a lease: its release got no answer            Lease.undoLocked, which keeps a job's run
//	         at a node of a quorum                Lease.undoLateLocked, or undoAtLocked if all were answered
//	         a request got no answer              MarkResent and MarkLateAt, which undo it at its end
//	an adoption ends without a lease              ReleaseAdopted, which keeps a job's run
type Undo struct {
	Queue   *cleanup.Queue
	Nodes   int           // of a quorum; else 1
	LiveFor time.Duration // how long a client is believed alive after each sign of life
	Sharded func() bool   // whether the client has sharded channels
}

// Abandon releases an owner of this client in the background, until it is neither inside nor in
// line.
func (u *Undo) Abandon(l *Lock, owner, ticket string) {
	for node := range u.Nodes {
		u.AbandonAt(node, l, owner, ticket)
	}
}

// LeaveLine is Abandon for a waiter in the line of one server that has answered all its requests.
func (u *Undo) LeaveLine(l *Lock, owner, ticket string) {
	u.Queue.AddWaiter(0, l.Release(owner, ticket, false, u.Sharded()), max(u.until(l), LineTTL))
}

// AbandonAt is Abandon at one node of a quorum.
func (u *Undo) AbandonAt(node int, l *Lock, owner, ticket string) {
	until := u.until(l)
	if ticket != "" {
		until = max(until, LineTTL)
	}
	u.Queue.Add(node, l.Release(owner, ticket, false, u.Sharded()), 0, until)
}

// LeaveAt has an owner leave a node of a quorum that has answered all its requests.
func (u *Undo) LeaveAt(node int, l *Lock, owner string) {
	u.Queue.AddAnswered(node, l.Release(owner, "", false, u.Sharded()), u.until(l), nil)
}

// until returns how long a release of an acquisition that never began is useful. The window of a
// job that never ran outlasts its lease, and so does the rest of a slot.
func (u *Undo) until(l *Lock) time.Duration { return max(l.TTL+l.Extra, u.LiveFor) }

// WithdrawAt takes a ticket off the line of a node of a quorum that has answered all requests with it.
func (u *Undo) WithdrawAt(node int, l *Lock, waiter, ticket string) {
	u.Queue.AddOnce(node, l.Release(waiter, ticket, false, u.Sharded()), max(l.TTL, u.LiveFor, LineTTL))
}

// ReleaseAdopted releases in the background what an attempt adopted and does not return. The run of
// a job took place, unlike that of an acquisition that is undone.
func (u *Undo) ReleaseAdopted(l *Lock, owner string) {
	for node := range u.Nodes {
		u.Queue.Add(node, l.Release(owner, "", true, u.Sharded()), 0, max(l.TTL+l.Rest(), u.LiveFor))
	}
}
