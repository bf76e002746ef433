package redlatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lease is one acquisition of a lock. It is safe for concurrent use.
//
// A lease is held until it is released or lost, or handed on by [Lease.Detach]. It is lost when its
// deadline passes without an extend that Redis confirmed, or as soon as Redis says that it is gone.
// The deadline is the TTL after the last confirmed request, counted from *before* it was sent, less
// a hundredth of the TTL and 2ms for clocks that differ. Until the first extend of a lease that was
// handed over, the deadline is at most three Options.Heartbeat after that moment. Time is measured
// by the monotonic and by the wall clock, and the one that went further counts. So this process
// gives the lease up before Redis does. Between the last check and the write, a process can still
// be suspended for any length of time: pass [Lease.Token] along with every write, and let the
// resource refuse tokens older than the newest it has seen.
type Lease struct{ core *lease.Lease }

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.core.Lock().Name }

// Owner returns the name of this acquisition in Redis: `GET` shows it for a mutex that is held.
// Only entries of a [ReentrantMutex], goroutines that pass a [Mutex] on among themselves, and
// leases on a lock that the client kept (LockOptions.Linger) share an owner. If the program calls
// Owner for an [RWMutex], the client does not keep the lock: another process may read under that
// owner later.
func (l *Lease) Owner() string { return l.core.TellOwner() }

// Context returns the context to run the work under. It is done when the lease is released,
// detached or lost, or when the context given to Lock is done. Then [context.Cause] returns the
// [*LostError] if the lease was lost, an error that matches [ErrNotHeld] if it was released or
// detached, and the cause of the context given to Lock otherwise.
//
// Its Err answers by the clock: once the deadline has passed, it is not nil, and Done is closed.
// Done alone, and contexts made from this one, need the client's timer, which a process that is
// busy on all its threads can delay for tens of milliseconds. Before a step that must not overlap,
// check this context's Err, or call [Lease.Ensure].
func (l *Lease) Context() context.Context { return l.core.Context() }

// Token returns the fencing token of this acquisition, which is larger than that of every earlier
// acquisition of the name, with the exceptions that docs/guarantees.md lists under Tokens. Entries
// of one owner of a [ReentrantMutex] share it. Once the lease is no longer held, Token returns 0,
// which every resource that checks tokens refuses.
func (l *Lease) Token() int64 {
	if !l.Held() {
		return 0
	}
	return l.core.Number()
}

// Held reports whether the lease is held now. If not, Context is done already.
func (l *Lease) Held() bool { return l.core.Held() }

// Remaining returns how long the lease is sure to last without another extend; 0 if it is not held.
func (l *Lease) Remaining() time.Duration { return l.core.Remaining() }

// Deadline returns the time at which the lease ends without another extend. It stays after the
// lease has ended.
func (l *Lease) Deadline() time.Time { return l.core.Deadline() }

// Err returns nil while the lease is held, and an error that matches [ErrNotHeld] once it is not.
// If the lease was lost, that is a [*LostError].
func (l *Lease) Err() error { return l.core.Err() }

// Ensure returns nil if the lease lasts for at least d from now, and extends it if necessary. Call
// it before a step that must not be interrupted. The error is that of [Lease.Extend], matches
// [ErrInvalid] if d is longer than a full TTL can promise (see [Lease.ExtendTo]), or matches
// [ErrUnreachable] if Redis answers so slowly that less than d is left; the lease is held then.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error { return l.core.Ensure(ctx, d) }

// Extend gives the lease its full TTL again, counted from before the request. The watchdog does
// this by itself; a program needs it with LockOptions.Renew set to [Off]. See [Lease.ExtendTo] for
// another length. If the lease is no longer held, or Redis says so now, the error matches
// [ErrNotHeld]. If Redis does not answer, it matches [ErrUnreachable], and the lease is held until
// its old deadline. If the lease has reached its MaxHold, it is not extended, and the error matches
// [ErrMaxHold].
func (l *Lease) Extend(ctx context.Context) error { return l.core.Extend(ctx) }

// ExtendTo makes the lease last for d (1ms to 24h) from now, even if that is longer than
// LockOptions.TTL. Use it for a step during which Redis may be out of reach, or with
// LockOptions.Renew set to [Off]. The deadline counts from before the request was sent, less a
// hundredth of d and 2ms. ExtendTo never shortens a lease: if more than d is left, it sends nothing
// and returns nil. Nor do Extend and the watchdog. The watchdog still asks at a third of the TTL,
// and so finds out that the lease was deleted or taken by force. A process that is killed keeps the
// lock for as long as d. The lease is not passed on to another goroutine. [Lease.Detach] leaves its
// length as it is; [Client.Adopt] sets the TTL of its options, even if that is shorter.
//
// The error is that of [Lease.Extend], but matches [ErrMaxHold] if d is longer than the TTL and
// reaches beyond LockOptions.MaxHold, and [ErrInvalid] if d is out of bounds. Over a quorum, more
// than the TTL is refused with ErrInvalid and errors.ErrUnsupported.
func (l *Lease) ExtendTo(ctx context.Context, d time.Duration) error { return l.core.ExtendTo(ctx, d) }

// Release gives the lock up and lets in the waiter that is next in line, but not before
// LockOptions.MinHold has passed. The lease's context is done before the request is sent, so finish
// the work first. Release waits for an Extend that is under way, and then for 4/3 of
// Options.RequestTimeout at most. It goes on even if ctx is done, since a lock that stays behind
// keeps all others waiting.
//
// It returns nil if the lease was released, even by an earlier call, or was handed on with
// [Lease.Detach]. It returns the [*LostError] if the lease had been lost: the work may then have
// overlapped with that of the next holder. If Redis does not answer, or has no space for writes,
// the error matches [ErrUnreachable]. The client then goes on trying in the background, until Redis
// has said three times that the lease is released, the TTL (and a slot's quarantine) has passed, or
// the client is closed. Release may also be called again.
func (l *Lease) Release(ctx context.Context) error { return l.core.Release(ctx) }

