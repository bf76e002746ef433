package redlatch

import (
	"context"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
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

// The bounds of labels.
const (
	maxLabels     = 8
	maxLabelKey   = 64  // bytes
	maxLabelValue = 256 // bytes
)

// WithLabels returns a context under which acquisitions carry these labels, such as the id of a
// trace or of a request, beside those of ctx. [Client.Inspect], [Client.List] and
// [Client.Deadlocks] tell them of a holder or waiter, and the journal of what happened to it. They
// go over labels of [Options] with the same key.
//
// A context has 8 labels at most, those of the contexts around it included. A key has 1 to 64
// bytes of valid UTF-8 without control characters, a value up to 256 bytes of valid UTF-8. An
// acquisition under any other labels is refused with an error that matches [ErrInvalid].
//
// Labels are kept in Redis beside the lock, for people, and nothing depends on them. They are
// written in the background, 100 ms after the wait began or the lock was granted, and only if that
// lasts so long. A client keeps those of 1024 acquisitions at once, and leaves out the others.
// Every user of the server that may read the keys under the prefix can read them: give no secrets.
func WithLabels(ctx context.Context, labels map[string]string) context.Context {
	all := &labelSet{labels: labels}
	if before := labelsOf(ctx); before != nil {
		all.labels = merged(before.labels, labels)
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

// checkLabels returns the error of labels that cannot be used.
func checkLabels(what string, labels map[string]string) error {
	if n := len(labels); n > maxLabels {
		return invalid("%s are %d: give %d at most", what, n, maxLabels)
	}
	for key, value := range labels {
		if key == "" || len(key) > maxLabelKey {
			return invalid("%s: the key %.80q has %d bytes: give 1 to %d", what, key, len(key), maxLabelKey)
		}
		if err := keys.Printable(key); err != nil {
			return invalid("%s: the key %q: %w", what, key, err)
		}
		if len(value) > maxLabelValue {
			return invalid("%s: the value of %q has %d bytes: give %d at most", what, key, len(value), maxLabelValue)
		}
		if !utf8.ValidString(value) {
			return invalid("%s: the value of %q is not valid UTF-8", what, key)
		}
	}
	return nil
}

// merged returns the labels of both, those of over where both have the key. It returns nil if there
// are none.
func merged(base, over map[string]string) map[string]string {
	if len(base)+len(over) == 0 {
		return nil
	}
	all := make(map[string]string, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
