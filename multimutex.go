package redlatch

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxMulti is how many names a MultiMutex can have.
const maxMulti = 256

// MultiMutex is several mutexes that are locked together, all or none: both accounts of a transfer.
// Make it with [Client.MultiMutex]; it does not change and is safe for concurrent use.
//
// The names are locked in the order of the alphabet, so two callers never wait for each other. If
// all are free, that takes one request; in a cluster whose names do not share a hash tag, one for
// each name. Each name is the same lock as the [Mutex] of that name.
type MultiMutex struct {
	client  *Client
	names   []string
	latches []latch
	invalid error
}

// MultiMutex returns the mutexes of these names, 1 to 256, as one, with the options of the client.
// A name that is given twice counts once. MultiMutex sends nothing; names that cannot be used are
// refused by the first call on the mutexes.
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

// With returns the same mutexes with other options. A zero field of o leaves the option as it is.
func (m *MultiMutex) With(o LockOptions) *MultiMutex {
	next := *m
	next.latches = nil
	for _, l := range m.latches {
		l = l.with(o)
		next.latches = append(next.latches, l)
		if next.invalid == nil {
			next.invalid = l.invalid
		}
	}
	if o.Announce != (Announce{}) && next.invalid == nil {
		next.invalid = invalid("LockOptions.Announce of several mutexes: %w: each has a channel of its own; lock them one by one",
			errors.ErrUnsupported)
	}
	return &next
}

// Options returns the options in effect, which are the same for every name.
func (m *MultiMutex) Options() LockOptions {
	if len(m.latches) == 0 {
		return LockOptions{}
	}
	return m.latches[0].options
}

// Names returns the names in the order in which they are locked.
func (m *MultiMutex) Names() []string { return slices.Clone(m.names) }

// Lock acquires all the mutexes. It waits in line for one after the other, as [Mutex.Lock] does,
// and holds the earlier ones while it waits for the next. LockOptions.MaxWait bounds the whole.
// MaxHold counts for each name from its own acquisition. With Renew Off, Lock extends the leases
// that became old while it waited for a later name.
//
// If there is an error, nothing is held. The error is that of the mutex which failed. If a name was
// lost while Lock waited for a later one, it is a [*LostError]. Under the context of a lease on one
// of the names, it matches [ErrDeadlock], at once.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, true) }

// TryLock acquires all the mutexes if each is free and no waiter is in line for any. It never
// waits: otherwise the error matches [ErrTaken], and nothing is held. Under the context of a lease
// on one of the names, it matches [ErrDeadlock], as for Lock.
func (m *MultiMutex) TryLock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, false) }

// Do runs f while it holds all the mutexes, as [Mutex.Do] does.
func (m *MultiMutex) Do(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.runHeld(ctx, f)
}

// TryDo runs f while it holds all the mutexes, if [MultiMutex.TryLock] acquires them, as
// [Mutex.TryDo] does. Otherwise f is not called, none is held, and the error matches [ErrTaken].
func (m *MultiMutex) TryDo(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) error {
	lease, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	return lease.runHeld(ctx, f)
}

// runHeld runs f under the lease, and releases it when f returned or panicked.
func (l *MultiLease) runHeld(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) (err error) {
	defer func() { err = fault.Join(err, l.Release(ctx)) }()
	return f(l.Context(), l)
}

func (m *MultiMutex) lock(ctx context.Context, wait bool) (l *MultiLease, err error) {
	if m.invalid != nil {
		return nil, m.invalid
	}
	for i := range m.latches {
		if err := m.latches[i].checkDeadlock(ctx); err != nil {
			return nil, err
		}
	}
	if err := labelsError(ctx); err != nil {
		return nil, err
	}
	var leases []*lease.Lease
	defer func() {
		if l == nil { // also when the hook panicked
			leases = slices.DeleteFunc(leases, func(l *lease.Lease) bool { return !l.Held() }) // which err tells already
			err = fault.Join(err, giveBack(ctx, leases))
		}
	}()
	attempts := make([]*attempt, len(m.latches))
	for i := range attempts {
		attempts[i] = m.latches[i].attempt(ctx, wait)
	}
	defer func() { tellAllFailed(attempts, err) }()
	start := m.client.now()
	if leases, err = m.atOnce(ctx, attempts); err == nil && len(leases) == 0 {
		err = m.oneByOne(attempts, start, &leases)
	}
	if err == nil {
		err = fresh(ctx, leases)
	}
	if err != nil {
		return nil, err
	}
	return newMultiLease(ctx, m.client, leases), nil
}

