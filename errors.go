package redlatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Errors to test for with errors.Is. The text of the error that a call returns also names the lock,
// the server and what to do.
var (
	// ErrTaken says that another owner holds the lock: a try found it taken, or a wait was cut
	// short. The error of a wait also matches that of its context. It is a [*TakenError].
	ErrTaken = fault.ErrTaken

	ErrLineFull  = fault.ErrLineFull  // the lock is taken, and LockOptions.MaxWaiters wait for it already; it matches [ErrTaken], too
	ErrExhausted = fault.ErrExhausted // every slot of a [SlotPool], or too many permits of a [Semaphore], are taken; it matches [ErrTaken], too

	// ErrDeadlock says that the caller would wait for itself. Its context is that of a lease on the
	// same name, of a kind that cannot be entered again. Or it is that of a lease on another name,
	// and each holder of the wanted lock waits, under the context of its own lease, directly or
	// indirectly for the caller, as when goroutines of one client lock two names in opposite order.
	// Without the context of the lease, Lock just waits. [Client.Deadlocks] finds those cycles.
	ErrDeadlock = fault.ErrDeadlock

	ErrNotHeld = fault.ErrNotHeld // the lease is no longer held: released, handed on with [Lease.Detach], or lost (then it is a [*LostError], too)

	// ErrUnreachable says that Redis gave no usable answer in time, so that it is unknown whether
	// the operation took place. Whatever it may have left behind is cleaned up when Redis answers
	// again, or expires with its TTL.
	ErrUnreachable = fault.ErrUnreachable

	ErrNotReplicated = fault.ErrNotReplicated // fewer replicas acknowledged the acquisition than LockOptions.Replicas; the lock is given back in the background
	ErrWrongKind     = fault.ErrWrongKind     // the name is in use for something else, see [*KindError]; nothing was overwritten
	ErrNotSet        = fault.ErrNotSet        // a [CountDownLatch] has no count: not set yet, expired, deleted, or lost with the server's data
	ErrInvalid       = fault.ErrInvalid       // a name or an option was refused, usually before anything was sent
	ErrTooDeep       = fault.ErrTooDeep       // the owner of a [ReentrantMutex] may not enter more often, see its WithDepth; waiting does not help
	ErrMaxHold       = fault.ErrMaxHold       // the lease reached LockOptions.MaxHold and is not extended any more
	ErrDetached      = fault.ErrDetached      // this process gave the lease up for another, with [Lease.Detach]
	ErrClosed        = fault.ErrClosed        // the client was closed
)

// LossReason says why a lease was lost. Programs may count by it: the values do not change.
type LossReason string

