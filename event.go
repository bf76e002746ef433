package redlatch

import "time"

// EventType says what an [Event] reports.
type EventType string

// The events in the life of a lock, in the order in which they happen. Every attempt ends in exactly one of EventGranted and EventFailed,
// and every lease that was granted ends in exactly one of EventReleased, EventLost and EventDetached.
const (
	EventAttempt      EventType = "attempt"       // an acquisition begins
	EventWait         EventType = "wait"          // the lock is taken; the caller is now in line
	EventGranted      EventType = "granted"       // the lock is held. Token, Waited, Remaining
	EventFailed       EventType = "failed"        // the acquisition ended without the lock. Waited, Outcome, Err
	EventExtended     EventType = "extended"      // extended. Before, Remaining
	EventExtendFailed EventType = "extend_failed" // an extend got no usable answer; it will be tried again. Remaining, Err
	EventJeopardy     EventType = "jeopardy"      // the first of those in a row: the lease is held, but may not be for long
	EventLost         EventType = "lost"          // lost. HeldFor, Reason, Err: the [*LostError]
	EventDetached     EventType = "detached"      // handed on by Detach, and not released. HeldFor, Remaining
	EventReleased     EventType = "released"      // released. HeldFor; Err if Redis did not confirm it
)

// Event is one thing that happened to a lock of this client: what metrics, traces and logs are made of. [Options.Hook] receives it.
// Fields that do not apply are zero.
type Event struct {
	Type      EventType
	Kind      string // of the lock, such as "mutex"
	Mode      string // "read" or "write" for a read-write lock, "" for the other kinds
	Name      string // of the lock
	Owner     string // of the acquisition; one that lost its place in line, or got it too late, goes on under another
	Token     int64  // the fencing token
	TTL       time.Duration
	Waited    time.Duration // since the attempt began
	HeldFor   time.Duration // since the lock was granted
	Before    time.Duration // what remained of the lease when the extend was sent
	Remaining time.Duration // what remains of the lease now
	Outcome   Outcome       // of the attempt
	Reason    LossReason
	Err       error
}
