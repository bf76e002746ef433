package redlatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxMulti is how many names a MultiMutex can have.
const maxMulti = 256

// MultiMutex is several mutexes that are locked together, all or none, such as both accounts of a
// transfer. Make it with [Client.MultiMutex]; it is safe for concurrent use. Each name is the same
// lock as the [Mutex] of that name. The names are locked in alphabetical order, so two callers
// never wait for each other. If all are free, that takes one request; on a quorum, or for names in
// a cluster that do not share a hash tag, one or two for each name.
type MultiMutex struct {
	client  *Client
	names   []string
	latches []latch
	invalid error
}

// MultiMutex returns the mutexes of these names, 1 to 256, as one. A name given twice counts once.
func (c *Client) MultiMutex(names ...string) *MultiMutex {
	m := &MultiMutex{client: c, names: slices.Clone(names)}
	slices.Sort(m.names)
	m.names = slices.Compact(m.names)
	if n := len(m.names); n < 1 || n > maxMulti {
		m.invalid = invalid("%d names to lock together: give 1 to %d", n, maxMulti)
	}
	for _, name := range m.names {
		l := newLatch(c, script.Mutex, name)
		m.latches = append(m.latches, l)
		m.invalid = fault.Join(m.invalid, l.invalid)
	}
	return m
}

// With returns the same mutexes with the options that are not zero in o.
func (m *MultiMutex) With(o LockOptions) *MultiMutex {
	next := *m
	next.latches = nil
	for _, l := range m.latches {
		l = l.with(o)
		next.latches = append(next.latches, l)
		next.invalid = cmp.Or(next.invalid, l.invalid)
	}
	if o.Announce != (Announce{}) && next.invalid == nil {
		next.invalid = invalid("LockOptions.Announce of several mutexes: %w: each has a channel of its own; lock them one by one",
			errors.ErrUnsupported)
	}
	return &next
}

// Names returns the names in the order in which they are locked.
func (m *MultiMutex) Names() []string { return slices.Clone(m.names) }

// Lock acquires all the mutexes. It waits in line for one after the other, as [Mutex.Lock] does,
// and holds the earlier ones while it waits for the next. LockOptions.MaxWait bounds the whole
// wait. MaxHold counts for each name from its own acquisition. With Renew Off, Lock extends the
// earlier names until it has the last.
//
// If there is an error, nothing is held: the names that Lock had by then are released at once, as
// by [Lease.Release], so Lock may return that much later if Redis does not answer. The error is
// that of the mutex that failed, or a [*LostError] if a name was lost, which ends the wait. Under
// the context of a lease on one of the names, it matches [ErrDeadlock], at once.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, true) }

// TryLock acquires all the mutexes if each is free and no waiter is in line for any. It never
// waits: otherwise the error matches [ErrTaken], and nothing is held. All else is as in
// [MultiMutex.Lock].
func (m *MultiMutex) TryLock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, false) }

// Do runs f while it holds all the mutexes, as [Mutex.Do] does.
func (m *MultiMutex) Do(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) error {
	return do(ctx, m.Lock, f)
}

// TryDo runs f as [Mutex.TryDo] does, if [MultiMutex.TryLock] acquires them all.
func (m *MultiMutex) TryDo(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) error {
	return do(ctx, m.TryLock, f)
}

func (m *MultiMutex) lock(ctx context.Context, wait bool) (*MultiLease, error) {
	if m.invalid != nil {
		return nil, m.invalid
	}
	for i := range m.latches {
		if err := m.latches[i].checkDeadlock(ctx); err != nil {
			return nil, err
		}
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*lock.Lock, len(m.latches))
	for i := range m.latches {
		all[i] = &m.latches[i].Lock
	}
	leases, err := m.client.engine.Acquirer.Several(ctx, all, wish, wait)
	if err != nil {
		return nil, err
	}
	return newMultiLease(ctx, m.client, leases), nil
}

// MultiLease is what [MultiMutex] acquires: a lease on each name, held as one. It is held until it
// is released or the first of the leases is lost. It is safe for concurrent use.
type MultiLease struct {
	leases []*Lease
	ctx    multiContext
	cancel context.CancelCauseFunc
}

func newMultiLease(ctx context.Context, c *Client, leases []*lease.Lease) *MultiLease {
	l := &MultiLease{}
	for _, one := range leases {
		l.leases = append(l.leases, &Lease{one})
	}
	l.ctx.lease = l
	l.ctx.Context, l.cancel = context.WithCancelCause(ctx)
	cancel := l.cancel // and not l, which would then live as long as the leases
	for _, one := range leases {
		context.AfterFunc(one.Context(), func() {
			if err := one.Err(); err != nil { // else the caller's context is done, and ours tells that
				cancel(err)
			}
		})
	}
	if c.options.TraceLeases {
		stack := callers()
		for i, one := range leases {
			c.engine.Keeper.NoteCallers(one, stack)
			runtime.AddCleanup(l.leases[i], (*lease.Lease).NoteForgotten, one)
		}
	}
	return l
}

