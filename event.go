package redlatch

import "time"

// EventKind says what an [Event] reports.
type EventKind string

// The events in the life of a lease, in the order in which they happen.
const (
	EventAttempt      EventKind = "attempt"       // an acquisition begins
	EventWait         EventKind = "wait"          // the lock is taken; the caller is now in line
	EventGrant        EventKind = "grant"         // the lock is held. Token, Waited, Remaining
	EventRefuse       EventKind = "refuse"        // the acquisition ended without the lock. Waited, Err
	EventExtend       EventKind = "extend"        // extended. Left: what remained when the request was sent; Remaining: now
	EventExtendFailed EventKind = "extend_failed" // an extend got no usable answer; it will be tried again. Remaining, Err
	EventJeopardy     EventKind = "jeopardy"      // the first of those in a row: the lease is held, but may not be for long
	EventLost         EventKind = "lost"          // lost. Held, Err: the [*LostError]
	EventRelease      EventKind = "release"       // released. Held; Err if Redis did not confirm it
)

// Event is one thing that happened to a lock of this client: what metrics, traces and logs are made of. [Options.Hook] receives it.
// Fields that do not apply are zero.
type Event struct {
	Kind      EventKind
	Latch     string // the kind of lock, such as "mutex"
	Name      string // of the lock
	Owner     string // of the acquisition; one that lost its place in line, or got it too late, goes on under another
	Token     int64  // the fencing token
	Waited    time.Duration
	Held      time.Duration
	Left      time.Duration
	Remaining time.Duration
	Err       error
}
