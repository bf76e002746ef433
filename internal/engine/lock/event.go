package lock

import "time"

// What happened to an acquisition or a lease.
type What string

// The values are those of the root's EventType.
const (
	Attempt      What = "attempt"
	Wait         What = "wait"
	Unreachable  What = "unreachable"
	Reachable    What = "reachable"
	Granted      What = "granted"
	Failed       What = "failed"
	Released     What = "released"
	Lost         What = "lost"
	Extended     What = "extended"
	ExtendFailed What = "extend_failed"
	Jeopardy     What = "jeopardy"
	Detached     What = "detached"
	Unkept       What = "unkept"
	Outlived     What = "outlived"
	Forgotten    What = "forgotten"
)

// Event is what the client is told of an acquisition or of a lease. The packages acquire and lease fill
// it in where it happens; their methods emit (acquire/tell.go, lease/lease.go) set the fields that all
// events have, and acquire/reentry.go sets them itself.
//
// A new field also goes into
//   - the root's event.go (Event and its comment on which event has it, LogValue and tell), and
//     docs/guarantees.md under Events;
//   - engine/recorder.go and record/journal if the journal has it; then also the root's journal.go,
//     journal.lua, fleet/entry.go, and the command's cli/report/json.go and help/log.txt;
//   - redlatchprom and redlatchotel if a metric or a span has it;
//   - the command's cli/talk/event.go and app/help/run.txt if its JSON has it;
//   - world/told.go of the simulation and tests/internal/help/events.go if they can check it.
type Event struct {
	What      What
	ID        uint64 // of the acquisition
	Owner     string
	Token     int64
	Waited    time.Duration // of an acquisition, until now
	HeldFor   time.Duration
	Before    time.Duration // of an extend: what was left
	Given     time.Duration // of an extend: what the lease was given before
	Remaining time.Duration
	Reason    Reason    // of a loss
	Kept      bool      // a release: the client keeps the lock
	Err       error     // of a loss, of an extend or of a release
	Callers   []uintptr // of the acquisition, if that was noted
}

// Reason is why a lease was lost.
type Reason string

// The values are those of the root's LossReason, which says more about each.
const (
	ReasonExpired    Reason = "expired"
	ReasonGone       Reason = "gone"
	ReasonDeleted    Reason = "deleted"
	ReasonForgotten  Reason = "forgotten"
	ReasonForced     Reason = "forced"
	ReasonMaxHold    Reason = "max_hold"
	ReasonNotRenewed Reason = "not_renewed"
	ReasonClosed     Reason = "closed"
)

// Told reports whether it was Redis that said that the lease is gone.
func (r Reason) Told() bool {
	return r == ReasonGone || r == ReasonDeleted || r == ReasonForgotten || r == ReasonForced
}

// Loss is why a lease is lost.
type Loss struct {
	Reason Reason
	Note   string // of the forced release, if it is known: see script.ParseNote
}
