package redlatch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// What can go wrong, for errors.Is. The text of the error that a call returns also names the lock,
// the server and what to do.
var (
	// ErrTaken says that another owner holds the lock. A try found it so; or the time to wait ran
	// out, and the error also matches that of the context.
	ErrTaken = fault.ErrTaken

	// ErrLineFull says that the lock is taken, and that as many wait for it already as
	// LockOptions.MaxWaiters allows. It matches [ErrTaken], too.
	ErrLineFull = fault.ErrLineFull

	// ErrExhausted says that every slot of a [SlotPool] or too many permits of a [Semaphore] are
	// taken. It matches [ErrTaken], too.
	ErrExhausted = fault.ErrExhausted

	// ErrDeadlock says that the caller would wait for itself. Its context is that of a lease on the
	// same name, of a kind that cannot be entered again. Or it is that of a lease on another name,
	// and each holder of the lock waits under the context of its own lease, in the end for the
	// caller: goroutines of one client that lock two names in opposite order. It is so at this
	// moment: a bound on one of the waits would have ended the cycle later. Between processes,
	// [Client.Deadlocks] finds such cycles. A caller that does not pass the context on waits.
	ErrDeadlock = fault.ErrDeadlock

	// ErrNotHeld says that the lease is no longer held: it was released, handed on with
	// [Lease.Detach], or lost. In the last case the error is also a [*LostError].
	ErrNotHeld = fault.ErrNotHeld

	// ErrUnreachable says that Redis gave no usable answer in time, so that it is unknown whether
	// the operation took place. Whatever it may have left behind is cleaned up when Redis answers
	// again, or expires with its TTL.
	ErrUnreachable = fault.ErrUnreachable

	// ErrNotReplicated says that fewer replicas acknowledged the acquisition than
	// LockOptions.Replicas asks for. The lock was given back.
	ErrNotReplicated = fault.ErrNotReplicated

	// ErrWrongKind says that the name is in use for something else; the error is also a
	// [*KindError]. Nothing was overwritten.
	ErrWrongKind = fault.ErrWrongKind

	// ErrNotSet says that a [CountDownLatch] has no count: it was not set yet, has expired, was
	// deleted, or the server has lost its data.
	ErrNotSet = fault.ErrNotSet

	// ErrInvalid says that a name or an option was refused, before anything was sent.
	ErrInvalid = fault.ErrInvalid

	// ErrTooDeep says that the owner of a [ReentrantMutex] has entered it as often as
	// [ReentrantMutex.WithDepth] allows. Waiting does not help.
	ErrTooDeep = fault.ErrTooDeep

	// ErrMaxHold says that the lease reached LockOptions.MaxHold and is not extended any more.
	ErrMaxHold = fault.ErrMaxHold

	// ErrDetached says that the lease is no longer held by this process, which gave it up for
	// another with [Lease.Detach].
	ErrDetached = fault.ErrDetached

	// ErrClosed says that the client was closed.
	ErrClosed = fault.ErrClosed
)

// LossReason says why a lease was lost. Programs may count by it: the values do not change.
type LossReason string

const (
	LossExpired    LossReason = "expired"     // its deadline passed before an extend was confirmed
	LossGone       LossReason = "gone"        // Redis says that it is not there, and not why: it was deleted, or forgotten
	LossDeleted    LossReason = "deleted"     // its key is not in Redis, which knows the last token of the name: it was deleted or evicted, or the clock of the server was set forward
	LossForgotten  LossReason = "forgotten"   // Redis knows nothing of the name: it lost its data, in a restart, a flush or a failover
	LossForced     LossReason = "forced"      // it was taken by [Client.ForceRelease], [Mutex.TakeByForce] or the redlatch command
	LossMaxHold    LossReason = "max_hold"    // it reached LockOptions.MaxHold, and then its deadline
	LossNotRenewed LossReason = "not_renewed" // it reached its deadline, and LockOptions.Renew is Off
	LossClosed     LossReason = "closed"      // its client was closed
)

// causes are the reasons in words.
var causes = map[LossReason]error{
	LossExpired:    errors.New("it was not extended in time"),
	LossGone:       errors.New("it is no longer in Redis: deleted, forgotten, or taken by force"),
	LossDeleted:    errors.New("its key is no longer in Redis: deleted or evicted"),
	LossForgotten:  errors.New("the server has lost its data, by a restart, a flush or a failover"),
	LossForced:     errors.New("it was taken by force"),
	LossMaxHold:    ErrMaxHold,
	LossNotRenewed: errors.New("it reached its TTL and Renew is Off"),
	LossClosed:     fmt.Errorf("%w while it was held", ErrClosed),
}

// lost returns the error of a lease that is lost.
func lost(l *lease.Lease, why lock.Loss) error {
	e := &LostError{
		Name: l.Lock().Name, Owner: l.Owner(), Token: l.Number(), At: time.Now(), Reason: LossReason(why.Reason),
		Cause: causes[LossReason(why.Reason)], Force: parseForce(l.Owner(), why.Note),
	}
	if e.Force != nil {
		e.Cause = fmt.Errorf("%w by %v", e.Cause, e.Force)
	}
	return e
}