// Detach ends the lease in this process without releasing it, and returns a text that names it. The
// lock stays taken for a full TTL, which begins with this call. In that time [Client.Adopt] takes
// the lease up again, in this or another process, with the same fencing token. If the text is not
// used within the TTL, the lease ends. Stop the work first: once Detach has returned, the lease is
// not held here. Its context is done, with a cause that matches [ErrDetached] and [ErrNotHeld], and
// Release does nothing and returns nil.
//
// Detach sends a [Lease.Extend] first. If that fails, so does Detach, with the same error, and the
// lease is lost, or still held. Call Detach again, or Release. There is one exception: after an
// acquisition that was sent twice, a second request changes the owner. If it gets no answer, the
// lease has ended, and is released in the background. An entry of a [ReentrantMutex] that shares
// its client's place in Redis first gets a place of its own.
//
// The text is one printable word without quotes or blanks, some 150 bytes and at most 4096, safe in
// a file, in an environment variable or on a command line. Keep it as you would a key: a program
// that has it, and may use the Redis server, has the lock. It names neither the server nor
// Options.Prefix, which must be the same. For a [MultiLease], detach each of [MultiLease.Leases].
func (l *Lease) Detach(ctx context.Context) (text string, err error) {
	if err := l.core.Detach(ctx); err != nil {
		return "", err
	}
	owner, token := l.core.Heir()
	return l.core.Lock().Text(owner, token, l.core.Detail()).String(), nil
}

// Wanted returns a channel that is closed when another acquisition waits for the lock, in any
// process: at once if one is waiting already. It is for long work that can stop at a good place,
// and then release the lock. The lease goes on for as long as the holder likes, and the channel
// stays closed even if the waiter gives up. All calls return the same channel, which over a quorum
// is never closed. The end of the lease does not close it: wait for the lease's context as well.
//
// The first call sends a request in the background, and so does each extend after it. Redis
// notifies a client that can listen. If it cannot, or the message is lost, the next extend finds
// the waiter. Of several leases on one semaphore, all on which Wanted was called are told.
func (l *Lease) Wanted() <-chan struct{} { return l.core.Wanted() }

// Permits returns how many permits of a [Semaphore] the lease has. It returns 0 for a lease of
// another kind of lock, and for one that is not held.
func (l *Lease) Permits() int64 {
	if l.core.Lock().Kind.Name != script.Semaphore.Name || !l.Held() {
		return 0
	}
	n, _ := strconv.ParseInt(l.core.Detail(), 10, 64) // a number, by the script
	return n
}

// holding is a lease on one lock or on several, or a slot.
type holding interface {
	Context() context.Context
	Release(ctx context.Context) error
}

// do acquires a lease, and runs f under it.
func do[L holding](ctx context.Context, acquire func(context.Context) (L, error), f func(context.Context, L) error) error {
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	return runHeld(ctx, lease, f)
}

// runHeld runs f under the lease, and releases it when f has returned or panicked.
func runHeld[L holding](ctx context.Context, lease L, f func(context.Context, L) error) (err error) {
	defer func() { err = fault.Join(err, lease.Release(ctx)) }()
	return f(lease.Context(), lease)
}

// part returns which part of a shared lock the lease has: its mode, or the number of its slot. It
// returns "" for the other kinds.
func (l *Lease) part() (key, value string) {
	switch l.core.Lock().Kind.Name {
	case script.RWMutex.Name:
		return "mode", l.core.Lock().Mode()
	case script.SlotPool.Name:
		return "slot", l.core.Detail()
	}
	return "", ""
}

// String says which lock the lease is on, with its token, and how long it lasts or why it ended:
// `lease on mutex "a" with token 7, held for another 29.7s`.
func (l *Lease) String() string {
	text := "lease on " + describe(l.core.Lock())
	if key, value := l.part(); key != "" {
		text += ", " + key + " " + value + ","
	}
	text += fmt.Sprintf(" with token %d", l.core.Number())
	if left := l.Remaining(); left > 0 {
		return fmt.Sprintf("%s, held for another %v", text, left.Round(time.Millisecond))
	}
	return text + ", " + l.ended()
}

// LogValue returns the lock, owner and token, and how long the lease lasts or why it ended, as a
// group.
func (l *Lease) LogValue() slog.Value {
	all := attributes(l.core.Lock())
	if key, value := l.part(); key != "" {
		all = append(all, slog.String(key, value))
	}
	all = append(all, slog.String("owner", l.core.NamedOwner()), slog.Int64("token", l.core.Number()))
	if left := l.Remaining(); left > 0 {
		return slog.GroupValue(append(all, slog.String("remaining", left.Round(time.Microsecond).String()))...)
	}
	return slog.GroupValue(append(all, slog.String("ended", l.ended()))...)
}

// ended says how a lease that is not held ended.
func (l *Lease) ended() string {
	switch err, lost := l.Err(), (*LostError)(nil); {
	case errors.As(err, &lost):
		return fmt.Sprintf("lost: %v", lost.Cause)
	case errors.Is(err, ErrDetached):
		return "detached"
	}
	return "released"
}

// describe returns the kind and the name of a lock.
func describe(l *lock.Lock) string { return fmt.Sprintf("%s %q", sized(l.Kind.Name, l.Size), l.Name) }

func attributes(l *lock.Lock) []slog.Attr {
	all := []slog.Attr{slog.String("kind", l.Kind.Name), slog.String("name", l.Name)}
	if l.Size > 0 {
		all = append(all, slog.Int64("size", l.Size))
	}
	return all
}
