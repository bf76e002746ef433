package redlatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// ForceOptions say from which owner [Client.ForceRelease] or [Mutex.TakeByForce] takes a lock, and
// why. The zero value takes it from all holders.
type ForceOptions struct {
	// Owner is the one holder to take the lock from, as [Holder] has it; for a [ReentrantMutex]
	// also the EntryOf of several entries. A call with Owner can be repeated: it hits no later
	// holder of another client. Goroutines that pass a [Mutex] on, and clients with
	// LockOptions.Linger, reuse an owner. Default all holders.
	Owner string

	// Reason is told to the holder that loses the lock, and to operators that inspect the name
	// within an hour: up to 256 bytes of valid UTF-8 without control characters. Default none.
	Reason string

	Announce Announce // tells waiters of another library if the lock is free then, as LockOptions.Announce; default none
}

func (o ForceOptions) check() error {
	if err := (LockOptions{Announce: o.Announce}).checkNeighbours(); err != nil {
		return err
	}
	if o.Reason == "" {
		return nil
	}
	return printable("ForceOptions.Reason", o.Reason)
}

// ForceRelease takes a lock away from one holder, or from all, lets in the waiters that are next in
// line, and returns the lock as it was before. The old holder is told at once if its client is this
// one, or listens for grants, as a client does once it has waited in line (in a cluster, for this
// name). Otherwise it finds out at its next extend, about a third of its TTL later, or with Renew
// off at its deadline; over a quorum as [LossGone]. The window of a [Job] whose run has ended is
// opened, and so is a lock that only LockOptions.MinHold keeps closed.
//
// Redis remembers for an hour which process took the lock, when, from which owner and for what
// reason: [Client.Inspect] shows the last forced release, and so does the holder's [LostError]. The
// error matches [ErrNotHeld] if there is no holder, or none with that owner; then nothing was
// changed. It matches [ErrUnreachable] if Redis does not answer, or too few nodes of a quorum tell
// the holder, [ErrClosed] if the client is closed, and [ErrInvalid] if an option was refused. It is
// a [*KindError] if the key holds something that is no lock.
func (c *Client) ForceRelease(ctx context.Context, name string, o ForceOptions) (LockInfo, error) {
	if err := o.check(); err != nil {
		return LockInfo{}, err
	}
	owner, l := o.Owner, newLatch(c, script.Mutex, name)
	if err := c.engine.CheckOpen(ctx); err != nil { // the connection may be open
		return LockInfo{}, l.failed("force the release of", err)
	}
	p, err := c.engine.Survey.Look(ctx, name)
	if err != nil {
		return LockInfo{}, err
	}
	before := newLockInfo(p)
	if before.RedisType != "" {
		return before, &KindError{Name: name, Key: before.Key, Want: "lock", Got: before.RedisType}
	}
	l.Kind, l.Keys = p.Kind, p.Keys
	var taken bool
	var order, last []int
	for i, h := range before.Holders {
		switch {
		case owner != "" && owner != h.Owner && owner != h.EntryOf:
		case h.Owner == script.Window: // of a job: it opens when no run is inside
			last = append(last, i)
		default:
			order = append(order, i)
		}
	}
	for _, i := range append(order, last...) {
		h := before.Holders[i]
		r := c.engine.Rob(&l.Lock, p.Holders[i], p.At, o.Reason)
		call := l.Kind.Force(l.Keys, h.Owner, r.Address, r.Shard, c.options.FenceTTL, r.Note, r.Remember)
		if a := o.Announce; a.Channel != "" {
			call = script.For(call, script.Neighbours{Channel: a.Channel, Message: a.Message, Sharded: a.Sharded && c.engine.Listener.Sharded()})
		}
		answer, err := l.ask(ctx, "force the release of", call)
		if err != nil {
			return before, err
		}
		if !script.Done(answer.Reply) && !answer.Resent {
			continue
		}
		taken = true
		r.Tell()
	}
	switch {
	case taken:
		return before, nil
	case p.Doubt != nil:
		return before, p.Doubt
	case owner == "":
		return before, l.failed("force the release of", ErrNotHeld)
	}
	return before, l.failed("force the release of", fmt.Errorf("%w by %q", ErrNotHeld, owner))
}

// TakeByForce takes the mutex from its holder and acquires it, in one step: no waiter gets in
// between, however long it has waited. It is for operators and repairs. If the mutex is free,
// TakeByForce acquires it past the line. With ForceOptions.Owner, it takes the mutex from that
// holder and no other, so that a call can be repeated. The holder loses its lease, and is told, as
// by [Client.ForceRelease]. Until it finds out, both may be at work; the token of the new lease is
// larger, so a resource that checks tokens refuses the old holder.
//
// The error matches [ErrNotHeld] if ForceOptions.Owner is not the holder; then nothing was changed.
// It matches [ErrTaken] if others acquired the mutex each time that TakeByForce was about to. It
// matches [ErrUnreachable] if Redis gave no answer: the holder may have lost the mutex by then, and
// what the call acquired is released in the background. Otherwise it is as that of [Mutex.TryLock].
// Over a quorum it is refused with [ErrInvalid] and [errors.ErrUnsupported]: there, call
// ForceRelease, then Lock.
func (m *Mutex) TakeByForce(ctx context.Context, o ForceOptions) (*Lease, error) {
	k := &m.latch
	if err := o.check(); err != nil {
		return nil, err
	}
	if k.invalid != nil {
		return nil, k.invalid
	}
	if !k.Kind.Seizes() {
		return nil, invalid("take the mutex %q by force over a quorum: %w: force its release, and lock it", k.Name, errors.ErrUnsupported)
	}
	if err := k.checkDeadlock(ctx); err != nil {
		return nil, err
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	got, err := k.client.engine.Acquirer.Seize(ctx, &k.Lock, wish, o.Owner, func(ctx context.Context) (acquire.Robbery, error) {
		return k.victim(ctx, o.Reason)
	})
	return k.client.lend(got), err
}

// victim returns how the latch is taken from the holder of this moment, if there is one.
func (l *latch) victim(ctx context.Context, reason string) (acquire.Robbery, error) {
	p, err := l.inside(ctx)
	switch use := p.InUse(); {
	case err != nil:
		return acquire.Robbery{}, err
	case use != "" && use != l.Kind.Name:
		return acquire.Robbery{}, wrongKind(l.Subject, use, p.Size)
	}
	var from survey.Holder
	if len(p.Holders) > 0 {
		from = p.Holders[0]
	}
	return l.client.engine.Rob(&l.Lock, from, p.At, reason), nil
}
