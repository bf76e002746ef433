package fault

import (
	"context"
	"errors"
)

// Outcome says how an acquisition ended. The values are those of the root's Outcome.
type Outcome string

// TimedOut says that MaxWait or the deadline of the context has passed.
const TimedOut Outcome = "timeout"

// outcomes are the outcomes of errors. If an error matches several, the first one counts.
var outcomes = []struct {
	err     error
	outcome Outcome
}{
	{ErrInvalid, "misuse"},
	{ErrWrongKind, "misuse"},
	{ErrDeadlock, "misuse"},
	{ErrTooDeep, "misuse"},
	{ErrClosed, "closed"},
	{ErrNotReplicated, "not_replicated"},
	{context.Canceled, "canceled"},
	{ErrUnreachable, "unreachable"}, // its cause is often the deadline of a request
	{context.DeadlineExceeded, TimedOut},
	{ErrNotHeld, "not_held"},
	{ErrLineFull, "line_full"},
	{ErrExhausted, "exhausted"},
	{ErrTaken, "taken"},
}

// OutcomeOf returns the outcome of an acquisition that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return "granted"
	}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			return o.outcome
		}
	}
	return "error"
}
