package redlatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
)

// lockerPause is how long a Locker waits before it tries again to lock a mutex that it could not
// lock.
const lockerPause = 200 * time.Millisecond

// Locker returns a [sync.Locker] on the mutex, for code that wants one and cannot be changed. Other
// code is better served by [Mutex.Do] and [Mutex.Lock], which return errors and give the work a
// context that ends when the lock is lost.
//
// Lock returns only when the mutex is held, since it has no other way to say that it is not. It
// waits in line as [Mutex.Lock] does. If Redis cannot be reached, or LockOptions.MaxWait has
// passed, it calls onErr with the error and tries again, after 200ms. If ctx is done, or if trying
// again cannot help ([ErrClosed], [ErrDeadlock], [ErrInvalid], [ErrWrongKind]), it calls onErr and
// then panics with the same error. ctx bounds the wait alone: the lease goes on when ctx is done.
//
// Unlock releases the mutex and returns when [Lease.Release] does. If Redis did not confirm the
// release, Unlock calls onErr, and the client goes on trying in the background. Unlock of a Locker
// that is not locked panics.
//
// The lease can be lost between the two. Then onErr is called at once, in a goroutine of its own,
// with a [*LostError]: the work that the lock protects should stop, and if nothing else can stop
// it, onErr should end the process. Unlock does not tell the loss again. Goroutines that share a
// Locker exclude each other all the same: the next one enters after the Unlock of the one before.
//
// onErr must be safe for concurrent use. Locker panics if it is nil, as the loss of the lock would
// then go unnoticed.
func (m *Mutex) Locker(ctx context.Context, onErr func(error)) sync.Locker {
	if onErr == nil {
		panic("redlatch: Mutex.Locker without a function that is told when the lock is lost")
	}
	return &locker{mutex: m, ctx: ctx, onErr: onErr}
}

// locker is a sync.Locker on a mutex.
type locker struct {
	mutex *Mutex
	ctx   context.Context
	onErr func(error)

	local sync.Mutex  // is held from Lock to Unlock, and guards what is below
	lease *Lease      // nil if it is not locked
	quiet func() bool // has the loss of the lease not told any more; false if that is under way
}

// Lock implements [sync.Locker].
func (l *locker) Lock() {
	l.local.Lock()
	defer func() {
		if l.lease == nil { // it panics
			l.local.Unlock()
		}
	}()
	for l.lease == nil {
		lease, err := l.try()
		if err == nil {
			l.quiet = context.AfterFunc(lease.Context(), func() { l.onErr(lease.Err()) })
			l.lease = lease
			return
		}
		l.onErr(err)
		if l.ctx.Err() != nil || !mayPass(err) {
			panic(err)
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(lockerPause):
		}
	}
}

// try waits for a lease. The lease does not know the Locker's context, so nothing but its release
// or its loss ends its own.
func (l *locker) try() (*Lease, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(l.ctx))
	forget := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	lease, err := l.mutex.Lock(ctx)
	if forget() || err != nil {
		return lease, err
	}
	return nil, errors.Join(fmt.Errorf("redlatch: lock %q: %w", l.mutex.Name(), fault.WhyDone(l.ctx)), lease.Release(ctx))
}

// mayPass reports whether a lock that failed with this error may succeed later.
func mayPass(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotReplicated)
}

// Unlock implements [sync.Locker].
func (l *locker) Unlock() {
	lease := l.lease
	if lease == nil {
		panic(fmt.Sprintf("redlatch: Unlock of the Locker of %q, which is not locked", l.mutex.Name()))
	}
	l.lease = nil
	defer l.local.Unlock()
	untold := l.quiet()
	if err := lease.Release(l.ctx); err != nil && untold {
		l.onErr(err)
	}
}
