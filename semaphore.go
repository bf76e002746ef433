package redlatch

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxPermits is the largest semaphore.
const maxPermits = 1 << 40

// Semaphore is a lock with n permits, of which each holder takes some. Make it with
// [Client.Semaphore]; it is safe for concurrent use. A caller that wants more permits than are free
// waits in line, and later callers wait behind it, so that a large request does not starve. Each
// lease expires on its own, with its permits.
type Semaphore struct{ noun }

// Semaphore returns the semaphore of that name with n permits, 1 to 2^40. All programs that use it
// at the same time must agree on n: a call with another number fails with a [*KindError].
func (c *Client) Semaphore(name string, n int64) *Semaphore {
	l := newLatch(c, script.Semaphore, name)
	l.Size = n
	if (n < 1 || n > maxPermits) && l.invalid == nil {
		l.invalid = invalid("semaphore %.80q of %d permits: it needs 1 to 2^40", name, n)
	}
	return &Semaphore{noun{named{l}}}
}

// With returns the same semaphore with the options that are not zero in o.
func (s *Semaphore) With(o LockOptions) *Semaphore { return &Semaphore{s.noun.with(o)} }

// Acquire takes k permits, all at once. It waits in line, returns and fails as [Mutex.Lock] does.
// The error of a wait that was cut short also matches [ErrExhausted]. A k that is too small or too
// large: [ErrInvalid].
func (s *Semaphore) Acquire(ctx context.Context, k int64) (*Lease, error) {
	return s.acquire(ctx, k, true)
}

// TryAcquire takes k permits if they are free and no waiter is in line. Otherwise the error matches
// [ErrExhausted] and [ErrTaken]; it never waits. Everything else is as in [Semaphore.Acquire].
func (s *Semaphore) TryAcquire(ctx context.Context, k int64) (*Lease, error) {
	return s.acquire(ctx, k, false)
}

// TryAcquireAll takes all the permits that are free at this moment, at least one, as
// [Semaphore.TryAcquire] does. [Lease.Permits] returns how many.
func (s *Semaphore) TryAcquireAll(ctx context.Context) (*Lease, error) {
	return s.latch.withParam("0:"+strconv.FormatInt(s.latch.Size, 10)).acquire(ctx, false)
}

// Available returns how many permits were free at one moment. It changes nothing. While waiters are
// in line, permits that are free are for them. Permits that a release leaves closed for
// LockOptions.MinHold are not free. The error matches [ErrWrongKind] if the name is in use for
// something else, or for another number of permits, and otherwise [ErrUnreachable] or [ErrInvalid].
func (s *Semaphore) Available(ctx context.Context) (int64, error) {
	k := &s.latch
	if k.invalid != nil {
		return 0, k.invalid
	}
	p, err := k.inside(ctx)
	if err != nil {
		return 0, err
	}
	if use := p.InUse(); use != "" && (use != k.Kind.Name || p.Size != 0 && p.Size != k.Size) {
		return 0, wrongKind(k.Subject, use, p.Size)
	}
	free := k.Size
	for _, h := range newLockInfo(p).Holders {
		free -= h.Permits
	}
	return max(free, 0), nil
}

// Do runs f while it holds k permits, as [Mutex.Do] does.
func (s *Semaphore) Do(ctx context.Context, k int64, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return s.Acquire(ctx, k) }, f)
}

// TryDo runs f as [Mutex.TryDo] does, if [Semaphore.TryAcquire] takes k permits.
func (s *Semaphore) TryDo(ctx context.Context, k int64, f func(ctx context.Context, l *Lease) error) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return s.TryAcquire(ctx, k) }, f)
}

// Resize changes the number of permits for all programs, and returns the semaphore of that size.
// Holders keep their permits, even if they are now too many. Waiters go on waiting, but those that
// want more permits than there will be get a [*KindError]. As long as there is a holder, programs
// with the old number are refused from now on. If there is none, Resize changes nothing: the next
// holder's number counts. So configure all programs with the new number as well. The error matches
// [ErrInvalid], [ErrWrongKind], [ErrUnreachable] or [ErrClosed].
func (s *Semaphore) Resize(ctx context.Context, n int64) (*Semaphore, error) {
	next := s.latch.client.Semaphore(s.latch.Name, n)
	next.latch.resolve(s.latch.options)
	next.latch.invalid = cmp.Or(next.latch.invalid, s.latch.invalid)
	return next, next.latch.resize(ctx)
}

func (s *Semaphore) acquire(ctx context.Context, k int64, wait bool) (*Lease, error) {
	if s.latch.invalid == nil && (k < 1 || k > s.latch.Size) {
		return nil, invalid("%d permits of the semaphore %q: it has %d", k, s.Name(), s.latch.Size)
	}
	l := s.latch.withParam(strconv.FormatInt(k, 10) + ":" + strconv.FormatInt(s.latch.Size, 10))
	return l.acquire(ctx, wait)
}