// Context returns a context that is done when the lease is released, when one of the names is lost,
// or when the context given to Lock is done. Its cause and its Err are like those of
// [Lease.Context].
func (l *MultiLease) Context() context.Context { return &l.ctx }

// Token returns the fencing token for a name. It returns 0 once any of the names is no longer held,
// and for a name that is not among them.
func (l *MultiLease) Token(name string) int64 {
	if !l.Held() {
		return 0
	}
	for _, lease := range l.leases {
		if lease.Name() == name {
			return lease.Token()
		}
	}
	return 0
}

// Held reports whether all the names are held at this moment. If not, Context is done already.
func (l *MultiLease) Held() bool { return l.Err() == nil }

// Err returns nil while all the names are held, and otherwise the error of the first name that is
// not held; see [Lease.Err].
func (l *MultiLease) Err() error {
	for _, lease := range l.leases {
		if err := lease.Err(); err != nil {
			l.cancel(err) // the lease's own context tells ours, too, a moment later
			return err
		}
	}
	return nil
}

// Extend gives all the names their full TTL again, as [Lease.Extend] does for one; the requests are
// sent together. It returns when all names are extended or have failed. The error joins those of
// the names that failed; the other names are extended all the same. If a name is no longer held,
// the error matches [ErrNotHeld], and the lease as a whole is lost.
func (l *MultiLease) Extend(ctx context.Context) error {
	defer l.Held() // which ends the context if one of them is lost
	return fault.Join(acquire.ForAll(l.cores(), func(one *lease.Lease) error { return one.Extend(ctx) })...)
}

// cores returns the leases as the client has them.
func (l *MultiLease) cores() []*lease.Lease {
	cores := make([]*lease.Lease, len(l.leases))
	for i, one := range l.leases {
		cores[i] = one.core
	}
	return cores
}

// Leases returns the lease on each name, in the order of [MultiMutex.Names]. Each has its own
// deadline; [Lease.Ensure] and [Lease.ExtendTo] work on each.
func (l *MultiLease) Leases() []*Lease { return slices.Clone(l.leases) }

// Release releases all the names at once, as [Lease.Release] does. The error joins those of the
// names for which it failed; the other names are released all the same.
func (l *MultiLease) Release(ctx context.Context) error {
	names := make([]string, len(l.leases))
	for i, one := range l.leases {
		names[i] = one.Name()
	}
	looked := false
	defer func() {
		if !looked { // the hook panicked at a loss
			_ = acquire.ReleaseAll(ctx, l.cores())
		}
	}()
	l.Held() // which tells the context of a loss before
	looked = true
	l.cancel(&lease.ReleasedError{Name: strings.Join(names, ", ")})
	return acquire.ReleaseAll(ctx, l.cores())
}

// multiContext is the context of several leases.
type multiContext struct {
	context.Context
	lease *MultiLease
}

// Err answers by the clock, as that of a lease's context does.
func (c *multiContext) Err() error {
	if c.Context.Err() == nil {
		_ = c.lease.Err() // which cancels the context if it finds one of them lost
	}
	return c.Context.Err()
}

func (c *multiContext) Value(key any) any {
	if key == (lease.UnderKey{}) {
		return c
	}
	if l, ok := key.(*lock.Lock); ok {
		for _, one := range c.lease.leases {
			if l.Same(one.core.Lock()) {
				return one.core
			}
		}
	}
	return c.Context.Value(key)
}

// Held implements [lease.Under].
func (c *multiContext) Held() ([]*lease.Lease, context.Context) { return c.lease.cores(), c.Context }

// String returns the names, in their order.
func (m *MultiMutex) String() string { return fmt.Sprintf("mutexes %q", m.names) }

// LogValue returns the names, as a group.
func (m *MultiMutex) LogValue() slog.Value { return slog.GroupValue(slog.Any("names", m.names)) }

// String returns what each of the leases says.
func (l *MultiLease) String() string {
	all := make([]string, len(l.leases))
	for i, lease := range l.leases {
		all[i] = lease.String()
	}
	return strings.Join(all, "; ")
}

// LogValue returns the leases by name, each as a group.
func (l *MultiLease) LogValue() slog.Value {
	all := make([]slog.Attr, len(l.leases))
	for i, lease := range l.leases {
		all[i] = slog.Any(lease.Name(), lease)
	}
	return slog.GroupValue(all...)
}
