package redlatch

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
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

// The context answers when a *lock.Lock is the key. It costs no allocation, unlike a key that is
// made of the name.

type ownerContext struct {
	context.Context
	owner namedOwner
}

func (c ownerContext) Value(key any) any {
	if l, ok := key.(*lock.Lock); ok && (l.Kind == script.Reentrant || l.Kind == script.RWMutex) {
		return c.owner
	}
	return c.Context.Value(key)
}

// checkDeadlock returns an error if the caller holds the latch already: ctx is the context of a
// lease on the same name, and the acquisition would wait for its own caller.
func (l *latch) checkDeadlock(ctx context.Context) error {
	if held, ok := ctx.Value(&l.Lock).(*lease.Lease); ok && held.Held() {
		return l.failed("acquire", fmt.Errorf("%w: its context is that of the lease that holds it", ErrDeadlock))
	}
	return nil
}

// ownerFrom returns the owner that the caller acts for: that of the lease on the same latch under
// whose context it is, or one that the program named. It returns "" if there is none.
func (l *latch) ownerFrom(ctx context.Context) (string, error) {
	switch v := ctx.Value(&l.Lock).(type) {
	case *lease.Lease:
		return v.NamedOwner(), nil
	case namedOwner:
		return string(v), printable("the owner", string(v))
	}
	return "", nil
}
