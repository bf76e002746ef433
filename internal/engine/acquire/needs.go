package acquire

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/waitgraph"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Acquirer acquires the locks of a client. Its fields are what that uses.
type Acquirer struct {
	Asker    *ask.Asker
	Undo     *lock.Undo
	Line     *line.Line
	Keeper   *lease.Keeper
	Handoffs *handoff.Queue
	Habits   *linger.Habits
	Waits    *waitgraph.Graph
	Listener *subscribe.Listener
	Notes    *notes.Book
	Presence *presence.Record
	Conn     conn.Conn

	// For a quorum only.
	Quorum  *quorum.Conn
	Contest *ballot.Contest
	Tries   *ballot.Waiters
	Restore func(ctx context.Context, l *lock.Lock) // nodes may have the right to vote again

	Prefix    string
	Timeout   time.Duration // of a request
	Heartbeat time.Duration
	LiveFor   time.Duration // how long a client is believed alive after each sign of life
	FenceTTL  time.Duration // how long Redis remembers tokens
	Now       clock.Clock
	Closing   context.Context
	Enter     func() error                    // keeps Close waiting until Leave; it fails if the client is closed
	Leave     func()                          // ends what Enter began
	Owner     func() string                   // returns a new owner
	CheckOpen func(ctx context.Context) error // returns the error of a call that should not begin

	Tell    func(ctx context.Context, l *lock.Lock, e lock.Event)
	Taken   func(l *lock.Lock, by lock.Occupant) error        // error: there is no room
	Refusal func(l *lock.Lock, reason string) error           // error: a script refuses the acquisition for good
	InUse   func(s ask.Subject, got string, size int64) error // error: the name is something else
}

// Wish is what a program says of one acquisition.
type Wish struct {
	Labels    map[string]string
	Elsewhere []notes.Held // leases of other processes under which the caller works
}
