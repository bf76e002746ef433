package redlatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// A lease can be given a length of its own. It is tempting to send the watchdog away until then.
// But a lease that was deleted or taken by force would be found lost at its end only. So the
// watchdog goes on at a third of the TTL, and asks for no less than is left.

// ExtendTo has the lease last for d from now, also where that is longer than LockOptions.TTL: for a
// step during which Redis may be out of reach, or with LockOptions.Renew set to [Off]. d is 1ms to
// 24h. The deadline counts from before the request was sent, as after [Lease.Extend], less a
// hundredth of d and 2ms.
//
// ExtendTo never shortens a lease: if more than d is left, it sends nothing and returns nil. Nor do
// Extend and the watchdog afterwards. The watchdog still asks at a third of the TTL, which finds
// out that the lease was deleted or taken by force. It gives the lease no more than what is left,
// until that is less than the TTL. A process that is killed keeps the lock for as long as d. The
// lease is released in Redis when it ends, and not passed on to another goroutine. [Lease.Detach]
// leaves its length as it is; [Client.Adopt] sets the TTL of its options, also if that is shorter.
//
// The error is as that of [Lease.Extend]. It matches [ErrMaxHold] if d reaches beyond
// LockOptions.MaxHold, and [ErrInvalid] if d cannot be. Over a quorum, more than the TTL is refused
// with ErrInvalid and errors.ErrUnsupported: a node that restarts would have to rest for so long.
func (l *Lease) ExtendTo(ctx context.Context, d time.Duration) error {
	l = l.self()
	if d >= time.Millisecond && l.Remaining() >= d {
		return nil
	}
	if d < time.Millisecond {
		return invalid("extend the lease on %q to %v: it must be at least 1ms", l.Name(), d)
	}
	l.mu.Lock()
	ttl := max(d, l.leftInRedis())
	held := l.latch.client.now().Since(l.acquired)
	l.unlock()
	o := l.latch.options
	switch {
	case ttl > maxTTL:
		return invalid("extend the lease on %q so that %v are left: at most %v may be", l.Name(), ttl, maxTTL)
	case ttl > o.TTL && l.latch.client.quorum != nil:
		return invalid("extend the lease on %q beyond its TTL of %v over a quorum: %w: give the lock a longer LockOptions.TTL",
			l.Name(), o.TTL, errors.ErrUnsupported)
	case ttl > o.TTL && o.MaxHold > 0 && held+ttl > o.MaxHold && l.Held():
		return fmt.Errorf("redlatch: extend %q so that %v are left, after %v: %w", l.Name(), ttl, held, ErrMaxHold)
	}
	return l.extend(ctx, d)
}

// lengthen returns the TTL to ask for in an extend to d that is about to be sent: no less than the
// time that Redis keeps the lease for. It notes the TTL.
func (l *Lease) lengthen(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	ttl := max(d, l.leftInRedis())
	l.longest = max(l.longest, ttl)
	return ttl
}

// leftInRedis returns for how long Redis keeps the lease, at least. The caller holds l.mu.
func (l *Lease) leftInRedis() time.Duration { return l.ttl - l.latch.client.now().Since(l.sentAt) }

// long reports whether Redis may keep the lease for longer than its TTL, as the program asked for.
// The caller holds l.mu.
func (l *Lease) long() bool { return l.ttl > l.latch.TTL }

// pace returns the time of which the watchdog extends the lease in thirds. The caller holds l.mu.
func (l *Lease) pace() time.Duration {
	if full := l.latch.TTL; l.long() {
		return full - lock.Drift(full)
	}
	return l.validity()
}
