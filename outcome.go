package redlatch

import (
	"context"
	"errors"
)

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
