package redlatch

import (
	"context"
	"maps"
	"slices"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// Goroutines have no identity in Go, so a caller has to say for which owner it enters a lock again.
// The context of a lease says so: it carries the lease to calls for the same name under it.
// WithOwner names the owner, also across processes.

// WithOwner returns a context under which [ReentrantMutex.Lock] enters as owner, and under which
// [RWMutex.RLock] may read beside the lease of that [Lease.Owner]. So a workflow that goes on in
// another process takes its owner with it. Other kinds ignore it. Any program can name any owner:
// choose one that no other program uses, such as the id of the workflow, of 1 to 256 bytes of valid
// UTF-8 without control characters. Any other text: [ErrInvalid].
func WithOwner(ctx context.Context, owner string) context.Context {
	return ownerContext{ctx, namedOwner(owner)}
}

// namedOwner is an owner that the program named.
type namedOwner string

// These contexts have *lock.Lock as their key. It costs no allocation, unlike a key that is made of
// the name.

type ownerContext struct {
	context.Context
	owner any // a namedOwner, which costs no allocation so
}

func (c ownerContext) Value(key any) any {
	l, ok := key.(*lock.Lock)
	if !ok || l.Kind != script.Reentrant && l.Kind != script.RWMutex {
		return c.Context.Value(key)
	}
	if l.Kind == script.RWMutex { // the owner may be meant for another lock: here it would wait for its caller
		if under, ok := c.Context.Value(key).(*lease.Lease); ok && under.Held() {
			return under
		}
	}
	return c.owner
}

// WithLabels returns a context under which acquisitions carry these labels, such as the id of a
// trace, added to those of ctx, and instead of those of [Options] with the same key.
// [Client.Inspect], [Client.List], [Client.Deadlocks] and the journal show them. A context has at
// most 8 labels, including those of the contexts around it. A key has 1 to 64 bytes of valid UTF-8
// without control characters, a value up to 256 bytes of valid UTF-8. An acquisition under any
// other labels is refused with [ErrInvalid].
//
// Labels are for people, and nothing depends on them. They are written to Redis in the background,
// 100ms after the wait began or the lock was granted, unless it has ended by then. A client keeps
// those of 1024 acquisitions at once. Every user of the server that may read the keys under the
// prefix can read them: put no secrets in them.
func WithLabels(ctx context.Context, labels map[string]string) context.Context {
	all := &labelSet{labels: labels}
	if before := labelsOf(ctx); before != nil {
		all.labels = notes.Merged(before.labels, labels)
		all.invalid = before.invalid
	} else {
		all.labels = maps.Clone(labels)
	}
	if all.invalid == nil {
		all.invalid = checkLabels("the labels of the context", all.labels)
	}
	return context.WithValue(ctx, labelsKey{}, all)
}

// labelSet is the labels of a context.
type labelSet struct {
	labels  map[string]string
	invalid error // why they cannot be used
}

type labelsKey struct{}

// labelsOf returns the labels of a context, or nil if it has none.
func labelsOf(ctx context.Context) *labelSet {
	set, _ := ctx.Value(labelsKey{}).(*labelSet)
	return set
}

// labelsIn returns the labels of a context.
func labelsIn(ctx context.Context) map[string]string {
	if set := labelsOf(ctx); set != nil {
		return set.labels
	}
	return nil
}

// WithHeld returns a context that names leases of a parent process, under which a caller works and
// which the parent keeps until this process ends. If an acquisition under the context waits,
// [Waiter].Holds has them, at most 64, and [Client.Deadlocks] finds cycles through them. Lock
// itself looks only at leases of its own client. `redlatch run` passes on what it holds so.
func WithHeld(ctx context.Context, held ...Held) context.Context {
	before, _ := ctx.Value(elsewhereKey{}).([]Held)
	return context.WithValue(ctx, elsewhereKey{}, slices.Concat(before, held))
}

type elsewhereKey struct{}
