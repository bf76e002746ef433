package redlatch

import (
	"context"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Mutex is a lock that one acquisition at a time can hold, across all processes. It is not
// reentrant: a caller that locks it twice waits for itself, or gets [ErrDeadlock] if it passes the
// lease's context on; see [ReentrantMutex]. Make it with [Client.Mutex]; it is safe for concurrent
// use. In Redis it is what `SET key owner NX PX` makes, so it and programs that lock this way
// exclude each other. The key is [Options].Prefix and the name; see [NoPrefix].
type Mutex struct{ noun }

// Mutex returns the mutex of that name.
func (c *Client) Mutex(name string) *Mutex { return &Mutex{newNoun(c, script.Mutex, name)} }

// With returns the same mutex with the options that are not zero in o.
func (m *Mutex) With(o LockOptions) *Mutex { return &Mutex{m.noun.with(o)} }

// Lock acquires the mutex. If it is taken, Lock waits in line without polling: first come, first
// served across all processes; see LockOptions.StrictOrder for goroutines of one client. Lock
// returns when the mutex is held, when ctx is done, or when LockOptions.MaxWait has passed.
//
// ctx is also the parent of the lease's context. When ctx is done, a wait ends, and so does the
// context of a lease, which stops the work. The lease itself goes on: the caller must release it.
// Until then it is extended for as long as the process lives, even if its context is done or the
// program has dropped it; [Client.Leases], [EventOutlived] and Options.TraceLeases find these.
//
// If there is an error, there is no lease and nothing stays behind: the client gives up its place
// in line, and gives back a grant that arrives too late, in the background. The error matches
//
//   - [ErrTaken], as a [*TakenError], and the error of the context, if the wait was cut short; if
//     MaxWait ran out, that is [context.DeadlineExceeded];
//   - [ErrLineFull] and ErrTaken, at once, if LockOptions.MaxWaiters wait already;
//   - [ErrUnreachable] if Redis gave no answer in time, even if the deadline of ctx passed first;
//   - [ErrDeadlock], usually at once, if ctx is the context of a lease on this mutex, or of a lease
//     that its holder waits for;
//   - [ErrWrongKind], [ErrInvalid] or [ErrClosed].
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.latch.acquireOnce(ctx, true)
}

// TryLock acquires the mutex if it is free and no waiter is in line. It never waits: otherwise the
// error matches [ErrTaken]. Everything else is as in [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.latch.acquireOnce(ctx, false)
}

// Do runs f while it holds the mutex. It waits as [Mutex.Lock] does, calls f with the lease's
// context and the lease, and releases the lease when f has returned or panicked. The error is that
// of the acquisition, in which case f was not called, or that of f. If the lease was lost before f
// returned, the error also matches [ErrNotHeld], as a [*LostError]. If Redis did not confirm the
// release, it also matches [ErrUnreachable]. So neither error tells whether f ran: if you will try
// again, have f record that.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.Lock, f)
}

// TryDo runs f as [Mutex.Do] does, if [Mutex.TryLock] acquires the mutex. Otherwise it returns at
// once with the error of TryLock, and f was not called. An error of f may match [ErrTaken], too.
func (m *Mutex) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.TryLock, f)
}
