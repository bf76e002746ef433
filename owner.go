package redlatch

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/script"
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
	if l, ok := key.(*latch); ok && (l.Kind == script.Reentrant || l.Kind == script.RWMutex) {
		return c.owner
	}
	return c.Context.Value(key)
}

// leaseContext is a lease as the context of its work.
type leaseContext Lease

// workContext is a context that ends when the lease is not held any more, or the context that was
// given to Lock is done.
type workContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// working returns the workContext of a lease. It makes it when it is first asked for: most leases
// are released before any code waits for their end.
func (l *Lease) working() *workContext {
	if w := l.work.Load(); w != nil {
		return w
	}
	l.mu.Lock()
	over := l.state > inJeopardy
	l.mu.Unlock()
	parent := l.parent
	if over { // which the parent's end cannot change any more
		parent = context.WithoutCancel(parent)
	}
	w := new(workContext)
	w.Context, w.cancel = context.WithCancelCause(parent) // without mu: the parent may be another lease's
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.work.CompareAndSwap(nil, w) {
		w.cancel(nil)
		return l.work.Load()
	}
	if l.state > inJeopardy {
		w.cancel(l.err)
	}
	return w
}

// cancel ends the context of a lease that has just ended for this reason. The caller holds l.mu.
func (l *Lease) cancel(why error) {
	if w := l.work.Load(); w != nil {
		w.cancel(why)
	}
}

// isDone reports whether a context is done.
func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func (c *leaseContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *leaseContext) Done() <-chan struct{} { return (*Lease)(c).working().Done() }

// Err answers by the clock: the schedule, which ends the context when the deadline has passed, may
// be late in a process that computes.
//
// The lease is never asked under its own mu. Losing it cancels this context with mu held, and with
// it the contexts made from it. Those of the standard library take the error from that cancellation
// and do not come here.
func (c *leaseContext) Err() error {
	l := (*Lease)(c)
	if w := l.work.Load(); w != nil && w.Err() != nil {
		return w.Err()
	}
	if l.Remaining() > 0 && l.parent.Err() == nil { // Remaining ends the lease if it finds it lost
		return nil
	}
	return l.working().Err()
}

func (c *leaseContext) Value(key any) any {
	if l, ok := key.(*latch); ok {
		if l.Same(&c.latch.Lock) {
			return (*Lease)(c)
		}
		return c.parent.Value(key)
	}
	if key == (heldKey{}) {
		return c
	}
	return (*Lease)(c).working().Value(key) // and not of the parent: contexts made from this one look for it
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
