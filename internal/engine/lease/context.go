package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// UnderKey is the key for which a context of leases returns itself, an [Under].
type UnderKey struct{}

// Under is a context of leases.
type Under interface {
	// Held returns the leases, and the context around this one.
	Held() ([]*Lease, context.Context)
}

// Held implements [Under].
func (c *work) Held() ([]*Lease, context.Context) { return []*Lease{(*Lease)(c)}, c.parent }

// working returns the workContext of a lease. The first call makes it: most leases are released
// before any code waits for their end.
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
	w := new(workContext) // without mu: the parent may be another lease's, or the program's
	w.around = around{parent, parent.Done(), parent.Value(endsKey)}
	w.Context, w.cancel = context.WithCancelCause(&w.around)
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

// String is what fmt prints. Without it, fmt would read the lease without its mutex.
func (c *work) String() string { return fmt.Sprintf("%v.WithLease(%q)", c.parent, c.lock.Name) }

func (c *work) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *work) Done() <-chan struct{} { return (*Lease)(c).working().Done() }

// Err goes by the clock: the schedule, which ends the context when the deadline has passed, may be
// late in a busy process.
//
// Err is never called under the lease's own mu. Losing the lease cancels this context with mu held,
// and with it the contexts made from it. Those of the standard library take the error from that
// cancellation and do not call Err.
func (c *work) Err() error {
	l := (*Lease)(c)
	if !over(c, l.keeper, l.keeper.Now()) {
		return nil
	}
	return l.working().Err()
}

// over reports whether a context is done, at this time by the clock of k. It does not read the
// clock again for leases of that client, however deeply they are nested.
func over(ctx context.Context, k *Keeper, now clock.Reading) bool {
	for {
		c, ok := ctx.(*work)
		if !ok {
			return ctx.Err() != nil
		}
		l := (*Lease)(c)
		if w := l.work.Load(); w != nil && w.Err() != nil {
			return true
		}
		if l.keeper != k {
			k, now = l.keeper, l.keeper.Now()
		}
		if l.remainingAt(now) <= 0 { // which ends the lease if it is lost
			return true
		}
		ctx = l.parent
	}
}

func (c *work) Value(key any) any {
	if l, ok := key.(*lock.Lock); ok {
		if l.Same(c.lock) {
			return (*Lease)(c)
		}
		return c.parent.Value(key)
	}
	if key == (UnderKey{}) {
		return c
	}
	// With the parent's answer, the context package would find another Done, and need a goroutine.
	if key == endsKey {
		return (*Lease)(c).working().Value(key)
	}
	return c.parent.Value(key)
}
