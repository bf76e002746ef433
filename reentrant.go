package redlatch

import (
	"context"
	"strconv"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// ReentrantMutex is a lock that its owner can enter again. A call under the context of a lease on
// the mutex acts for the owner of that lease. A call under [WithOwner] acts for that owner. Any
// other call acts for a new owner. Make it with [Client.ReentrantMutex]; safe for concurrent use.
//
// Each entry is a lease of its own. The lock is free when all entries have ended, in any order. All
// entries of an owner have the same fencing token, and do not exclude each other: goroutines that
// share the context of a lease, or processes that name the same owner, are inside together.
//
// An owner that is inside through a client enters there again, and leaves, without a request. These
// entries are one in Redis, with the labels of the first: they are extended and lost together, and
// the release of the last one finds out whether the lock is gone. MaxHold counts for each. The
// client asks Redis, which then has one more entry, if the options of the two calls differ in how
// the lock is held; if the last extend failed; or if less than a third of the TTL is left (nine
// tenths with Renew Off). In Redis the lock is a hash with one field: the owner, and the number of
// its entries there.
type ReentrantMutex struct {
	noun
	depth int
}

// ReentrantMutex returns the reentrant mutex of that name.
func (c *Client) ReentrantMutex(name string) *ReentrantMutex {
	return &ReentrantMutex{noun: newNoun(c, script.Reentrant, name)}
}

// With returns the same mutex with the options that are not zero in o.
func (m *ReentrantMutex) With(o LockOptions) *ReentrantMutex {
	return &ReentrantMutex{m.noun.with(o), m.depth}
}

// WithDepth returns the same mutex with a bound on how many entries its owner may have at once; 0
// for no bound. The client counts its own entries, and Redis those it has of all clients. An entry
// beyond the bound fails with an error that matches [ErrTooDeep], not [ErrTaken], so endless
// recursion is found early.
func (m *ReentrantMutex) WithDepth(n int) *ReentrantMutex {
	next := &ReentrantMutex{m.noun, n}
	if n < 0 && next.latch.invalid == nil {
		next.latch.invalid = invalid("a depth of %d: give 0 for no bound", n)
	}
	return next
}

// Lock enters the mutex. It returns at once if the mutex is free, or if its owner is inside
// already, even if others wait in line. Otherwise it waits as [Mutex.Lock] does. The context of a
// nested entry is done when that of the entry around it is. The nested lease must still be
// released. The errors are those of Mutex.Lock, and [ErrTooDeep] if the owner may not enter more
// often.
func (m *ReentrantMutex) Lock(ctx context.Context) (*Lease, error) { return m.enter(ctx, true) }

// TryLock enters the mutex if it is free or its owner is inside already. It never waits: otherwise
// the error matches [ErrTaken]. Everything else is as in [ReentrantMutex.Lock].
func (m *ReentrantMutex) TryLock(ctx context.Context) (*Lease, error) { return m.enter(ctx, false) }

// Do runs f inside the mutex, as [Mutex.Do] does. f can lock the same mutex again with the context
// that it is given.
func (m *ReentrantMutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.Lock, f)
}

// TryDo runs f as [Mutex.TryDo] does, if [ReentrantMutex.TryLock] enters it.
func (m *ReentrantMutex) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.TryLock, f)
}

func (m *ReentrantMutex) enter(ctx context.Context, wait bool) (*Lease, error) {
	owner, err := m.latch.ownerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if owner == "" {
		owner = m.latch.client.engine.Owner()
	} else if got := m.latch.reenter(ctx, owner, m.depth); got != nil {
		return got, nil
	}
	return m.latch.withParam(strconv.Itoa(m.depth)+":"+owner).acquire(ctx, wait)
}
