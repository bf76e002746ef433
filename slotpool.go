package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxSlots is the largest pool.
const maxSlots = 1 << 20

// SlotPool is n numbered slots, each for one holder at a time, such as worker ids, shards or ports.
// Make it with [Client.SlotPool]; it is safe for concurrent use. The lowest free slot is given
// first, in one request whatever n is. A slot that was released is free at once. A slot whose
// holder vanished is given again only after a quarantine, since the holder may still work with the
// number; see [SlotOptions].
type SlotPool struct {
	noun
	options SlotOptions
}

// SlotOptions configure a [SlotPool]. The zero value is right for most programs.
type SlotOptions struct {
	Quarantine time.Duration // from the end of the lease of a holder that vanished until its slot is given again; 1ms to 24h; default the TTL

	// Instance names the caller, such as a pod or a host. An instance gets the slot that it had last,
	// if that is free. At most 256 bytes of valid UTF-8 without control characters. Default none.
	Instance string
}

// Slot is a lease on one slot of a [SlotPool]. It is safe for concurrent use.
type Slot struct {
	*Lease
	id int
}

// ID returns the number of the slot, from 0 on. Once the lease is not held, it returns an error
// that matches [ErrNotHeld]: another holder may have the number. Ask for the number each time it is
// used. Where it matters, check that the time of use was before the lease's deadline.
func (s *Slot) ID() (int, error) {
	if err := s.Err(); err != nil {
		return 0, err
	}
	return s.id, nil
}

// Slot returns the slot that the lease is on, for a lease that [Client.Adopt] returned. The error
// matches [ErrInvalid] if the lease is not on a [SlotPool].
func (l *Lease) Slot() (*Slot, error) {
	kind := l.core.Lock().Kind.Name
	if kind != script.SlotPool.Name {
		return nil, invalid("the %s %q has no slots", kind, l.Name())
	}
	id, err := strconv.Atoi(l.core.Detail())
	if err != nil {
		return nil, fmt.Errorf("redlatch: find the slot of the lease on %q: %w", l.Name(), err)
	}
	return &Slot{l, id}, nil
}

// SlotPool returns the pool of that name with n slots, 1 to 2^20, numbered from 0. All programs
// must agree on n, as for [Client.Semaphore].
func (c *Client) SlotPool(name string, n int, o SlotOptions) *SlotPool {
	p := &SlotPool{newNoun(c, script.SlotPool, name), o}
	p.latch.Size = int64(n)
	p.latch.invalid = cmp.Or(p.latch.invalid, o.check(name, n))
	return p
}

func (o SlotOptions) check(name string, n int) error {
	if n < 1 || n > maxSlots {
		return invalid("slot pool %.80q of %d slots: it needs 1 to 2^20", name, n)
	}
	if o.Quarantine != 0 && (o.Quarantine < time.Millisecond || o.Quarantine > maxTTL) {
		return invalid("SlotOptions.Quarantine is %v: it must be between 1ms and %v", o.Quarantine, maxTTL)
	}
	if o.Instance == "" {
		return nil
	}
	return printable("SlotOptions.Instance", o.Instance)
}

// With returns the same pool with the options that are not zero in o.
func (p *SlotPool) With(o LockOptions) *SlotPool { return &SlotPool{p.noun.with(o), p.options} }

// Acquire takes a slot. If none is free, it waits in line, returns and fails as [Mutex.Lock] does.
// The error of a wait that was cut short also matches [ErrExhausted]. Once the slot's context is
// done, its number must no longer be used; Acquire gives another.
func (p *SlotPool) Acquire(ctx context.Context) (*Slot, error) { return p.acquire(ctx, true) }

// TryAcquire takes a slot if one is free and no waiter is in line. It never waits: otherwise the
// error matches [ErrExhausted] and [ErrTaken]. On a quorum it takes about 10 to 200 ms to find that
// no slot is free; if many try at the same moment, a few fail though one is free. Everything else
// is as in [SlotPool.Acquire].
func (p *SlotPool) TryAcquire(ctx context.Context) (*Slot, error) { return p.acquire(ctx, false) }

// Do runs f while it holds a slot, as [Mutex.Do] does.
func (p *SlotPool) Do(ctx context.Context, f func(ctx context.Context, s *Slot) error) error {
	return do(ctx, p.Acquire, f)
}

// TryDo runs f as [Mutex.TryDo] does, if [SlotPool.TryAcquire] takes a slot.
func (p *SlotPool) TryDo(ctx context.Context, f func(ctx context.Context, s *Slot) error) error {
	return do(ctx, p.TryAcquire, f)
}

// Resize changes the number of slots, as [Semaphore.Resize] does for permits. Holders keep their
// slots, even if the numbers are now too high; those are not given again. A slot in quarantine
// counts as held. On a quorum, a node that lost its data has the number with which a holder came.
func (p *SlotPool) Resize(ctx context.Context, n int) (*SlotPool, error) {
	next := p.latch.client.SlotPool(p.latch.Name, n, p.options)
	next.latch.resolve(p.latch.options)
	next.latch.invalid = cmp.Or(next.latch.invalid, p.latch.invalid)
	return next, next.latch.resize(ctx)
}

func (p *SlotPool) acquire(ctx context.Context, wait bool) (*Slot, error) {
	rest := p.options.Quarantine
	if rest == 0 {
		rest = p.latch.TTL
	}
	rest = (rest + time.Millisecond - 1).Truncate(time.Millisecond) // no shorter than asked for
	l := p.latch.withParam(fmt.Sprintf("%d:%d::%s", p.latch.Size, rest.Milliseconds(), p.options.Instance))
	l.Extra = rest
	lease, err := l.acquire(ctx, wait)
	if err != nil {
		return nil, err
	}
	id, err := strconv.Atoi(lease.core.Detail())
	if err != nil {
		return nil, fault.Join(l.failed("acquire", fmt.Errorf("a script gave the slot %q", lease.core.Detail())), lease.Release(ctx))
	}
	return &Slot{lease, id}, nil
}
