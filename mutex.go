package redlatch

import (
	"context"
)

// Mutex is a lock that one acquisition at a time can hold, over all processes. It is not reentrant: whoever locks it twice waits for
// itself; see [ReentrantMutex]. Make it with [Client.Mutex]; it does not change, costs nothing and is safe for concurrent use.
//
// In Redis it is what `SET key owner NX PX` makes, so programs that lock in this way exclude each other and this Mutex.
type Mutex struct{ latch latch }

// With returns the same mutex with other lease options; what is zero in o stays as it is.
func (m *Mutex) With(o LockOptions) *Mutex { return &Mutex{m.latch.with(o)} }

// Options returns the options in effect: those of the client under those of With.
func (m *Mutex) Options() LockOptions { return m.latch.options }

// Name is the name of the mutex, without the prefix.
func (m *Mutex) Name() string { return m.latch.name }

// Lock acquires the mutex. If somebody holds it, Lock waits in line: first come, first served over all processes, and without polling.
// It returns when the mutex is held, when ctx is done, or when LockOptions.MaxWait has passed.
//
// ctx is also the parent of the lease's context. To bound the wait alone, use MaxWait.
//
// The caller must release the lease. If there is an error there is no lease, and nothing stays behind: the place in line is given up, and
// a grant that arrives too late is given back, in the background. The error matches [ErrTaken] and that of the context if the wait was
// cut short; else [ErrUnreachable], also when the context's deadline passed before Redis said anything, [ErrWrongKind], [ErrInvalid] or
// [ErrClosed]; and [ErrDeadlock], at once, if ctx is the context of a lease on this very mutex.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	if err := m.latch.again(ctx); err != nil {
		return nil, err
	}
	return m.latch.acquire(ctx, true)
}

// TryLock acquires the mutex if nobody holds it or waits for it, and never waits; otherwise the error matches [ErrTaken]. In all else it
// is like [Mutex.Lock], also in that the error matches [ErrDeadlock] under the context of a lease on this very mutex.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	if err := m.latch.again(ctx); err != nil {
		return nil, err
	}
	return m.latch.acquire(ctx, false)
}

// Do runs f while it holds the mutex: it waits as [Mutex.Lock] does, calls f with the lease's context and the lease, and releases the
// lease when f returned or panicked.
//
// The error is that of the acquisition, in which case f was not called; or that of f. It also matches [ErrNotHeld], as a [*LostError], if
// the lease was lost before f returned, and [ErrUnreachable] if Redis did not confirm the release.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.cover(ctx, f)
}

// cover runs f under the lease, and releases it when f returned or panicked.
func (l *Lease) cover(ctx context.Context, f func(ctx context.Context, l *Lease) error) (err error) {
	defer func() { err = join(err, l.Release(ctx)) }()
	return f(l.Context(), l)
}