const (
	LossExpired    LossReason = "expired"     // its deadline passed before an extend was confirmed
	LossGone       LossReason = "gone"        // Redis says that it is gone, but not why: it was deleted or forgotten, or over a quorum taken by force
	LossDeleted    LossReason = "deleted"     // its key is not in Redis, but the last token of the name is: it was deleted or evicted, or the clock of the server was set forward
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
func lost(l *lock.Lock, owner string, token int64, why lock.Loss) error {
	e := &LostError{
		Name: l.Name, Owner: owner, Token: token, At: time.Now(), Reason: LossReason(why.Reason),
		Cause: causes[LossReason(why.Reason)], Force: newForce(owner, why.Note),
	}
	if e.Force != nil {
		e.Cause = fmt.Errorf("%w by %s", e.Cause, e.Force.describe())
	}
	return e
}

// LostError says that a lease ended before it was released. It is the cause of the lease's context,
// and what [Lease.Extend], [Lease.Ensure], [Lease.Err] and [Lease.Release] return from then on. It
// matches [ErrNotHeld], and [ErrClosed] or [ErrMaxHold] if that is the reason.
type LostError struct {
	Name   string    // of the lock
	Owner  string    // of the lease, as [Holder].Owner
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

// KindError says that the name of a lock is in use for something else, or with another size.
// Nothing was changed. It matches [ErrWrongKind].
type KindError struct {
	Name     string // of the lock
	Key      string // in Redis
	Want     string // the kind that was asked for, such as "mutex"; "lock" if any kind would do
	WantSize int64  // the permits or slots that were asked for; 0 for a kind that has none
	Got      string // the kind that is there, or the Redis type of a key that is no lock
	GotSize  int64  // the permits or slots that are there; 0 for a kind that has none, or if they do not matter
}

// Error names the key and both kinds.
func (e *KindError) Error() string {
	hint := "use another name, or delete the key if nothing needs it"
	switch {
	case e.Want == e.Got && e.WantSize != e.GotSize:
		hint = "all programs must give the same number"
	case script.Named(e.Got) != nil:
		hint = "use another name: a name can be only one kind of lock at a time"
	}
	return fmt.Sprintf("redlatch: %q cannot be used as %s: key %q is in use as %s; %s",
		e.Name, sized(e.Want, e.WantSize), e.Key, sized(e.Got, e.GotSize), hint)
}

// sized returns a kind, with its size if it has one.
func sized(kind string, size int64) string {
	if size == 0 {
		return kind
	}
	return fmt.Sprintf("%s of %d", kind, size)
}

// Unwrap makes the error match [ErrWrongKind].
func (e *KindError) Unwrap() error { return ErrWrongKind }

// TakenError says that a lock was not free, and names its holder, as far as that is known without
// another request. Every error that matches [ErrTaken] is one, and matches [ErrExhausted] or
// [ErrLineFull] if that is why. [TakenError.Describe] asks Redis which process it is.
type TakenError struct {
	Kind string // of the lock, such as "mutex"
	Name string // of the lock

	// Owner holds the lock, or is one of several holders: [Lease.Owner] of that lease. After a
	// wait, it is the holder that Redis named last. It is "" if Redis named none, as for a full
	// line or a [ReentrantMutex], or if the lock is closed.
	Owner string

	// Closed says that no process holds the lock, or the place that is free first: MinHold, a
	// slot's quarantine, a job's window or Yield keeps it closed. Never set for a ReentrantMutex.
	Closed bool

	Until time.Time // when the lock opens, if it is Closed and that is known; else zero
	Own   bool      // Owner belongs to this client: perhaps a lease that was not released, see [Client.Leases]
	Since time.Time // when this client acquired it, if Own and still held; else zero

	reason error // ErrTaken, ErrExhausted or ErrLineFull
	client interface {
		describe(ctx context.Context, e *TakenError) string
	}
}

// Error says that the lock is taken, and by which holder, or how to find out. For a lock that is
// closed, it says for how long.
func (e *TakenError) Error() string {
	text := e.Unwrap().Error()
	several := ""
	if errors.Is(e.reason, ErrExhausted) {
		several = ", among others"
	}
	switch {
	case errors.Is(e.reason, ErrLineFull):
		return text
	case e.Closed:
		return text + ": " + closed(e.Kind, e.Until)
	case e.Own && !e.Since.IsZero():
		return fmt.Sprintf("%s: held by this client for %v%s", text, time.Since(e.Since).Round(time.Millisecond), several)
	case e.Own:
		return text + " by this client" + several
	case e.Owner != "":
		return fmt.Sprintf("%s by %.80q%s; TakenError.Describe or `redlatch inspect` tells which process that is", text, e.Owner, several)
	}
	return text + "; TakenError.Describe or `redlatch inspect` shows which process holds it"
}

// Unwrap makes the error match [ErrTaken], and [ErrExhausted] or [ErrLineFull] if that is why.
func (e *TakenError) Unwrap() error { return cmp.Or(e.reason, ErrTaken) }

// Describe names the current holder of the lock in words: program, process, host, how long it has
// held the lock, and labels. It asks as [Client.Inspect] does. Without an answer it returns
// Error().
func (e *TakenError) Describe(ctx context.Context) string {
	if e.client == nil {
		return e.Error()
	}
	return e.client.describe(ctx, e)
}

// closed says why a lock that no process holds is closed, and until when, as far as that is known.
func closed(kind string, until time.Time) string {
	text := "no process holds it, and it stays closed"
	switch kind {
	case script.Job.Name:
		text = "its window lasts"
	case script.SlotPool.Name, script.Semaphore.Name:
		text = "the next free place is at rest"
	}
	if until.IsZero() {
		return text
	}
	left := time.Until(until).Round(time.Millisecond)
	if left <= 0 {
		return text + " until " + until.Local().Format(time.DateTime) // which has passed
	}
	return fmt.Sprintf("%s for another %v", text, left)
}

// Force is a forced release, by [Client.ForceRelease], [Mutex.TakeByForce] or the redlatch command.
// The holder finds it in its [LostError], and operators in [LockInfo] for an hour.
type Force struct {
	By     Process   // that took the lock
	At     time.Time // by the server's clock
	Reason string    // ForceOptions.Reason; "" if none was given
	Owner  string    // that lost the lock
	From   Process   // that lost the lock; zero if its client had no record
}

// describe names the process that took the lock, the time and the reason.
func (f *Force) describe() string {
	s := fmt.Sprintf("%v at %s", f.By, f.At.Local().Format(time.DateTime))
	if f.Reason != "" {
		s += fmt.Sprintf(": %q", f.Reason)
	}
	return s
}

// String returns the program, its pid and its host.
func (p Process) String() string {
	if p == (Process{}) {
		return "an unknown process"
	}
	return fmt.Sprintf("%s (pid %d on %s)", harmless(p.Program), p.PID, harmless(p.Host))
}

// harmless returns a text of another program, quoted if it has what a log or a terminal would not
// show as it is, such as a line break.
func harmless(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// newForce returns the forced release that a note about the owner tells; nil for none.
func newForce(owner, note string) *Force {
	f := lock.ParseForce(note)
	if f == nil {
		return nil
	}
	return &Force{By: Process(f.By), At: f.At, Reason: f.Reason, Owner: owner, From: Process(f.From)}
}

// Process is where a client runs.
type Process struct {
	Host    string
	PID     int
	Program string // [Options.Program]
}

// wrongKind returns the error of a name that is in use for something else, or for another size.
func wrongKind(s ask.Subject, got string, size int64) error {
	return &KindError{Name: s.Name, Key: s.Keys.State(), Want: s.Kind.Name, WantSize: s.Size, Got: got, GotSize: size}
}

// invalid returns the error of a name or an option that is refused.
func invalid(format string, args ...any) error { return fault.Invalid(format, args...) }

// printable returns the error of a text that cannot be part of a ticket.
func printable(what, text string) error {
	if text == "" || len(text) > keys.MaxText {
		return invalid("%s %.80q has %d bytes: give 1 to %d", what, text, len(text), keys.MaxText)
	}
	if err := keys.Printable(text); err != nil {
		return invalid("%s %.80q: %w", what, text, err)
	}
	return nil
}
