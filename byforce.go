package redlatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// robberies is how often TakeByForce looks for the holder anew, if another acquired the mutex
// between its look and its request.
const robberies = 10

// TakeByForce takes the mutex from its holder and acquires it, in one step: no waiter gets in
// between, however long it has waited. It is for operators and repairs; a program that takes part
// in the work waits with [Mutex.Lock]. If the mutex is free, TakeByForce acquires it past the line.
//
// The holder loses its lease as by [Client.ForceRelease], and is told in the same way: by which
// process, when and for what reason. Until it finds out, two may be at work; the token of the new
// lease is larger, so a resource that checks tokens refuses the old holder. With
// ForceOptions.Owner, the mutex is taken from that holder and no other, so that a call can be
// repeated. Without, it is taken from the holder that TakeByForce finds.
//
// The error matches [ErrNotHeld] if ForceOptions.Owner is not the holder; then nothing was changed.
// It matches [ErrTaken] if others acquired the mutex each time that TakeByForce was about to. It
// matches [ErrUnreachable] if Redis gave no answer: the holder may have lost the mutex by then, and
// what the call acquired is released in the background. Otherwise it is as that of [Mutex.TryLock].
// Over a quorum it is refused with [ErrInvalid] and errors.ErrUnsupported: there, force the
// release, and lock.
func (m *Mutex) TakeByForce(ctx context.Context, o ForceOptions) (*Lease, error) {
	k := &m.latch
	if err := o.check(); err != nil {
		return nil, err
	}
	if k.invalid != nil {
		return nil, k.invalid
	}
	if !k.kind.Seizes() {
		return nil, invalid("take the mutex %q by force over a quorum: %w: force its release, and lock it", k.name, errors.ErrUnsupported)
	}
	if err := k.checkDeadlock(ctx); err != nil {
		return nil, err
	}
	if err := labelsError(ctx); err != nil {
		return nil, err
	}
	lease, err := k.attempt(ctx, false).takeByForce(o)
	return k.client.trace(lease), err
}

// takeByForce returns the lease that the attempt comes to.
func (a *attempt) takeByForce(o ForceOptions) (lease *Lease, err error) {
	if err := a.client.enter(); err != nil {
		return nil, a.failed("take by force", err)
	}
	defer a.client.background.Done()
	if err := fault.WhyDone(a.ctx); err != nil {
		return nil, a.failed("take by force", err)
	}
	defer func() { a.tellFailed(err) }()
	a.tellAttempt()
	for range robberies {
		lease, err = a.rob(o)
		if !errors.Is(err, ErrTaken) {
			break
		}
		a.owner = a.client.owner()
	}
	return lease, a.tooLate(err)
}

// rob takes the mutex from the holder of this moment, if there is one. The error matches ErrTaken
// if that holder had gone, and another had come.
func (a *attempt) rob(o ForceOptions) (*Lease, error) {
	c := a.client
	looking, cancel := context.WithTimeout(a.ctx, c.options.RequestTimeout)
	defer cancel()
	before, _, err := c.inspect(looking, a.name)
	switch {
	case err != nil:
		return nil, err
	case before.RedisType != "":
		return nil, wrongKind(a.subject(), before.RedisType, 0)
	case before.Kind != "" && before.Kind != a.kind.Name:
		return nil, wrongKind(a.subject(), before.Kind, before.Size)
	}
	var victim Holder
	if len(before.Holders) > 0 {
		victim = before.Holders[0]
	}
	if o.Owner != "" && o.Owner != victim.Owner {
		return nil, a.failed("take by force", fmt.Errorf("%w by %q", ErrNotHeld, o.Owner))
	}
	f := Force{By: newProcess(c.presence.Self()), At: before.At, Reason: o.Reason, Owner: victim.Owner, From: victim.Process}
	address, sharded := c.addressOf(a.latch, victim)
	c.presence.Announce()
	answer, err := a.ask(a.ctx, "take by force", a.kind.Seize(a.keys, script.Seizure{
		From: victim.Owner, Address: address, Sharded: sharded, Note: f.note(), Remember: rememberForce,
		Owner: a.owner, TTL: a.options.TTL, Param: a.param, FenceTTL: c.options.FenceTTL,
	}))
	var standing script.Standing
	if err == nil {
		standing, err = script.ParseSeize(answer.Reply)
	}
	if err != nil || !standing.Inside && answer.Resent {
		a.abandon(a.owner, "") // a request that got no answer may be on its way still
	}
	switch {
	case err != nil:
		return nil, err
	case !standing.Inside && o.Owner != "":
		return nil, a.failed("take by force", fmt.Errorf("%w by %q", ErrNotHeld, o.Owner))
	case !standing.Inside:
		return nil, a.failed("take by force", a.taken(standing.Occupant))
	}
	if victim.Owner != "" {
		c.recorder.forced(a.latch, victim, o.Reason)
	}
	if victim.Client == c.id { // which may not listen
		c.hearRevoke(victim.Owner, &f)
	}
	return a.begin(a.ctx, a.inside(a.owner, "", standing, answer, answer.Resent))
}

// addressOf returns the channel on which the client of a holder listens, "" if it is not known, and
// whether it is a sharded one.
func (c *Client) addressOf(l *latch, h Holder) (address string, sharded bool) {
	sharded = c.listener.Sharded()
	switch {
	case h.Client != "" && sharded:
		address = l.keys.Grants(h.Client)
	case h.Client != "":
		address = keys.Grants(c.options.Prefix, h.Client)
	}
	return address, sharded
}
