package line

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// Line is the places of one client in the lines of Redis.
type Line struct {
	Needs

	mu       sync.Mutex // guards what is below, and the fields of pollers and waiters
	byOwner  map[string]*Waiter
	pollers  map[lockID]*poller
	canceled map[string]canceled // lately, by owner
	order    []string            // their owners, in the order in which they were canceled
	forget   schedule.Entry      // for the first of them
	heeded   int                 // channels of other libraries to which the client listens
}

// Needs is what the line of a client uses.
type Needs struct {
	Asker    *ask.Asker
	Undo     *lock.Undo
	Schedule *schedule.Schedule
	Handoffs *handoff.Queue
	Listener *subscribe.Listener
	Notes    *notes.Book
	Conn     conn.Conn // to listen to other libraries

	Client    string // its id
	Heartbeat time.Duration
	LiveFor   time.Duration // how long a client is believed alive after each sign of life
	Remembers time.Duration // how long a waiter that has left may still be called
	Now       clock.Clock
	Closing   context.Context     // nothing is asked once it is done
	Go        func(f func()) bool // runs f on a goroutine that Close waits for; false if it is closed
	Owner     func() string       // returns a new owner
	Announce  func()              // tells Redis which process the client is

	Back    func(key string)                        // a server may have come back, for the name with this key
	Refusal func(l *lock.Lock, reason string) error // error: a script refuses the acquisition for good
}

// New returns the Line of a client that waits for nothing.
func New(n Needs) *Line {
	ln := &Line{
		Needs: n, byOwner: make(map[string]*Waiter), pollers: make(map[lockID]*poller), canceled: make(map[string]canceled),
	}
	ln.forget.Owner = (*forgetter)(ln)
	return ln
}

// Subscription returns the subscription by which grants of a lock are heard.
func (ln *Line) Subscription(l *lock.Lock) *subscribe.Subscription {
	return ln.Listener.For(l.Keys.State())
}

// Hears reports whether a grant of a lock would be heard now. In a cluster the client's own channel may
// be up, and that of the lock not.
func (ln *Line) Hears(l *lock.Lock) bool {
	s := ln.Subscription(l)
	return s.Connected() && s.Sharded() == ln.Listener.Sharded()
}

// Listen starts the subscription by which a lock is heard, and gives it a moment to be confirmed.
// Without it, waiters ask every [PollDisconnected]: a server or a user without publish/subscribe
// costs speed, and nothing else.
func (ln *Line) Listen(ctx context.Context, l *lock.Lock) {
	channel := ""
	if ln.Listener.Sharded() {
		channel = l.Keys.Grants(ln.Client)
	}
	ln.Listener.Connect(ctx, l.Keys.State(), channel)
}

// Request runs acquire.lua. With a ticket it is refused if so many wait; 0 for no bound.
func (ln *Line) Request(
	ctx context.Context, l *lock.Lock, owner, ticket, address string, arrival int64, most int,
) (script.Standing, ask.Answer, error) {
	ln.Announce()
	answer, err := ln.Asker.Ask(ctx, l.Subject, "acquire", l.Kind.Acquire(l.Keys, script.Request{
		Owner: owner, TTL: l.TTL, Param: l.Param, FenceTTL: l.FenceTTL,
		Ticket: ticket, Address: address, LiveFor: ln.LiveFor, Arrival: arrival, Most: most,
	}))
	if err != nil {
		return script.Standing{}, answer, err
	}
	if answer.Resent {
		ln.Back(l.Keys.State())
	}
	standing, err := script.ParseAcquire(answer.Reply)
	if err == nil && standing.Refused != "" {
		err = ln.Refusal(l, standing.Refused)
	}
	return standing, answer, err
}

// Ticket returns the ticket of an owner of this client, and the address in it.
func (ln *Line) Ticket(l *lock.Lock, owner string) (ticket, address string) {
	return ln.ticket(l, owner, false)
}

// ticket is Ticket. anyway says that the server may not count the client, though it listens.
func (ln *Line) ticket(l *lock.Lock, owner string, anyway bool) (ticket, address string) {
	s := ln.Subscription(l)
	return script.Ticket{
		// In a cluster, PUBSUB NUMSUB does not count a client that listens at another node.
		Anyway: anyway || !s.Connected() || !s.Counted() || ln.Conn.Target().Cluster && !s.Sharded(), Sharded: s.Sharded(),
		Kind: l.Kind.Name, Address: s.Address(), TTL: l.TTL, Param: l.Param, Owner: owner,
	}.String(), s.Address()
}