// oneByOne locks one name after the other. What it has when it fails, or panics, is in leases.
func (m *MultiMutex) oneByOne(attempts []*attempt, start clock.Reading, leases *[]*lease.Lease) error {
	for i, a := range attempts {
		l := m.latches[i]
		if longest := l.options.MaxWait; longest > 0 {
			l.options.MaxWait = max(longest-m.client.now().Since(start), time.Millisecond)
		}
		a.latch, a.beside = &l, *leases
		got, err := a.acquire()
		if err != nil {
			return err
		}
		*leases = append(*leases, got)
	}
	return nil
}

// fresh extends the leases that the watchdog does not renew and that became old while a later one
// was waited for. It returns an error if one of the leases was lost.
func fresh(ctx context.Context, leases []*lease.Lease) error {
	errs := make([]error, len(leases))
	var extends sync.WaitGroup
	for i, l := range leases {
		if k := l.Lock(); !k.Renews && l.Remaining() < k.TTL*9/10 {
			extends.Go(func() { errs[i] = l.Extend(ctx) })
		}
	}
	extends.Wait()
	for i, l := range leases {
		if err := cmp.Or(errs[i], l.Err()); err != nil {
			return err
		}
	}
	return nil
}

// giveBack releases leases that the program never had, so their MinHold keeps no name closed.
func giveBack(ctx context.Context, leases []*lease.Lease) error {
	for _, l := range leases {
		l.MarkUnused()
	}
	return releaseAll(ctx, leases)
}

// releaseAll releases these leases, the last one first. If the hook panics at one, it releases the
// others all the same.
func releaseAll(ctx context.Context, leases []*lease.Lease) (err error) {
	for _, l := range leases {
		defer func() { err = fault.Join(err, l.Release(ctx)) }()
	}
	return nil
}

// atOnce locks all names in one request if that can be done, and none otherwise. If it fails or
// panics, it gives back what it has. The attempts have begun when the request is sent, and go on if
// not all names are free.
func (m *MultiMutex) atOnce(ctx context.Context, attempts []*attempt) ([]*lease.Lease, error) {
	c := m.client
	if len(m.latches) == 1 || c.quorum != nil || c.conn.Target().Cluster && !m.oneSlot() {
		return nil, nil
	}
	if err := c.enter(); err != nil {
		return nil, m.latches[0].failed("acquire", err)
	}
	defer c.background.Done()
	if err := fault.WhyDone(ctx); err != nil {
		return nil, m.latches[0].failed("acquire", err)
	}
	for _, a := range attempts {
		a.tellAttempt()
	}
	c.presence.Announce()
	sets, owners := make([]keys.Set, len(attempts)), make([]string, len(attempts))
	for i, a := range attempts {
		sets[i], owners[i] = a.Keys, a.owner
	}
	answer, err := m.latches[0].ask(ctx, "acquire", script.Multi(sets, owners, m.latches[0].options.TTL, c.options.FenceTTL))
	var tokens []int64
	if err == nil {
		tokens, err = script.ParseMulti(answer.Reply, len(owners))
	}
	if err != nil || answer.Resent && len(tokens) == 0 {
		m.abandon(owners, 0) // the request may have taken place, or may still
	}
	if errors.Is(err, ErrWrongKind) {
		err, tokens = nil, nil // oneByOne finds out which name it is
	}
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		for _, a := range attempts {
			a.owner = c.owner() // the last one may have been in and out
		}
		return nil, nil
	}
	return m.begin(ctx, attempts, owners, tokens, answer)
}

