package cli

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
)

// Exit codes. Those from 64 to 78 mean what sysexits.h says, 126 and 127 what they mean in a shell,
// and a command that died of signal n makes 128+n. `redlatch run` otherwise exits as its command
// does.
const (
	exitFailure     = 1   // anything else, such as a release of a lock that nobody holds
	exitUsage       = 64  // a flag, an argument or a name that makes no sense; nothing was done
	exitWrongKind   = 65  // the name is in use for another kind of lock, or for something that is none
	exitUnreachable = 69  // Redis did not answer, or refused to
	exitSystem      = 71  // the operating system refused what the program needs for itself
	exitTaken       = 75  // somebody else holds the lock
	exitLost        = 79  // the lease was lost: while the command ran, which was stopped; or before it was adopted or unlocked
	exitCannotRun   = 126 // the command was found and could not be started
	exitNotFound    = 127 // the command was not found
)

// failure is an error that knows how the program should end.
type failure struct {
	code int
	err  error  // nil if all has been said, as by a command that failed by itself
	hint string // what to do about it; may be empty
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usagef is a failure of whoever typed the command line.
func usagef(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), hint}
}

// asFailure gives an error of the library its exit code and its hint.
func asFailure(err error) *failure {
	var f *failure
	var refused *conn.ReplyError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, redlatch.ErrInvalid):
		return &failure{exitUsage, err, ""}
	case errors.Is(err, redlatch.ErrTaken): // before ErrUnreachable: a wait that ran out of time also tells of an outage
		return &failure{exitTaken, err, ""}
	case errors.Is(err, redlatch.ErrUnreachable):
		return &failure{exitUnreachable, err, ""}
	case errors.Is(err, redlatch.ErrWrongKind):
		return &failure{exitWrongKind, err, ""}
	case errors.As(err, &refused):
		return &failure{exitUnreachable, err, ""}
	}
	return &failure{exitFailure, err, ""}
}
