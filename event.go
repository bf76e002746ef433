package redlatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// The events are told by internal/engine; its lock/event.go lists all places to change for a new
// field of Event.

// EventType says what an [Event] reports.
//
// Every attempt, which EventAttempt begins, ends in exactly one of EventGranted and EventFailed.
// Every lease, which EventGranted begins, ends in exactly one of EventReleased, EventLost and
// EventDetached. All these events have the Event.ID of the attempt. So a gauge can count attempts
// under way, and leases held by this process. [docs/guarantees.md] has all. Less obvious:
//
//   - An acquisition that is refused before it begins has no event: the name or an option is
//     invalid, the context is done, the client is closed, or the caller holds the mutex itself. Nor
//     does a grant that comes too late to be used; it is given back.
//   - Only the first Release of a lease sends EventReleased, with Err if Redis did not confirm it.
//   - Each entry of a [ReentrantMutex], each name of a [MultiMutex], and each goroutine that a
//     [Mutex] is passed on to has its own attempt and lease. If one name fails, the attempts on
//     other names that have begun fail with the same error, and leases on other names are released.
//   - [RWMutex.Downgrade] is an attempt to read, and the end of the lease for writing.
//   - A hook that panics is called for the end all the same: with EventFailed, or with
//     EventReleased if it panicked at EventGranted.
//   - A lease that the program neither releases nor loses has no end before Close, and a process
//     that dies reports no end.
//
// EventAttempt comes before all other events of an attempt, and EventGranted before all of its
// lease. An event of the watchdog may come after the end that another goroutine reports.
//
// [docs/guarantees.md]: https://github.com/redlatch/redlatch/blob/main/docs/guarantees.md#events
type EventType string

// The types of events, in the order in which they happen, with the fields that they fill besides
// ID, Kind, Mode, Name, Owner and TTL.
const (
	EventAttempt EventType = "attempt" // an acquisition begins
	EventWait    EventType = "wait"    // the lock is taken, and the caller is in line: at most once in an attempt. Waited, until then

	// EventUnreachable says that a caller in line cannot reach Redis: requests for its place have
	// failed for Options.RequestTimeout. It waits on. The event comes once for each attempt and
	// outage. Of goroutines that share a place in line, one has it. Waited, Err.
	EventUnreachable EventType = "unreachable"

	EventReachable    EventType = "reachable"     // Redis answers again after EventUnreachable, before the attempt has ended. Waited
	EventGranted      EventType = "granted"       // the lock is held. Token, Waited, Remaining, Outcome
	EventFailed       EventType = "failed"        // the acquisition ended without the lock. Waited, Outcome, Err
	EventExtended     EventType = "extended"      // Redis confirmed an extend. Token, HeldFor, Before, Given, Remaining
	EventExtendFailed EventType = "extend_failed" // an extend got no usable answer; the client tries again. Token, Remaining, Err
	EventJeopardy     EventType = "jeopardy"      // the first EventExtendFailed in a row: held, perhaps not for long. Token, HeldFor, Remaining, Err
	EventLost         EventType = "lost"          // the lease is lost. Token, HeldFor, Reason, Err: the [*LostError]

	// EventOutlived says that the lease is held and extended, though the context given to Lock is
	// done. It comes once, at the second extend after that, about 10s to 20s with a TTL of 30s.
	// Token, HeldFor, Remaining; and Stack with [Options].TraceLeases.
	EventOutlived EventType = "outlived"

	// EventForgotten says that no code can release the lease any more: the garbage collector found
	// that the program dropped it. The lease is still extended until Close. Only with
	// [Options].TraceLeases. Token, HeldFor, Remaining, Stack.
	EventForgotten EventType = "forgotten"

	EventReleased EventType = "released" // the lease is released. Token, HeldFor; Err if Redis did not confirm it; Kept if the client keeps the lock
	EventUnkept   EventType = "unkept"   // the client no longer keeps the lock: acquired again, or given back. Token, ID of the released lease
	EventDetached EventType = "detached" // [Lease.Detach] handed the lease on: not held here, and not released. Token, HeldFor, Remaining
)

// internal/engine/lock/event.go lists what a new field of Event needs.

// Event is one thing that happened to a lock of this client: what metrics, traces and logs are made
// of. [Options.Hook] receives it. Fields that do not apply are zero. The kinds are mutex,
// reentrant, rwmutex, semaphore, slotpool, election and job; a [MultiMutex] acquires mutexes.
type Event struct {
	Type      EventType
	ID        uint64        // of the attempt and of its lease; unique in this process
	Kind      string        // of the lock, such as "mutex"
	Mode      string        // "read" or "write" for a read-write mutex, "" for the other kinds
	Name      string        // of the lock
	Owner     string        // in Redis; it changes if the attempt has to ask for a new place in line
	Token     int64         // the fencing token of the lease
	TTL       time.Duration // of the lock: LockOptions.TTL
	Waited    time.Duration // since the attempt began
	HeldFor   time.Duration // since the lock was granted
	Before    time.Duration // what remained of the lease when the extend was sent
	Given     time.Duration // what it had been given: the TTL, or less by a hand-over
	Remaining time.Duration // what remains of the lease now
	Outcome   Outcome       // of the attempt
	Reason    LossReason    // of the loss
	Kept      bool          // the lock is released for the program, and its client keeps it ([LockOptions].Linger)
	Stack     string        // of the call that acquired the lease
	Err       error
}

// LogValue returns the fields that are not zero, as a group. Durations are texts such as "1.5s",
// rounded to a microsecond, and the error is its text.
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
	duration("given", e.Given)
	duration("remaining", e.Remaining)
	text("outcome", string(e.Outcome))
	text("reason", string(e.Reason))
	if e.Kept {
		fields = append(fields, slog.Bool("kept", true))
	}
	text("stack", e.Stack)
	if e.Err != nil {
		text("error", e.Err.Error())
	}
	return slog.GroupValue(fields...)
}

