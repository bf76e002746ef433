package redlatch

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// EventType says what an [Event] reports.
//
// Every attempt, which EventAttempt begins, ends in exactly one of EventGranted and EventFailed.
// Every lease, which EventGranted begins, ends in exactly one of EventReleased, EventLost and
// EventDetached. All these events have the [Event.ID] of the attempt. So attempts under way, and
// leases held by this process, can be counted up and down.
//
// That also holds in these cases:
//
//   - An acquisition that is refused before the client sends anything is no attempt: it tells no
//     event. The name or an option is invalid, the context is done, the client is closed, or the
//     caller holds the mutex itself.
//   - A grant that comes too late to be used is given back, and tells no event. The attempt goes on
//     waiting, or fails.
//   - The first Release of a lease tells EventReleased, also if Redis did not confirm the release:
//     then Err is not nil. A Release that repeats it, and the client's own repetitions in the
//     background, tell no event.
//   - Each entry of a [ReentrantMutex] is an attempt and a lease, and so is each name of a
//     [MultiMutex]. If one name fails, the attempts on other names that have begun fail with the
//     same error, and leases on other names are released.
//   - Goroutines that pass a [Mutex] on among themselves have an attempt and a lease each.
//   - [RWMutex.Downgrade] is an attempt to read, and the end of the lease for writing.
//   - [Client.Close] ends the leases that are held in EventLost, with [LossClosed].
//   - A hook that panics when it is told of an attempt is told of its end in EventFailed. One that
//     panics at EventGranted is told of the end in EventReleased: the lease is given back.
//
// A lease that the program neither releases nor loses has no end before Close, and a process that
// dies tells no end. EventOutlived and EventForgotten tell of such leases, and are no ends.
//
// EventAttempt comes before all other events of an attempt, and EventGranted before all of its
// lease. An event that the watchdog tells may come after the end that another goroutine tells.
type EventType string

// The types of events, in the order in which they happen, with the fields that they fill beside ID,
// Kind, Mode, Name, Owner and TTL.
const (
	// EventAttempt says that an acquisition begins.
	EventAttempt EventType = "attempt"

	// EventWait says that the lock is taken, and the caller in line. An attempt tells it once at
	// most. Waited: until then.
	EventWait EventType = "wait"

	// EventUnreachable says that a caller in line cannot reach Redis: requests for its place have
	// failed for Options.RequestTimeout. It waits on. An attempt tells it once for each outage. Of
	// goroutines that share a place in line, the one that stands there tells it. Waited, Err.
	EventUnreachable EventType = "unreachable"

	// EventReachable says that Redis answers again, after EventUnreachable. An attempt that ends
	// before that does not tell it. Waited.
	EventReachable EventType = "reachable"

	// EventGranted says that the lock is held. Token, Waited, Remaining, Outcome.
	EventGranted EventType = "granted"

	// EventFailed says that the acquisition ended without the lock. Waited, Outcome, Err.
	EventFailed EventType = "failed"

	// EventExtended says that Redis confirmed an extend. Token, HeldFor, Before, Remaining.
	EventExtended EventType = "extended"

	// EventExtendFailed says that an extend got no usable answer. The client tries again. Token,
	// Remaining, Err.
	EventExtendFailed EventType = "extend_failed"

	// EventJeopardy comes with the first EventExtendFailed in a row: the lease is held, but may not
	// be for long. Token, HeldFor, Remaining, Err.
	EventJeopardy EventType = "jeopardy"

	// EventLost says that the lease is lost. Token, HeldFor, Reason, Err: the [*LostError].
	EventLost EventType = "lost"

	// EventOutlived says that the lease is held and extended, though the context that was given to
	// Lock is done: does any code still release it? A lease tells it once, at the second extend
	// after that, some 10s to 20s with a TTL of 30s. Token, HeldFor, Remaining; and Stack with
	// [Options].TraceLeases.
	EventOutlived EventType = "outlived"

	// EventForgotten says that no code can release the lease any more: the garbage collector has
	// found that the program dropped it. It is extended until Close all the same, since the work
	// under it may go on. Only with [Options].TraceLeases. Token, HeldFor, Remaining, Stack.
	EventForgotten EventType = "forgotten"

	// EventReleased says that the lease is released. Token, HeldFor; and Err if Redis did not
	// confirm the release.
	EventReleased EventType = "released"

	// EventDetached says that [Lease.Detach] handed the lease on: it is not held here any more, and
	// not released. Token, HeldFor, Remaining.
	EventDetached EventType = "detached"
)

