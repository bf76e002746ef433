package redlatch

import (
	"context"
	"slices"

	"github.com/redlatch/redlatch/internal/engine/lease"
)

// WithHeld returns a context that says under which leases of other processes a caller works, beside
// those that it has by the contexts of its own: those of a parent process, which keeps them until
// this one ends. If an acquisition under the context waits, [Waiter].Holds tells them, and
// [Client.Deadlocks] finds cycles through them. Lock itself looks at leases of its own client
// alone. `redlatch run` passes on what it holds in this way. At most 64 leases are told.
func WithHeld(ctx context.Context, held ...Held) context.Context {
	before, _ := ctx.Value(elsewhereKey{}).([]Held)
	return context.WithValue(ctx, elsewhereKey{}, slices.Concat(before, held))
}

type elsewhereKey struct{}

// Held implements [lease.Under].
func (c *multiContext) Held() ([]*lease.Lease, context.Context) { return c.lease.cores(), c.Context }

// shut reports whether Redis says that none of these names has room, and that every owner inside is
// one of these.
func (s *survey) shut(ctx context.Context, names []string, inside map[string]bool) bool {
	for _, v := range s.lookAll(ctx, names, nil) {
		if v.err != nil || !shutBy(v.info, func(h Holder) bool { return inside[h.Owner] }) {
			return false
		}
	}
	return true
}
