// Package exit defines the exit codes of redlatch, and errors that carry a code and a hint.
package exit

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
)

// The exit codes. Those from 64 to 78 mean what sysexits.h says, and 126 and 127 what they mean in
// a shell. A command killed by signal n makes 128+n. Otherwise, `redlatch run` exits as its command
// does.
const (
	Failed      = 1   // anything else: a lock to release has no holder, doctor found a fault, or verify a violation
	Unknown     = 2   // a verification could conclude nothing
	Usage       = 64  // a flag, an argument or a name that makes no sense; nothing was done
	WrongKind   = 65  // the name is in use for another kind of lock, or for something that is none
	Unreachable = 69  // Redis did not answer, or refused to
	System      = 71  // the operating system refused what the program needs for itself
	Taken       = 75  // another client holds the lock; `run` chooses in whoTook (hold/run.go) and hold/target.go
	Lost        = 79  // the lease was lost, while the command ran or before adopt or unlock
	CannotRun   = 126 // the command was found and could not be started
	NotFound    = 127 // the command was not found
)

// Error is an error that knows how the program should end.
type Error struct {
	Code int
	Err  error  // nil if nothing is left to print, as when a command failed by itself
	Hint string // what to do about it; may be empty
	Left string // what is left to print, if the user was told of Err before
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// New returns an error with a code and a hint, which may be empty.
func New(code int, err error, hint string) *Error { return &Error{Code: code, Err: err, Hint: hint} }

// Silent returns an error for which nothing more is printed.
func Silent(code int) *Error { return &Error{Code: code} }

// Usagef returns the error for a command line that makes no sense.
func Usagef(hint, format string, args ...any) error {
	return New(Usage, fmt.Errorf(format, args...), hint)
}

// Of returns an error of the library with its exit code.
func Of(err error) *Error {
	var e *Error
	var refused *conn.ReplyError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, redlatch.ErrInvalid):
		return New(Usage, err, "")
	case errors.Is(err, redlatch.ErrTaken): // before ErrUnreachable: a wait that ran out may match both
		return New(Taken, err, "")
	case errors.Is(err, redlatch.ErrUnreachable), errors.As(err, &refused) && !errors.Is(err, redlatch.ErrWrongKind):
		return New(Unreachable, err, "")
	case errors.Is(err, redlatch.ErrWrongKind):
		return New(WrongKind, err, "")
	}
	return New(Failed, err, "")
}

// LostOr returns err, with the exit code Lost if it is the error of a lease that has ended.
func LostOr(err error) error {
	if errors.Is(err, redlatch.ErrNotHeld) && !errors.As(err, new(*Error)) {
		return New(Lost, err, "")
	}
	return err
}