// begin turns what Redis granted at once into leases: all, or none.
func (m *MultiMutex) begin(
	ctx context.Context, attempts []*attempt, owners []string, tokens []int64, granted ask.Answer,
) (leases []*lease.Lease, err error) {
	defer func() {
		if len(leases) < len(owners) { // also when the hook panicked
			m.abandon(owners, len(leases)) // and not those before, whose releases must find them
			err = fault.Join(err, giveBack(ctx, leases))
			leases = nil
		}
	}()
	for i, a := range attempts {
		got, err := a.begin(ctx, lock.Grant{
			Owner: owners[i], Token: tokens[i], Sent: granted.Sent, TTL: a.TTL,
			Resent: granted.Resent,
		})
		if err != nil {
			return leases, a.tooLate(err)
		}
		leases = append(leases, got)
	}
	return leases, nil
}

// abandon releases in the background what these owners, from the given one on, may hold.
func (m *MultiMutex) abandon(owners []string, from int) {
	for i := from; i < len(owners); i++ {
		m.latches[i].abandon(owners[i], "")
	}
}

// oneSlot reports whether all names have the same hash tag.
func (m *MultiMutex) oneSlot() bool {
	tag := keys.Tag(m.latches[0].Keys.State())
	return !slices.ContainsFunc(m.latches, func(l latch) bool { return keys.Tag(l.Keys.State()) != tag })
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
		context.AfterFunc(one.Context(), func() { cancel(context.Cause(one.Context())) })
	}
	if c.options.TraceLeases {
		stack := callers()
		for _, one := range leases {
			c.keeper.NoteCallers(one, stack)
		}
		runtime.AddCleanup(l, func(leases []*lease.Lease) {
			for _, one := range leases {
				one.TellForgotten()
			}
		}, leases)
	}
	return l
}

// Context returns a context that is done when the lease is released, when one of the names is lost,
// or when the context that was given to Lock is done. Its cause is as that of [Lease.Context]. Its
// Err answers by the clock, as that of [Lease.Context] does.
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

// Held reports whether all the names are held at this moment. When it returns false, Context is
// done already.
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

// Extend gives all the names their full TTL again, as [Lease.Extend] does for one; the requests
// leave together. The watchdog does so unasked; a program needs it with Renew Off.
//
// It returns when all names are extended or have failed. The error joins those of the names that
// failed; the other names are extended all the same. If a name is no longer held, the error matches
// [ErrNotHeld], and the lease as a whole is lost.
func (l *MultiLease) Extend(ctx context.Context) error {
	failed := make([]error, len(l.leases))
	var all sync.WaitGroup
	for i, lease := range l.leases {
		all.Go(func() { failed[i] = lease.Extend(ctx) })
	}
	all.Wait()
	l.Held() // which ends the context if one of them is lost
	return fault.Join(failed...)
}

// cores returns the leases as the client has them.
func (l *MultiLease) cores() []*lease.Lease {
	cores := make([]*lease.Lease, len(l.leases))
	for i, one := range l.leases {
		cores[i] = one.core
	}
	return cores
}

// Leases returns the lease on each name, in the order of [MultiMutex.Names]. Each has a deadline of
// its own, and [Lease.Ensure] and [Lease.ExtendTo].
func (l *MultiLease) Leases() []*Lease { return slices.Clone(l.leases) }

// Release releases all the names, the last one first, as [Lease.Release] does. The error joins
// those of the names for which it failed; the other names are released all the same.
func (l *MultiLease) Release(ctx context.Context) error {
	names := make([]string, len(l.leases))
	for i, one := range l.leases {
		names[i] = one.Name()
	}
	l.cancel(&lease.ReleasedError{Name: strings.Join(names, ", ")})
	return releaseAll(ctx, l.cores())
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
