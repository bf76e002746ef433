package redlatch

import (
	"context"
	"strings"

	"github.com/redlatch/redlatch/internal/script"
)

// RWMutex is a lock that many readers or one writer can hold, over all processes. Make it with [Client.RWMutex]; it does not change,
// costs nothing and is safe for concurrent use.
//
// Readers and writers stand in one line, first come, first served, so neither starves: a reader that comes after a writer waits for it.
// Readers at the head of the line are let in together. Each reader has a lease of its own; one whose process died is waited for no longer
// than its TTL.
//
// Whoever is inside may read once more, past the line, under the context of its lease or under [WithOwner] with its owner. A reader cannot
// become the writer; a writer becomes a reader with [RWMutex.Downgrade].
type RWMutex struct{ read, write latch }

// RWMutex returns the read-write mutex of that name, with the lease options of the client. It sends nothing; a name that cannot be used
// is refused by the first call that takes it.
func (c *Client) RWMutex(name string) *RWMutex {
	l := newLatch(c, script.RWMutex, name)
	return &RWMutex{read: l, write: l}
}

// With returns the same mutex with other lease options for readers and writers; what is zero in o stays as it is.
func (m *RWMutex) With(o LockOptions) *RWMutex { return m.WithRead(o).WithWrite(o) }

// WithRead returns the same mutex with other lease options for readers.
func (m *RWMutex) WithRead(o LockOptions) *RWMutex { return &RWMutex{m.read.with(o), m.write} }

// WithWrite returns the same mutex with other lease options for writers.
func (m *RWMutex) WithWrite(o LockOptions) *RWMutex { return &RWMutex{m.read, m.write.with(o)} }

// Options returns the options in effect for readers and for writers.
func (m *RWMutex) Options() (read, write LockOptions) { return m.read.options, m.write.options }

// Name is the name of the mutex, without the prefix.
func (m *RWMutex) Name() string { return m.read.name }

// Lock acquires the mutex for writing: it waits in line until everybody before it is gone. It returns, and fails, as [Mutex.Lock] does.
// Under the context or the owner of a lease on this very mutex the error matches [ErrDeadlock], at once.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, &m.write, "w", true)
}

// TryLock acquires the mutex for writing if nobody is inside or in line, and never waits; otherwise the error matches [ErrTaken].
// Under the context or the owner of a lease on this very mutex it matches [ErrDeadlock]: no later try could do better.
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, &m.write, "w", false)
}

// RLock acquires the mutex for reading: it waits in line while there is a writer inside or before it. It returns, and fails, as
// [Mutex.Lock] does.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, &m.read, "r", true)
}

// TryRLock acquires the mutex for reading if no writer is inside and nobody in line, and never waits; otherwise the error matches
// [ErrTaken]. Under the context or the owner of a lease on this very mutex it is let in.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, &m.read, "r", false)
}

// Do runs f while it holds the mutex for writing, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.cover(ctx, f)
}

// RDo runs f while it holds the mutex for reading, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	lease, err := m.RLock(ctx)
	if err != nil {
		return err
	}
	return lease.cover(ctx, f)
}

// Downgrade turns a lease for writing into one for reading, with no moment between them in which another writer could be inside. ctx
// becomes the parent of the new lease's context; the old lease is released, and its context done, when the new one is returned.
//
// The new lease has a fencing token of its own. If there is an error, the lease for writing is as it was: it matches [ErrNotHeld] if that
// is no longer held, [ErrInvalid] if it is none of this mutex, and otherwise is as that of [RWMutex.TryRLock].
func (m *RWMutex) Downgrade(ctx context.Context, write *Lease) (*Lease, error) {
	if !write.latch.same(&m.write) || write.got != "w" {
		return nil, invalid("downgrade %q with a lease that is not one for writing it, but on the %s %q", m.Name(), write.latch.kind.Name, write.Name())
	}
	if err := write.Err(); err != nil {
		return nil, err
	}
	read, err := m.read.asking("d"+write.owner).acquire(ctx, false)
	if err != nil {
		return nil, err
	}
	if write.Release(ctx) != nil { // or it is lost: what was to be released is not there any more, or will be gone
		m.write.client.abandon(&m.write, write.owner, "")
	}
	return read, nil
}

// acquire acts for the lease under whose context or owner the caller is.
func (m *RWMutex) acquire(ctx context.Context, l *latch, how string, wait bool) (*Lease, error) {
	owner, err := l.nested(ctx)
	if err != nil {
		return nil, err
	}
	return l.asking(how+owner).acquire(ctx, wait)
}

// mode returns how the latch of a read-write mutex is acquired, and "" for the other kinds.
func (l *latch) mode() string {
	switch {
	case l.kind != script.RWMutex:
		return ""
	case strings.HasPrefix(l.arg, "w"):
		return "write"
	}
	return "read"
}