// LostError says that a lease ended before it was released. It is the cause of the lease's context,
// and what [Lease.Extend], [Lease.Ensure], [Lease.Err] and [Lease.Release] return from then on. It
// matches [ErrNotHeld], and [ErrClosed] or [ErrMaxHold] if that is the reason.
type LostError struct {
	Name   string    // of the lock
	Owner  string    // of the lease
	Token  int64     // the fencing token that is now stale
	At     time.Time // when this process gave it up
	Reason LossReason
	Cause  error  // the reason in words
	Force  *Force // the forced release; nil if that is not the reason, or not known
}

// Error names the lock and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("redlatch: the lease on %q with token %d was lost: %v", e.Name, e.Token, e.Cause)
}

// Unwrap makes the error match [ErrNotHeld] and its cause.
func (e *LostError) Unwrap() []error { return []error{ErrNotHeld, e.Cause} }

// KindError says that the name of a lock is in use for something else, or for another size of the
// same. Nothing was changed. It matches [ErrWrongKind].
type KindError struct {
	Name     string // of the lock
	Key      string // in Redis
	Want     string // the kind that was asked for, such as "mutex"; "lock" if any kind would do
	WantSize int64  // the permits or slots that were asked for; 0 for a kind that has none
	Got      string // the kind that is there, or the Redis type of what is no lock
	GotSize  int64  // the permits or slots that are there; 0 for what has none, or if they do not matter
}

// Error names the key and both kinds.
func (e *KindError) Error() string {
	hint := "use another name, or delete the key if nothing needs it"
	switch {
	case e.Want == e.Got && e.WantSize != e.GotSize:
		hint = "all programs must name the same number"
	case script.Named(e.Got) != nil:
		hint = "use another name, since a name is one kind of lock at a time"
	}
	return fmt.Sprintf("redlatch: %q cannot be used as %s: key %q is in use as %s; %s",
		e.Name, sized(e.Want, e.WantSize), e.Key, sized(e.Got, e.GotSize), hint)
}

// sized is a kind and its size, if it has one.
func sized(kind string, size int64) string {
	if size == 0 {
		return kind
	}
	return fmt.Sprintf("%s of %d", kind, size)
}

// Unwrap makes the error match [ErrWrongKind].
func (e *KindError) Unwrap() error { return ErrWrongKind }

// TakenError says that a lock was not free, and names its holder, as far as that is known without
// another request. Every error that matches [ErrTaken] is one. It matches [ErrExhausted] or
// [ErrLineFull] as well where that is so.
//
// [Client.Inspect] and `redlatch inspect` tell more: the process, and for how long.
type TakenError struct {
	Kind string // of the lock, such as "mutex"
	Name string // of the lock

	// Owner holds the lock, or is one of several holders: [Lease.Owner] of that lease, but for an
	// entry of a [ReentrantMutex]. After a wait, it held the lock when Redis told last, a heartbeat
	// ago at most. It is "" if Redis did not tell, as it does not of a ReentrantMutex or of a line
	// that is full.
	Owner string

	Own   bool      // Owner is of this client: perhaps a lease that was not released, see [Client.Leases]
	Since time.Time // when this client acquired it, if Own and still held; else zero

	reason error // ErrTaken, ErrExhausted or ErrLineFull
}

// Error says that the lock is taken, and names the holder, or says how to find it out.
func (e *TakenError) Error() string {
	text := e.reason.Error()
	several := ""
	if errors.Is(e.reason, ErrExhausted) {
		several = ", among others"
	}
	switch {
	case errors.Is(e.reason, ErrLineFull):
		return text
	case e.Own && !e.Since.IsZero():
		return fmt.Sprintf("%s by this client%s, since %v", text, several, time.Since(e.Since).Round(time.Millisecond))
	case e.Own:
		return text + " by this client" + several
	case e.Owner != "":
		return fmt.Sprintf("%s by %.80q%s; Client.Inspect or `redlatch inspect` tells which process that is", text, e.Owner, several)
	}
	return text + "; Client.Inspect or `redlatch inspect` tells by which process"
}

// Unwrap makes the error match [ErrTaken], and [ErrExhausted] or [ErrLineFull] if that is the case.
func (e *TakenError) Unwrap() error { return e.reason }

// taken returns the error that says that there is no room, since this owner and perhaps others are
// inside; "" if that is not known.
func (c *Client) taken(l *lock.Lock, occupant string) error {
	reason := ErrTaken
	if l.Size > 0 {
		reason = ErrExhausted
	}
	return c.takenFor(l, reason, occupant)
}

func (c *Client) takenFor(l *lock.Lock, reason error, occupant string) error {
	e := &TakenError{Kind: l.Kind.Name, Name: l.Name, reason: reason}
	if occupant == script.Window || strings.HasSuffix(occupant, "\tshut") { // which is gone
		return e
	}
	e.Owner = occupant
	client, ours := script.OwnerClient(occupant)
	if e.Own = ours && client == c.engine.ID; !e.Own {
		return e
	}
	if l := c.engine.Keeper.Of(occupant); l != nil {
		e.Owner, e.Since = l.NamedOwner(), l.Acquired().Time()
	}
	return e
}
