package redlatch

import (
	"context"
	"log/slog"
)

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
