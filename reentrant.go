package redlatch

import (
	"context"
	"strconv"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// ReentrantMutex is a lock that its owner can enter again. A call under the context of a lease on
// the mutex acts for the owner of that lease. A call under [WithOwner] acts for the owner that it
// names. Any other call is an owner of its own. Make it with [Client.ReentrantMutex]; it does not
// change, costs nothing and is safe for concurrent use.
//
// Each entry is a lease of its own, which is extended, released and lost alone. The lock is free
// when the last entry has ended. All entries of an owner have the same fencing token: the work of
// nested entries is one work. So entries of one owner do not exclude each other: goroutines that
// share the context of a lease, or processes that name the same owner, are inside together.
//
// In Redis it is a hash with one field: the owner, and the number of its entries. `HGET key owner`
// reads it.
type ReentrantMutex struct {
	latch latch
	depth int
}

// ReentrantMutex returns the reentrant mutex of that name, with the options of the client. It sends
// nothing; a name that cannot be used is refused by the first call on the mutex.
func (c *Client) ReentrantMutex(name string) *ReentrantMutex {
	return &ReentrantMutex{latch: newLatch(c, script.Reentrant, name)}
}

// With returns the same mutex with other options. A zero field of o leaves the option as it is.
func (m *ReentrantMutex) With(o LockOptions) *ReentrantMutex {
	return &ReentrantMutex{m.latch.with(o), m.depth}
}

// WithDepth returns the same mutex with a bound on how many entries its owner may have at once; 0
// for no bound. An entry beyond it is an error that matches [ErrTooDeep], and not [ErrTaken]: so a
// recursion without end is found early.
func (m *ReentrantMutex) WithDepth(n int) *ReentrantMutex {
	next := &ReentrantMutex{m.latch, n}
	if n < 0 && next.latch.invalid == nil {
		next.latch.invalid = invalid("a depth of %d: give 0 for no bound", n)
	}
	return next
}

// Options returns the options in effect: those of the client under those of With.
func (m *ReentrantMutex) Options() LockOptions { return m.latch.options }

// Name returns the name of the mutex, without the prefix.
func (m *ReentrantMutex) Name() string { return m.latch.Name }

// Key returns the key of the mutex in Redis: Options.Prefix and the name.
func (m *ReentrantMutex) Key() string { return m.latch.Keys.State() }

// Lock enters the mutex. It returns at once if the mutex is free, or if its owner is inside
// already, also past the line. Otherwise it waits as [Mutex.Lock] does.
//
// The context of a nested entry is done when that of the entry around it is. The nested lease must
// be released all the same. The errors are those of [Mutex.Lock]; and [ErrTooDeep] if the owner may
// not enter more often.
func (m *ReentrantMutex) Lock(ctx context.Context) (*Lease, error) { return m.enter(ctx, true) }

// TryLock enters the mutex if it is free or its owner is inside already. It never waits: otherwise
// the error matches [ErrTaken]. All else is as for [ReentrantMutex.Lock].
func (m *ReentrantMutex) TryLock(ctx context.Context) (*Lease, error) { return m.enter(ctx, false) }

// Do runs f inside the mutex, as [Mutex.Do] does. f locks the same mutex again with the context
// that it is given.
func (m *ReentrantMutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.runHeld(ctx, f)
}

// TryDo runs f inside the mutex if it is free or its owner is inside already, as [Mutex.TryDo]
// does. Otherwise f is not called, and the error matches [ErrTaken].
func (m *ReentrantMutex) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.runHeld(ctx, f)
}

func (m *ReentrantMutex) enter(ctx context.Context, wait bool) (*Lease, error) {
	owner, err := m.latch.ownerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if owner == "" {
		owner = m.latch.client.engine.Owner()
	}
	return m.latch.withParam(strconv.Itoa(m.depth)+":"+owner).acquire(ctx, wait)
}