// Event is one thing that happened to a lock of this client: what metrics, traces and logs are made
// of. [Options.Hook] receives it. Fields that do not apply are zero. The kinds are mutex, reentrant,
// rwmutex, semaphore, slotpool, election and job; a [MultiMutex] acquires mutexes.
type Event struct {
	Type      EventType
	ID        uint64        // of the attempt and of its lease; no other of this process has it
	Kind      string        // of the lock, such as "mutex"
	Mode      string        // "read" or "write" for a read-write mutex, "" for the other kinds
	Name      string        // of the lock
	Owner     string        // in Redis; it changes if the attempt has to ask for a new place in line
	Token     int64         // the fencing token of the lease
	TTL       time.Duration // of the lock: LockOptions.TTL
	Waited    time.Duration // since the attempt began
	HeldFor   time.Duration // since the lock was granted
	Before    time.Duration // what remained of the lease when the extend was sent
	Remaining time.Duration // what remains of the lease now
	Outcome   Outcome       // of the attempt
	Reason    LossReason    // of the loss
	Stack     string        // of the call that acquired the lease
	Err       error
}

// LogValue returns the fields that are not zero, as a group: `slog.Info("lock", "event", e)`.
// Durations are texts such as "1.5s", rounded to a microsecond, and the error is its text, in every
// handler.
func (e Event) LogValue() slog.Value {
	fields := make([]slog.Attr, 0, 16)
	text := func(key, value string) {
		if value != "" {
			fields = append(fields, slog.String(key, value))
		}
	}
	duration := func(key string, d time.Duration) {
		if d = d.Round(time.Microsecond); d != 0 {
			text(key, d.String())
		}
	}
	text("type", string(e.Type))
	if e.ID != 0 {
		fields = append(fields, slog.Uint64("id", e.ID))
	}
	text("kind", e.Kind)
	text("mode", e.Mode)
	text("name", e.Name)
	text("owner", e.Owner)
	if e.Token != 0 {
		fields = append(fields, slog.Int64("token", e.Token))
	}
	duration("ttl", e.TTL)
	duration("waited", e.Waited)
	duration("held_for", e.HeldFor)
	duration("before", e.Before)
	duration("remaining", e.Remaining)
	text("outcome", string(e.Outcome))
	text("reason", string(e.Reason))
	text("stack", e.Stack)
	if e.Err != nil {
		text("error", e.Err.Error())
	}
	return slog.GroupValue(fields...)
}

// Outcome says how an acquisition ended, in one word: what metrics and logs count by. The values do
// not change.
type Outcome string

// The outcomes of an acquisition.
const (
	OutcomeGranted       Outcome = "granted"        // there is a lease
	OutcomeTaken         Outcome = "taken"          // a try that found the lock taken: [ErrTaken]
	OutcomeExhausted     Outcome = "exhausted"      // a try that found no slot, or too few permits: [ErrExhausted]
	OutcomeLineFull      Outcome = "line_full"      // a wait that was refused, since MaxWaiters waited already: [ErrLineFull]
	OutcomeTimeout       Outcome = "timeout"        // MaxWait or the context's deadline passed
	OutcomeCanceled      Outcome = "canceled"       // the context was canceled
	OutcomeUnreachable   Outcome = "unreachable"    // Redis gave no usable answer in time: [ErrUnreachable]
	OutcomeNotReplicated Outcome = "not_replicated" // too few replicas acknowledged it: [ErrNotReplicated]
	OutcomeClosed        Outcome = "closed"         // the client was closed: [ErrClosed]
	OutcomeNotHeld       Outcome = "not_held"       // there is no such lease any more to adopt or downgrade: [ErrNotHeld]
	OutcomeMisuse        Outcome = "misuse"         // [ErrInvalid], [ErrWrongKind], [ErrDeadlock] or [ErrTooDeep]: the program has to change
	OutcomeError         Outcome = "error"          // anything else, such as a refusal of Redis
)

// Failed reports whether the program did not get what it asked for. A try that found the lock taken
// is told what it asked, and an acquisition that its caller or [Client.Close] called off has no need
// of it: neither has failed.
func (o Outcome) Failed() bool {
	switch o {
	case OutcomeGranted, OutcomeTaken, OutcomeExhausted, OutcomeCanceled, OutcomeClosed:
		return false
	}
	return true
}

// OutcomeOf returns the outcome of an acquisition that returned err. If err matches several
// outcomes, the one that ended the call counts: a wait that ran out of time on a lock that was
// taken is a timeout.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OutcomeGranted
	case matches(err, ErrInvalid, ErrWrongKind, ErrDeadlock, ErrTooDeep):
		return OutcomeMisuse
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case errors.Is(err, ErrNotReplicated):
		return OutcomeNotReplicated
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	case errors.Is(err, ErrUnreachable): // its cause is often the deadline of a request
		return OutcomeUnreachable
	case errors.Is(err, context.DeadlineExceeded):
		return OutcomeTimeout
	case errors.Is(err, ErrNotHeld):
		return OutcomeNotHeld
	case errors.Is(err, ErrLineFull):
		return OutcomeLineFull
	case errors.Is(err, ErrExhausted):
		return OutcomeExhausted
	case errors.Is(err, ErrTaken):
		return OutcomeTaken
	}
	return OutcomeError
}

func matches(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
