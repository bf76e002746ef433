// Package fault defines the errors that all floors share. The root package exports the sentinels to
// programs, as the same values, and says what each of them means.
//
//	              an error of a request
//	                       |
//	     +-----------------+------------------+
//	     |                                    |
//	the server's own                    anything else
//	(conn.ReplyError)              Unreached: ErrUnreachable, too
//
// [WhyDone] describes the end of a context, with its cause as text.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/conn"
)

// The sentinels, by what an operation met.
var (
	ErrTaken         = errors.New("taken")
	ErrLineFull      = fmt.Errorf("%w, and its line is full", ErrTaken)
	ErrExhausted     = fmt.Errorf("exhausted: %w", ErrTaken)
	ErrDeadlock      = errors.New("deadlock")
	ErrNotHeld       = errors.New("not held")
	ErrUnreachable   = errors.New("no answer from Redis")
	ErrNotReplicated = errors.New("not replicated")
	ErrWrongKind     = errors.New("wrong kind")
	ErrNotSet        = errors.New("no count is set")
	ErrInvalid       = errors.New("invalid")
	ErrTooDeep       = errors.New("entered too often")
	ErrMaxHold       = errors.New("it reached its MaxHold")
	ErrDetached      = errors.New("detached")
	ErrClosed        = errors.New("client closed")
)

// ErrTooLate says that a grant had run out before it could be used. No program sees it: the attempt
// tries again, or says what kept it.
var ErrTooLate = errors.New("granted too late")

// Invalid returns the error of a name, a URL or an option that is refused, in these words.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("redlatch: %w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Unreached marks an error that is not the server's own: it matches [ErrUnreachable], too.
func Unreached(err error) error {
	var sent *conn.ReplyError
	if errors.As(err, &sent) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// several is errors that came together, printed on one line. It is not a slice, so that programs
// can compare errors and use them as map keys.
type several struct{ errs []error }

func (s *several) Error() string {
	var all []string
	for _, err := range s.errs {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

func (s *several) Unwrap() []error { return s.errs }

// Join returns these errors as one, without those that are nil; nil if all are. An error that an
// earlier one wraps is left out: work that returns the cause of its context, and the release after
// it, report the same loss.
func Join(errs ...error) error {
	var all []error
	for _, err := range errs {
		told := func(before error) bool { return errors.Is(before, err) }
		if err != nil && !slices.ContainsFunc(all, told) {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &several{all}
}
