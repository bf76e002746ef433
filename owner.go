package redlatch

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/internal/script"
)

// Goroutines have no identity in Go, so a caller has to say for which owner it enters a lock again.
// The context of a lease says so: it carries the lease to calls for the same name under it.
// WithOwner names the owner, also across processes.

// WithOwner returns a context under which [ReentrantMutex.Lock] enters as owner, and under which
// [RWMutex.RLock] may read beside the lease of that [Lease.Owner]. So a workflow that goes on in
// another process takes its owner with it. Other kinds ignore it.
//
// Any program can name any owner. Choose one that no other program uses, such as the id of the
// workflow: 1 to 256 bytes of valid UTF-8 without control characters. A lock refuses any other text
// with an error that matches [ErrInvalid].
func WithOwner(ctx context.Context, owner string) context.Context {
	return ownerContext{ctx, namedOwner(owner)}
}

// namedOwner is an owner that the program named.
type namedOwner string

// The contexts below answer when a latch is the key. It costs no allocation, unlike a key that is
// made of the name.

type ownerContext struct {
	context.Context
	owner namedOwner
}

func (c ownerContext) Value(key any) any {
	if l, ok := key.(*latch); ok && (l.kind == script.Reentrant || l.kind == script.RWMutex) {
		return c.owner
	}
	return c.Context.Value(key)
}

// leaseContext is the context of a lease.
type leaseContext struct {
	context.Context
	lease *Lease
}

// Err answers by the clock: the schedule, which ends the context when the deadline has passed, may
// be late in a process that computes.
//
// The lease is never asked under its own mu. Losing it cancels this context with mu held, and with
// it the contexts made from it. Those of the standard library take the error from that cancellation
// and do not come here.
func (c *leaseContext) Err() error {
	if c.Context.Err() == nil {
		c.lease.Remaining() // which cancels the context if it finds the lease lost
	}
	return c.Context.Err()
}

func (c *leaseContext) Value(key any) any {
	if l, ok := key.(*latch); ok && l.same(c.lease.latch) {
		return c.lease
	}
	return c.Context.Value(key)
}

// checkDeadlock returns an error if the caller holds the latch already: ctx is the context of a
// lease on the same name, and the acquisition would wait for its own caller.
func (l *latch) checkDeadlock(ctx context.Context) error {
	if lease, ok := ctx.Value(l).(*Lease); ok && lease.Held() {
		return l.failed("acquire", fmt.Errorf("%w: its context is that of the lease that holds it", ErrDeadlock))
	}
	return nil
}

// ownerFrom returns the owner that the caller acts for: that of the lease on the same latch under
// whose context it is, or one that the program named. It returns "" if there is none.
func (l *latch) ownerFrom(ctx context.Context) (string, error) {
	switch v := ctx.Value(l).(type) {
	case *Lease:
		return v.Owner(), nil
	case namedOwner:
		return string(v), printable("the owner", string(v))
	}
	return "", nil
}
