package redlatch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// What the hook is told. An attempt that was told of ends once, in granted or failed; a lease ends
// once, in released, lost or detached. So a flag is set before the hook is called, which may panic:
//
//	attempt.begun   attempt       tellAttempt
//	attempt.ended   granted       begin
//	                failed        tellFailed
//	Lease.state     released      its first release, whatever comes of it
//	                lost, detached
//
// Between granted and the lease there is only the hook. If it panics there, begin tells released.

// hook is the type of [Options.Hook].
type hook = func(context.Context, Event)

// attempts numbers the attempts of this process, for Event.ID.
var attempts atomic.Uint64

// errPanicked ends an attempt, or the lease that it came to, when the hook panics.
var errPanicked = errors.New("the calling goroutine panicked")

// tellAttempt tells the hook, once, that the attempt begins.
func (a *attempt) tellAttempt() {
	if a.begun {
		return
	}
	a.begun, a.id, a.start = true, attempts.Add(1), a.client.now()
	a.emit(Event{Type: EventAttempt})
}

// tellWait tells the hook, once, that the attempt is waiting.
func (a *attempt) tellWait() {
	if a.waiting {
		return
	}
	a.waiting = true
	a.emit(Event{Type: EventWait, Waited: a.client.now().Since(a.start)})
}

// tellReach tells the hook that the attempt, which waits, cannot reach Redis, for this reason; or,
// if there is none, that it can again. It tells each change once.
func (a *attempt) tellReach(outage error) {
	if a.cutOff == (outage != nil) || a.client.closing.Err() != nil {
		return
	}
	a.cutOff = !a.cutOff
	e := Event{Type: EventReachable, Waited: a.client.now().Since(a.start), Err: outage}
	if a.cutOff {
		e.Type = EventUnreachable
	}
	a.emit(e)
}

// tellFailed tells the hook that the attempt ended without a lease, unless it never began or the
// hook was told of its end. Without an error, the hook has panicked.
func (a *attempt) tellFailed(err error) {
	if !a.begun || a.ended {
		return
	}
	a.ended = true
	if err == nil {
		err = a.failed("acquire", errPanicked)
	}
	waited := a.client.now().Since(a.start)
	a.emit(Event{Type: EventFailed, Waited: waited, Outcome: OutcomeOf(err), Err: err})
}

// tellAllFailed calls tellFailed for these attempts, in their order, also for those after one at
// which the hook panics.
func tellAllFailed(attempts []*attempt, err error) {
	if len(attempts) > 0 {
		defer tellAllFailed(attempts[1:], err)
		attempts[0].tellFailed(err)
	}
}

// emit tells the hook of the attempt.
func (a *attempt) emit(e Event) {
	e.ID, e.Owner = a.id, a.owner
	a.client.emit(a.ctx, &a.Lock, e)
}

// tellLease tells the hook of what has become of a lease.
func (c *Client) tellLease(l *lease.Lease, what lease.Event) {
	c.emit(l.Context(), l.Lock(), Event{
		Type: EventType(what.What), ID: l.ID(), Owner: l.Owner(), Token: l.Number(), HeldFor: what.HeldFor, Before: what.Before,
		Remaining: what.Remaining, Reason: LossReason(what.Reason), Err: what.Err, Stack: stackText(what.Callers),
	})
}

// emit tells the hook of a lock.
func (c *Client) emit(ctx context.Context, l *lock.Lock, e Event) {
	if r := c.recorder; r != nil {
		r.tap(ctx, l, e)
	}
	call := c.options.Hook
	if call == nil {
		return
	}
	e.Kind, e.Mode, e.Name, e.TTL = l.Kind.Name, l.Mode(), l.Name, l.TTL
	call(ctx, e)
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
