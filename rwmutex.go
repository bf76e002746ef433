package redlatch

import (
	"context"
	"strings"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// RWMutex is a lock that many readers or one writer can hold, across all processes. Make it with
// [Client.RWMutex]; it is safe for concurrent use. Readers and writers wait in one line, first
// come, first served, so neither starves. Readers at the head of the line are let in together. Each
// reader has a lease of its own.
//
// A reader or writer that is inside may read again, any number of times and past the line, under
// the context of its lease or under [WithOwner] with its owner. A reader cannot become the writer.
// A writer becomes a reader with [RWMutex.Downgrade].
type RWMutex struct{ noun }

// RWMutex returns the read-write mutex of that name.
func (c *Client) RWMutex(name string) *RWMutex {
	return &RWMutex{newNoun(c, script.RWMutex, name)}
}

// With returns the same mutex with the options that are not zero in o. If readers and writers need
// different options, make two of them.
func (m *RWMutex) With(o LockOptions) *RWMutex { return &RWMutex{m.noun.with(o)} }

// Lock acquires the mutex for writing. It waits in line until all earlier readers and writers are
// gone, and returns and fails as [Mutex.Lock] does. Under the context or the owner of a lease on
// this mutex, the error matches [ErrDeadlock], at once.
func (m *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, "w", true)
}

// TryLock acquires the mutex for writing if it is free and no waiter is in line. It never waits:
// otherwise the error matches [ErrTaken]. It matches [ErrDeadlock] as in [RWMutex.Lock].
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, "w", false)
}

// RLock acquires the mutex for reading. It waits in line while a writer is inside or ahead of it,
// and returns and fails as [Mutex.Lock] does.
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, "r", true)
}

// TryRLock acquires the mutex for reading if no writer is inside and no waiter is in line. It never
// waits: otherwise the error matches [ErrTaken]. Under the context or the owner of a lease on this
// mutex it always gets in.
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, "r", false)
}

// Do runs f while it holds the mutex for writing, as [Mutex.Do] does.
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.Lock, f)
}

// RDo runs f while it holds the mutex for reading, as [Mutex.Do] does.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.RLock, f)
}

// TryDo runs f as [Mutex.TryDo] does, if [RWMutex.TryLock] acquires the mutex.
func (m *RWMutex) TryDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.TryLock, f)
}

// TryRDo runs f as [Mutex.TryDo] does, if [RWMutex.TryRLock] acquires the mutex.
func (m *RWMutex) TryRDo(ctx context.Context, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, m.TryRLock, f)
}

// Downgrade turns a lease for writing into one for reading, with a fencing token of its own. There
// is no moment between them in which another writer could be inside. ctx is the parent of the new
// lease's context. When the new lease is returned, the old one is released and its context is done.
// If there is an error, the lease for writing is as it was. The error matches [ErrNotHeld] if that
// lease is no longer held, and [ErrInvalid] if it is not of this client, for writing this mutex.
// Other errors: see [RWMutex.TryRLock].
func (m *RWMutex) Downgrade(ctx context.Context, write *Lease) (*Lease, error) {
	if !write.core.Lock().Same(&m.latch.Lock) || write.core.Detail() != "w" {
		return nil, invalid("downgrade %q: the lease must be one of this client for writing it, and is on the %s %q", m.Name(),
			write.core.Lock().Kind.Name, write.Name())
	}
	if err := write.Err(); err != nil {
		return nil, err
	}
	if err := m.keepNoMore(ctx, write.core.Owner()); err != nil {
		return nil, err
	}
	if err := write.Err(); err != nil { // again: until then, the client could keep the lock, and lend it anew
		return nil, err
	}
	read, err := m.latch.withParam("d"+write.core.Owner()).acquire(ctx, false)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // the hook panicked at the release of the writer
			_ = read.Release(ctx)
		}
	}()
	if write.Release(ctx) != nil { // unreachable, or lost: it is not there any more, or soon will be gone
		m.latch.abandon(write.core.Owner(), "")
	}
	returned = true
	return read, nil
}

// acquire acts for the lease under whose context or owner the caller is. Redis refuses a reader that wants
// to write (rwmutex.lua); Client.refusal has the words.
func (m *RWMutex) acquire(ctx context.Context, how string, wait bool) (*Lease, error) {
	owner, err := m.latch.ownerFrom(ctx)
	if err == nil && how == "r" {
		if err = m.keepNoMore(ctx, owner); err == nil {
			owner, err = m.latch.ownerFrom(ctx) // again: until then, the client could keep the lock, and lend it anew
		}
	}
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(owner, "#") {
		owner = "" // no lease has it, and Redis would take it for how many tokens to give
	}
	return m.latch.withParam(how+owner).acquire(ctx, wait)
}

// keepNoMore has a writer's lock go back to Redis when it is released, since a reader is about to
// come in under it.
func (m *RWMutex) keepNoMore(ctx context.Context, owner string) error {
	if m.latch.invalid != nil { // as acquire says
		return nil
	}
	return m.latch.client.engine.Acquirer.KeepNoMore(ctx, &m.latch.Lock, owner)
}
