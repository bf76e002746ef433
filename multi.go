package redlatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/keys"
	"github.com/redlatch/redlatch/internal/script"
)

// maxMulti is how many names a Multi can have.
const maxMulti = 256

// Multi is several mutexes that are locked together, all or none: both accounts of a transfer. Make it with [Client.Multi]; it does not
// change and is safe for concurrent use.
//
// The names are locked in the order of the alphabet, so two callers never wait for each other. If all are free that takes one request; in
// a cluster, if they share a hash tag. Each of them excludes with the [Mutex] of that name.
type Multi struct {
	client  *Client
	names   []string
	latches []latch
	invalid error
}

// Multi returns the mutexes of these names, 1 to 256, as one. A name that is given twice counts once. It sends nothing; names that cannot
// be used are refused by the first call that takes them.
func (c *Client) Multi(names ...string) *Multi {
	m := &Multi{client: c, names: slices.Clone(names)}
	slices.Sort(m.names)
	m.names = slices.Compact(m.names)
	if n := len(m.names); n < 1 || n > maxMulti {
		m.invalid = invalid("%d names to lock together: give 1 to %d", n, maxMulti)
	}
	for _, name := range m.names {
		l := newLatch(c, script.Mutex, name)
		m.latches = append(m.latches, l)
		m.invalid = join(m.invalid, l.invalid)
	}
	return m
}

// With returns the same mutexes with other lease options; what is zero in o stays as it is.
func (m *Multi) With(o LeaseOptions) *Multi {
	next := *m
	next.latches = nil
	for _, l := range m.latches {
		l = l.with(o)
		next.latches = append(next.latches, l)
		if next.invalid == nil {
			next.invalid = l.invalid
		}
	}
	return &next
}

// Names is the names in the order in which they are locked.
func (m *Multi) Names() []string { return slices.Clone(m.names) }

// Lock acquires all the mutexes: it waits in line for one after the other, as [Mutex.Lock] does, and holds those that it has meanwhile.
// LeaseOptions.MaxWait bounds the whole. If there is an error nothing is held; it is that of the mutex which failed.
func (m *Multi) Lock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, true) }

// TryLock acquires all the mutexes if nobody holds or waits for any of them, and never waits; otherwise the error matches [ErrTaken], and
// none is held.
func (m *Multi) TryLock(ctx context.Context) (*MultiLease, error) { return m.lock(ctx, false) }

// Do runs f while it holds all the mutexes, as [Mutex.Do] does.
func (m *Multi) Do(ctx context.Context, f func(ctx context.Context, l *MultiLease) error) (err error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = join(err, lease.Release(ctx)) }()
	return f(lease.Context(), lease)
}

func (m *Multi) lock(ctx context.Context, wait bool) (*MultiLease, error) {
	if m.invalid != nil {
		return nil, m.invalid
	}
	for i := range m.latches {
		if err := m.latches[i].again(ctx); err != nil && wait {
			return nil, err
		}
	}
	start := m.client.now()
	leases, err := m.atOnce(ctx)
	if err != nil {
		return nil, err
	}
	if len(leases) > 0 {
		return newMultiLease(ctx, leases), nil
	}
	for i := range m.latches {
		l := m.latches[i]
		if longest := l.options.MaxWait; longest > 0 {
			l.options.MaxWait = max(longest-m.client.now().Since(start), time.Millisecond)
		}
		lease, err := l.acquire(ctx, wait)
		if err != nil {
			return nil, join(err, newMultiLease(ctx, leases).Release(ctx))
		}
		leases = append(leases, lease)
	}
	return newMultiLease(ctx, leases), nil
}