// Outcome says how an acquisition ended, in one word, for metrics and logs. Values never change.
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
	OutcomeNotHeld       Outcome = "not_held"       // the lease to adopt or downgrade is gone: [ErrNotHeld]
	OutcomeMisuse        Outcome = "misuse"         // [ErrInvalid], [ErrWrongKind], [ErrDeadlock] or [ErrTooDeep]: the program has to change
	OutcomeError         Outcome = "error"          // anything else, such as a refusal of Redis
)

// Failed reports whether the program did not get what it asked for. A try that found the lock
// taken, and an acquisition that its caller or [Client.Close] called off, do not count as failed.
func (o Outcome) Failed() bool {
	switch o {
	case OutcomeGranted, OutcomeTaken, OutcomeExhausted, OutcomeCanceled, OutcomeClosed:
		return false
	}
	return true
}

// OutcomeOf returns the outcome of an acquisition that returned err. If err matches several
// outcomes, the one that ended the call counts: a wait that ran out of time on a taken lock is a
// timeout, or unreachable if Redis was.
func OutcomeOf(err error) Outcome { return Outcome(fault.OutcomeOf(err)) }

// hook is the type of [Options.Hook].
type hook = func(context.Context, Event)

// tell tells a hook, if there is one, what happened to an acquisition or a lease.
func tell(ctx context.Context, h hook, l *lock.Lock, what lock.Event) {
	if h == nil {
		return
	}
	e := Event{
		Type: EventType(what.What), ID: what.ID, Kind: l.Kind.Name, Mode: l.Mode(), Name: l.Name, Owner: what.Owner, Token: what.Token,
		TTL: l.TTL, Waited: what.Waited, HeldFor: what.HeldFor, Before: what.Before, Given: what.Given, Remaining: what.Remaining,
		Reason: LossReason(what.Reason), Kept: what.Kept, Stack: stackText(what.Callers), Err: what.Err,
	}
	if what.What == lock.Granted || what.What == lock.Failed {
		e.Outcome = OutcomeOf(what.Err)
	}
	h(ctx, e)
}

// stackText returns a call stack in the form of package runtime/debug, without the functions of
// this package with which it begins.
func stackText(callers []uintptr) string {
	if len(callers) == 0 {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(callers)
	for {
		f, more := frames.Next()
		if b.Len() > 0 || !strings.HasPrefix(f.Function, "github.com/redlatch/redlatch.") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// JoinHooks returns a hook, for [Options.Hook], that calls each of these hooks in their order. It
// leaves out those that are nil, and returns nil if all are. If a hook panics, the others are
// still called; then the last panic goes on.
func JoinHooks(hooks ...func(context.Context, Event)) func(context.Context, Event) {
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(h hook) bool { return h == nil })
	if len(hooks) == 0 {
		return nil
	}
	return func(ctx context.Context, e Event) { callAll(ctx, hooks, e) }
}

// callAll calls these hooks in their order, also those after one that panics.
func callAll(ctx context.Context, hooks []hook, e Event) {
	if len(hooks) > 0 {
		defer callAll(ctx, hooks[1:], e)
		hooks[0](ctx, e)
	}
}

// LogHook returns a hook, for Options.Hook, that writes each event to the log, with its fields as
// attributes: at level Error a lost lease, unless its client was closed; at Warn a failed
// acquisition (see [Outcome.Failed]), a lease in jeopardy, a release that Redis did not confirm, a
// waiter that cannot reach Redis or can again, and a lease that outlives its context or that the
// program dropped; at Debug all else. The logger's handler must not block. It gets the context of
// the acquisition, for trace ids.
func LogHook(logger *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		level := logLevel(e)
		if !logger.Enabled(ctx, level) {
			return
		}
		fields := e.LogValue().Group()
		logger.LogAttrs(ctx, level, "redlatch: "+logMessage(e), fields[1:]...) // but for the type, which the message tells
	}
}

// logLevel returns the level at which an event is logged.
func logLevel(e Event) slog.Level {
	switch e.Type {
	case EventLost:
		if e.Reason != LossClosed {
			return slog.LevelError
		}
	case EventJeopardy, EventOutlived, EventForgotten, EventUnreachable, EventReachable:
		return slog.LevelWarn
	case EventFailed:
		if e.Outcome.Failed() {
			return slog.LevelWarn
		}
	case EventReleased:
		if e.Err != nil {
			return slog.LevelWarn
		}
	}
	return slog.LevelDebug
}

// logMessages are what is logged of each event.
var logMessages = map[EventType]string{
	EventAttempt:      "acquiring a lock",
	EventWait:         "waiting for a lock",
	EventGranted:      "acquired a lock",
	EventFailed:       "could not acquire a lock",
	EventExtended:     "extended a lease",
	EventExtendFailed: "could not extend a lease",
	EventJeopardy:     "a lease is in jeopardy",
	EventLost:         "lost a lease",
	EventReleased:     "released a lease",
	EventUnkept:       "no longer keeps a lock",
	EventUnreachable:  "a waiter cannot reach Redis",
	EventReachable:    "a waiter reaches Redis again",
	EventOutlived:     "a lease outlives the context of its acquisition",
	EventForgotten:    "the program has dropped a lease that is held",
	EventDetached:     "detached a lease",
}

// logMessage returns the message to log for an event, or its type if it has none here.
func logMessage(e Event) string {
	if message, ok := logMessages[e.Type]; ok {
		return message
	}
	return string(e.Type)
}
