package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// Ensure returns nil if the lease lasts for at least d from now, and extends it if need be.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	ttl := l.lock.TTL
	if full := ttl - lock.Drift(ttl); d >= full {
		return fault.Invalid("ensure %v of the lease on %q: with a TTL of %v it is never sure to last longer than %v", d, l.lock.Name, ttl, full)
	}
	if l.Remaining() >= d {
		return nil
	}
	if err := l.Extend(ctx); err != nil {
		return err
	}
	if left := l.Remaining(); left < d {
		return fmt.Errorf("redlatch: ensure %v of the lease on %q: only %v are left, Redis answers slowly: %w", d, l.lock.Name, left, fault.ErrUnreachable)
	}
	return nil
}

// Extend gives the lease its full TTL again, counted from before the request.
func (l *Lease) Extend(ctx context.Context) error {
	return l.extend(ctx, l.lock.TTL)
}

// extend is Extend to a length of its own, and to no less than what is left in Redis.
func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	if l.Held() && l.overdue() {
		return fmt.Errorf("redlatch: extend %q: %w", l.lock.Name, fault.ErrMaxHold)
	}
	left, err := l.beginExtend(ctx)
	if err != nil {
		return err
	}
	ttl := l.lengthen(d)
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	call := l.lock.Kind.Renew(l.lock.Keys, l.owner, ttl, l.detail)
	answer, err := l.keeper.Asker.AskMissing(bounded, l.lock.Subject, "extend", call, l.mend)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.failed("extend", fmt.Errorf("%w before the deadline", fault.ErrUnreachable))
	}
	return l.finishExtend(answer.Reply, answer.Sent, ttl, left, err)
}

// ExtendTo has the lease last for d from now, also where that is longer than its TTL.
//
// It is tempting to send the watchdog away until then. But a lease that was deleted or taken by
// force would be found lost at its end only. So the watchdog goes on at a third of the TTL, and
// asks for no less than is left.
func (l *Lease) ExtendTo(ctx context.Context, d time.Duration) error {
	if d >= time.Millisecond && l.Remaining() >= d {
		return nil
	}
	if d < time.Millisecond {
		return fault.Invalid("extend the lease on %q to %v: it must be at least 1ms", l.lock.Name, d)
	}
	l.mu.Lock()
	ttl := max(d, l.leftInRedis())
	held := l.keeper.Now().Since(l.acquired)
	l.unlock()
	switch {
	case ttl > lock.MaxTTL:
		return fault.Invalid("extend the lease on %q so that %v are left: at most %v may be", l.lock.Name, ttl, lock.MaxTTL)
	case ttl > l.lock.TTL && l.keeper.Quorum:
		return fault.Invalid("extend the lease on %q beyond its TTL of %v over a quorum: %w: give the lock a longer LockOptions.TTL",
			l.lock.Name, l.lock.TTL, errors.ErrUnsupported)
	case ttl > l.lock.TTL && l.lock.MaxHold > 0 && held+ttl > l.lock.MaxHold && l.Held():
		return fmt.Errorf("redlatch: extend %q so that %v are left, after %v: %w", l.lock.Name, ttl, held, fault.ErrMaxHold)
	}
	return l.extend(ctx, d)
}

// lengthen returns the TTL to ask for in an extend to d that is about to be sent: no less than the
// time that Redis keeps the lease for. It notes the TTL.
func (l *Lease) lengthen(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	lead := l.leading()
	ttl := max(d, lead.leftInRedis(), l.leftInRedis())
	lead.longest = max(lead.longest, ttl)
	return ttl
}

// leftInRedis returns for how long Redis keeps the lease, at least. The caller holds l.mu.
func (l *Lease) leftInRedis() time.Duration { return l.ttl - l.keeper.Now().Since(l.sentAt) }

// long reports whether Redis may keep the lease for longer than its TTL, as the program asked for.
// The caller holds l.mu.
func (l *Lease) long() bool { return max(l.ttl, l.longest) > l.lock.TTL }

// pace returns the time of which the watchdog extends the lease in thirds. The caller holds l.mu.
func (l *Lease) pace() time.Duration {
	if full := l.lock.TTL; l.long() {
		return full - lock.Drift(full)
	}
	return l.validity()
}

// failed wraps err with what was asked of which lock and server.
func (l *Lease) failed(op string, err error) error {
	return l.keeper.Asker.Failed(l.lock.Subject, op, err)
}