// atOnce locks all in one request if that can be done; none otherwise.
func (m *Multi) atOnce(ctx context.Context) ([]*Lease, error) {
	c := m.client
	if len(m.latches) == 1 || c.quorum != nil || c.conn.Target().Cluster && !m.oneSlot() {
		return nil, nil
	}
	if err := c.enter(); err != nil {
		return nil, m.latches[0].failed("acquire", err)
	}
	defer c.background.Done()
	c.introduceOnce()
	sets, owners := make([]keys.Set, len(m.latches)), make([]string, len(m.latches))
	for i := range m.latches {
		sets[i], owners[i] = m.latches[i].keys, c.owner()
	}
	o := m.latches[0].options
	answer, err := c.ask(ctx, "acquire", &m.latches[0], script.Multi(sets, owners, o.TTL, c.options.FenceTTL))
	var tokens []int64
	if err == nil {
		tokens, err = script.ParseMulti(answer.Reply, len(owners))
	}
	if err != nil || answer.resent && len(tokens) == 0 {
		for i := range m.latches { // the request may have taken place, or may still
			c.abandon(&m.latches[i], owners[i], "")
		}
	}
	if errors.Is(err, ErrWrongKind) {
		return nil, nil // one after the other, it is found out which
	}
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	var leases []*Lease
	for i := range m.latches {
		a := &attempt{latch: &m.latches[i], ctx: ctx, owner: owners[i], start: answer.sent, answered: true}
		a.emit(Event{Kind: EventAttempt})
		lease, e := a.begin(ctx, grant{owner: owners[i], token: tokens[i], anchor: answer.sent, ttl: o.TTL, resent: answer.resent})
		if e != nil {
			err = join(err, a.tooLate(e))
			continue
		}
		leases = append(leases, lease)
	}
	if err != nil {
		return nil, join(err, newMultiLease(ctx, leases).Release(ctx))
	}
	return leases, nil
}

// oneSlot reports whether all names have the same hash tag.
func (m *Multi) oneSlot() bool {
	tag := keys.Tag(m.latches[0].keys.State)
	return !slices.ContainsFunc(m.latches, func(l latch) bool { return keys.Tag(l.keys.State) != tag })
}

// MultiLease is what [Multi] acquires: a lease on each name, held as one. It is held until it is released or the first of them is lost. It
// is safe for concurrent use.
type MultiLease struct {
	leases []*Lease
	ctx    multiContext
	cancel context.CancelCauseFunc
}

func newMultiLease(ctx context.Context, leases []*Lease) *MultiLease {
	l := &MultiLease{leases: leases}
	l.ctx.leases = leases
	l.ctx.Context, l.cancel = context.WithCancelCause(ctx)
	for _, lease := range leases {
		context.AfterFunc(lease.Context(), func() { l.cancel(context.Cause(lease.Context())) })
	}
	return l
}

// Context is done when the lease is released, when one of the names is lost, or when the context that was given to Lock is done. If one was
// lost, context.Cause returns its [*LostError].
func (l *MultiLease) Context() context.Context { return &l.ctx }

// Token is the fencing token for a name; 0 once any of the names is no longer held, or if there is no such name.
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

// Held reports whether all the names are held at this moment. When it returns false, Context is done already.
func (l *MultiLease) Held() bool { return l.Err() == nil }

// Remaining is how long all the names are sure to be held without another extend; 0 if one of them is not held.
func (l *MultiLease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	least := l.leases[0].Remaining()
	for _, lease := range l.leases[1:] {
		least = min(least, lease.Remaining())
	}
	return least
}

// Err is nil while all the names are held, and that of the first name that is not held otherwise; see [Lease.Err].
func (l *MultiLease) Err() error {
	for _, lease := range l.leases {
		if err := lease.Err(); err != nil {
			l.cancel(err) // the lease's own context tells ours, too, a moment later
			return err
		}
	}
	return nil
}

// Leases is the lease on each name, in the order of [Multi.Names].
func (l *MultiLease) Leases() []*Lease { return slices.Clone(l.leases) }

// Release releases all the names, the last one first, as [Lease.Release] does. The error joins those of the names for which it failed; the
// others are released all the same.
func (l *MultiLease) Release(ctx context.Context) error {
	l.cancel(nil)
	var failed []error
	for _, lease := range slices.Backward(l.leases) {
		if err := lease.Release(ctx); err != nil {
			failed = append(failed, err)
		}
	}
	return join(failed...)
}
