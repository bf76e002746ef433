package fence

import (
	"errors"
	"fmt"
)

// The errors of guards, for errors.Is.
var (
	// ErrStale says that a write was refused, because its token is older than the newest seen or
	// its lease was no longer held. The error is also a [*StaleError].
	ErrStale = errors.New("stale fencing token")

	// ErrInvalid says that an argument was refused, before anything was sent.
	ErrInvalid = errors.New("invalid")
)

// StaleError says that a write was refused and nothing of it was done. It matches [ErrStale].
type StaleError struct {
	Name    string // of what the token is for: a lock, or a key
	Token   int64  // that was refused; 0 or less if the lease was not held any more
	Current int64  // the newest seen; 0 if none was, or if the guard did not look
}

// Error names the lock and both tokens.
func (e *StaleError) Error() string {
	if e.Token <= 0 {
		return fmt.Sprintf("redlatch: write refused for %q: no token, the lease was no longer held; lock again and start over", e.Name)
	}
	return fmt.Sprintf("redlatch: write refused for %q: token %d is stale, a later holder has been here with %d; lock again and start over",
		e.Name, e.Token, e.Current)
}

// Unwrap makes the error match [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }
