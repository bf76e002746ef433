package lease

import (
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
)

// ReleasedError says that a lease is not held, since its holder released it.
type ReleasedError struct{ Name string }

func (e *ReleasedError) Error() string {
	return fmt.Sprintf("redlatch: the lease on %q is %v: it was released", e.Name, fault.ErrNotHeld)
}

func (e *ReleasedError) Unwrap() error { return fault.ErrNotHeld }

// releasedLease is the ReleasedError of a lease: every release has one, which costs no allocation.
type releasedLease Lease

func (l *releasedLease) Error() string { return (&ReleasedError{l.lock.Name}).Error() }

func (l *releasedLease) Unwrap() error { return fault.ErrNotHeld }

// heir is the owner and token of a lease that was left to another process. It is zero if they are
// the same as here.
type heir struct {
	owner string
	token int64 // a larger one than here if the owner was out in between
}

// detachedError says that a lease is not held, since it was detached.
type detachedError struct {
	name string
	heir heir
}

func (e *detachedError) Error() string {
	return fmt.Sprintf("redlatch: the lease on %q is %v here: it was %v for another process", e.name, fault.ErrNotHeld, fault.ErrDetached)
}

func (e *detachedError) Unwrap() []error { return []error{fault.ErrNotHeld, fault.ErrDetached} }
