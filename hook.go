package redlatch

import (
	"context"
	"slices"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// hook is the type of [Options.Hook].
type hook = func(context.Context, Event)

// tell tells the hook and the journal what happened to an acquisition or a lease.
func (c *Client) tell(ctx context.Context, l *lock.Lock, what lock.Event) {
	e := Event{
		Type: EventType(what.What), ID: what.ID, Kind: l.Kind.Name, Mode: l.Mode(), Name: l.Name, Owner: what.Owner, Token: what.Token,
		TTL: l.TTL, Waited: what.Waited, HeldFor: what.HeldFor, Before: what.Before, Remaining: what.Remaining,
		Reason: LossReason(what.Reason), Err: what.Err,
	}
	switch what.What {
	case lock.Granted:
		e.Outcome = OutcomeGranted
	case lock.Failed:
		e.Outcome = OutcomeOf(what.Err)
	}
	if c.recorder != nil {
		c.recorder.tap(ctx, l, e)
	}
	if call := c.options.Hook; call != nil {
		e.Stack = stackText(what.Callers)
		call(ctx, e)
	}
}

// JoinHooks returns a hook, for [Options.Hook], that calls each of these hooks in their order. It
// leaves out those that are nil, and returns nil if all are.
//
// A hook that panics does not keep the hooks after it from being called. The panic goes on when all
// were called. If several panic, the last one does.
func JoinHooks(hooks ...func(context.Context, Event)) func(context.Context, Event) {
	hooks = slices.DeleteFunc(slices.Clone(hooks), func(h hook) bool { return h == nil })
	if len(hooks) == 0 {
		return nil
	}
	return func(ctx context.Context, e Event) { callAll(ctx, hooks, e) }
}

// callAll calls these hooks in their order, also those after one that panics.
func callAll(ctx context.Context, hooks []hook, e Event) {
	if len(hooks) > 0 {
		defer callAll(ctx, hooks[1:], e)
		hooks[0](ctx, e)
	}
}
