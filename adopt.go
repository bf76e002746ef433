package redlatch

import (
	"context"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A lease can go on in another process. Detach ends it here without releasing it, and returns a
// text that names it. Adopt takes it up again, here or elsewhere, with the same token.
//
// In Redis the lease gets a new owner when it is adopted. So a text can be used once: a second
// Adopt finds the old owner gone. Nor can anything that was sent for the old owner, and arrives
// late, extend or release the lease of the new one.

// Adopt takes up a lease that [Lease.Detach] named, of any kind of lock, with the same fencing
// token, and gives it its full TTL again. ctx is the parent of its context. o says how it is held
// from now on, over the options of the client; TTL need not be what it was, and MaxHold counts from
// now. For a slot pool, see [Lease.Slot]. A text can be used once: of several calls with one text,
// at most one succeeds. To hand the lease on, detach it again.
//
// The error matches [ErrNotHeld] if the lease has ended: its TTL has passed, the text was used
// before, or the lock was released, taken by force or deleted. It matches [ErrInvalid] if the text
// names no lease, or an option is refused, and [ErrWrongKind] if the name is now in use for
// something else. If it matches [ErrUnreachable] or [ErrNotReplicated], or is that of ctx, the text
// may be used up. Then the lock is released in the background, and another call gets ErrNotHeld.
func (c *Client) Adopt(ctx context.Context, text string, o LockOptions) (*Lease, error) {
	t, err := lock.ParseText(text)
	if err != nil {
		return nil, err
	}
	l := newLatch(c, script.Named(t.Kind), t.Name)
	l.Param, l.Extra, l.options.FenceKey = t.Param, clock.Millis(t.Extra), t.Fence
	l = l.with(o)
	if err := l.refusal(); err != nil {
		return nil, err
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.engine.Adopt(ctx, &l.Lock, t, wish)
	return c.lend(got), err
}
