package lease

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Needs is what the leases of a client use.
type Needs struct {
	Asker    *ask.Asker
	Cleanup  *cleanup.Queue
	Schedule *schedule.Schedule
	Handoffs *handoff.Queue
	Habits   *linger.Habits
	Listener *subscribe.Listener

	Now      clock.Clock
	Owner    func() string           // returns a new owner
	Closing  context.Context         // no extend outlasts it
	Go       func(f func()) bool     // runs f on a goroutine that Close waits for; false if it is closed
	Node     func(key string) string // returns the node of a key in a cluster; nil elsewhere
	Quorum   bool                    // the servers are independent
	Timeout  time.Duration           // of a request
	LiveFor  time.Duration           // how long a client is believed alive after each sign of life
	FenceTTL time.Duration           // how long Redis remembers tokens

	Restore  func(l *lock.Lock)                                    // a node of a quorum may have the right to vote again
	Bequeath func(until time.Time)                                 // this client's record is needed until then
	Ended    func(owner string)                                    // a lease is not held any more
	Kept     func(owner string, since time.Time)                   // a lease has been kept unused for a while
	Tell     func(ctx context.Context, l *lock.Lock, e lock.Event) // what happened to a lease

	// Lost returns the error of a lease that is lost.
	Lost func(on *lock.Lock, owner string, token int64, why lock.Loss) error
}

// releasing returns the request that releases an owner. With MinHold, it says how long the lock
// stays closed, unless the lease was given back unused. A lease that was lost leaves its lock as if
// it had run out in Redis: open, whatever its MinHold, and its slot at rest.
func (n *Needs) releasing(on *lock.Lock, owner, ticket string, token int64, unused, lost bool) conn.Call {
	call := on.Release(owner, ticket, true, n.Listener.Sharded())
	switch {
	case lost && on.Kind.Name == script.SlotPool.Name:
		return script.AtRest(call, on.Extra)
	case on.MinHold > 0 && !unused && !lost:
		return script.AtLeast(call, token, on.MinHold)
	}
	return call
}
