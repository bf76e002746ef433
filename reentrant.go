package redlatch

import (
	"context"
	"strconv"

	"github.com/redlatch/redlatch/internal/script"
)

// ReentrantMutex is a lock that its owner can enter again. The owner is whoever acts under the context of a lease on it, or under the
// owner that [WithOwner] names; otherwise each acquisition is an owner of its own. Make it with [Client.ReentrantMutex]; it does not
// change, costs nothing and is safe for concurrent use.
//
// Each entry is a lease of its own, which is extended, released and lost alone; the lock is free when the last one is over. All entries
// of an owner have the same fencing token: the work of nested entries is one work.
//
// In Redis it is a hash with one field: the owner, and the number of its entries. `HGET key owner` reads it.
type ReentrantMutex struct {
	latch latch
	depth int
}

// ReentrantMutex returns the reentrant mutex of that name, with the lease options of the client. It sends nothing; a name that cannot be
// used is refused by the first call that takes it.
func (c *Client) ReentrantMutex(name string) *ReentrantMutex {
	return &ReentrantMutex{latch: newLatch(c, script.Reentrant, name)}
}

// With returns the same mutex with other lease options; what is zero in o stays as it is.
func (m *ReentrantMutex) With(o LockOptions) *ReentrantMutex {
	return &ReentrantMutex{m.latch.with(o), m.depth}
}

// WithDepth returns the same mutex with a bound on how many entries its owner may have at once; 0 for none. Entering once more is an
// error that matches [ErrTooDeep], and not [ErrTaken]: a recursion without end is found early.
func (m *ReentrantMutex) WithDepth(n int) *ReentrantMutex {
	next := &ReentrantMutex{m.latch, n}
	if n < 0 && next.latch.invalid == nil {
		next.latch.invalid = invalid("a depth of %d: give 0 for no bound", n)
	}
	return next
}

// Options returns the options in effect: those of the client under those of With.
func (m *ReentrantMutex) Options() LockOptions { return m.latch.options }

// Name is the name of the mutex, without the prefix.
func (m *ReentrantMutex) Name() string { return m.latch.name }

// Lock enters the mutex: at once if it is free or its owner is inside already, also past the line; else it waits as [Mutex.Lock] does.
//
// A lease's context ends with the lease, and a nested entry with it. The errors are those of [Mutex.Lock]; and [ErrTooDeep] if the
// owner may not enter more often.
func (m *ReentrantMutex) Lock(ctx context.Context) (*Lease, error) { return m.enter(ctx, true) }

// TryLock enters the mutex if it is free or its owner is inside already, and never waits; otherwise the error matches [ErrTaken]. In all
// else it is like [ReentrantMutex.Lock].
func (m *ReentrantMutex) TryLock(ctx context.Context) (*Lease, error) { return m.enter(ctx, false) }

// Do runs f inside the mutex, as [Mutex.Do] does. f locks the same mutex again with the context that it is given.
func (m *ReentrantMutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.cover(ctx, f)
}

func (m *ReentrantMutex) enter(ctx context.Context, wait bool) (*Lease, error) {
	owner, err := m.latch.nested(ctx)
	if err != nil {
		return nil, err
	}
	if owner == "" {
		owner = m.latch.client.owner()
	}
	l := m.latch.asking(strconv.Itoa(m.depth) + ":" + owner)
	l.alias = owner
	return l.acquire(ctx, wait)
}
