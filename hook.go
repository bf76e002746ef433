package redlatch

import (
	"context"
	"log/slog"
	"slices"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// hook is the type of [Options.Hook].
type hook = func(context.Context, Event)

// tell tells the hook and the journal what happened to an acquisition or a lease.
func (c *Client) tell(ctx context.Context, l *lock.Lock, what lock.Event) {
	call := c.options.Hook
	if call == nil && c.recorder == nil {
		return
	}
	e := Event{
		Type: EventType(what.What), ID: what.ID, Kind: l.Kind.Name, Mode: l.Mode(), Name: l.Name, Owner: what.Owner, Token: what.Token,
		TTL: l.TTL, Waited: what.Waited, HeldFor: what.HeldFor, Before: what.Before, Remaining: what.Remaining,
		Reason: LossReason(what.Reason), Err: what.Err,
	}
	switch what.What {
	case lock.Granted:
		e.Outcome = OutcomeGranted
	case lock.Failed:
		e.Outcome = OutcomeOf(what.Err)
	}
	if c.recorder != nil {
		c.recorder.tap(ctx, l, e)
	}
	if call != nil {
		e.Stack = stackText(what.Callers)
		call(ctx, e)
	}
}

// JoinHooks returns a hook, for [Options.Hook], that calls each of these hooks in their order. It
// leaves out those that are nil, and returns nil if all are.
//
// A hook that panics does not keep the hooks after it from being called. The panic goes on when all
// were called. If several panic, the last one does.
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

// LogHook returns a hook, for [Options.Hook], that writes each event to the log, with its fields as
// attributes:
//
//   - at level Error a lease that is lost, unless its client was closed;
//   - at Warn an acquisition that failed (see [Outcome.Failed]), a lease in jeopardy, a release that
//     Redis did not confirm, a waiter that cannot reach Redis or can again, and a lease that outlives
//     its context or that the program has dropped;
//   - at Debug all else.
//
// So with a logger at level Info, a program that runs well logs nothing. The logger's handler must
// not block. It is called with the context of the acquisition, for handlers that add a trace's id.
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
	EventUnreachable:  "a waiter cannot reach Redis",
	EventReachable:    "a waiter reaches Redis again",
	EventOutlived:     "a lease outlives the context of its acquisition",
	EventForgotten:    "the program has dropped a lease that is held",
	EventDetached:     "detached a lease",
}

// logMessage returns what is logged of an event: its type, if that is not known here.
func logMessage(e Event) string {
	if message, ok := logMessages[e.Type]; ok {
		return message
	}
	return string(e.Type)
}
