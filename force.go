package redlatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// rememberForce is how long Redis remembers a forced release.
const rememberForce = time.Hour

// ForceOptions say from which owner [Client.ForceRelease] or [Mutex.TakeByForce] takes a lock, and
// why. The zero value takes it from all.
type ForceOptions struct {
	// Owner is the one holder to take the lock from, as [Holder] tells it; for a [ReentrantMutex]
	// also the EntryOf of several entries. An owner is never used again, so a forced release that
	// names one can be repeated: it never hits a holder that came later. Default all holders.
	Owner string

	// Reason is told to the holder that loses the lock, and to operators that inspect the name
	// within an hour: up to 256 bytes of valid UTF-8 without control characters. Default none.
	Reason string

	// Announce tells waiters of another library if the lock is free then, as LockOptions.Announce
	// does at a release. Default none.
	Announce Announce
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

// ForceRelease takes a lock away from one holder, or from all, and lets in the waiters that are
// next in line. The next waiter for a [ReentrantMutex] is told to ask for itself, and has the mutex
// a round trip later, or at its heartbeat if its client does not listen. An old holder is told at
// once if it is of this client, or if its client has waited in line for something before, and so
// listens for grants; in a cluster, if it has waited for this name. Otherwise it finds out at its
// next extend, after a third of its TTL at most, or with Renew off at its deadline. Its writes are refused where its token is checked. The window
// of a [Job] whose run has ended is opened, and so is a lock that is closed by LockOptions.MinHold
// alone. It returns the lock as it was before.
//
// Redis remembers for an hour which process took the lock, when, from which owner and for what
// reason: [Client.Inspect] tells it of the last time, and the holder's [LostError] as soon as the
// holder finds out. Over a quorum, a holder that does not listen is not told: its reason is
// [LossGone].
//
// The error matches [ErrNotHeld] if there is no holder, or none with that owner; then nothing was
// changed. It matches [ErrInvalid] if an option was refused. It is a [*KindError] if the key holds
// something that is no lock.
func (c *Client) ForceRelease(ctx context.Context, name string, o ForceOptions) (LockInfo, error) {
	if err := o.check(); err != nil {
		return LockInfo{}, err
	}
	owner := o.Owner
	before, about, err := c.survey.look(ctx, name)
	if err != nil {
		return before, err
	}
	if before.RedisType != "" {
		return before, &KindError{Name: name, Key: before.Key, Want: "lock", Got: before.RedisType}
	}
	l := newLatch(c, script.Mutex, name)
	l.Kind, l.Keys = about.Kind, about.Keys
	var taken bool
	for _, h := range before.Holders {
		if owner != "" && owner != h.Owner && owner != h.EntryOf {
			continue
		}
		r := l.robbery(h, before.At, o.Reason)
		call := l.Kind.Force(l.Keys, h.Owner, r.address, r.sharded, c.options.FenceTTL, r.force.note(), rememberForce)
		if a := o.Announce; a.Channel != "" {
			call = script.For(call, script.Neighbours{Channel: a.Channel, Message: a.Message, Sharded: a.Sharded && r.sharded})
		}
		answer, err := l.ask(ctx, "force the release of", call)
		if err != nil {
			return before, err
		}
		if !script.Done(answer.Reply) && !answer.Resent {
			continue
		}
		taken = true
		r.tell()
	}
	switch {
	case taken:
		return before, nil
	case owner == "":
		return before, l.failed("force the release of", ErrNotHeld)
	}
	return before, l.failed("force the release of", fmt.Errorf("%w by %q", ErrNotHeld, owner))
}

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
	before, _, err := l.client.survey.look(ctx, l.Name)
	switch {
	case err != nil:
		return acquire.Robbery{}, err
	case before.RedisType != "":
		return acquire.Robbery{}, wrongKind(l.Subject, before.RedisType, 0)
	case before.Kind != "" && before.Kind != l.Kind.Name:
		return acquire.Robbery{}, wrongKind(l.Subject, before.Kind, before.Size)
	}
	var from Holder
	if len(before.Holders) > 0 {
		from = before.Holders[0]
	}
	r := l.robbery(from, before.At, reason)
	return acquire.Robbery{Tell: r.tell, Seizure: script.Seizure{
		From: from.Owner, Address: r.address, Sharded: r.sharded, Note: r.force.note(), Remember: rememberForce,
	}}, nil
}

// robbery is a lock that is taken from one holder.
type robbery struct {
	latch   *latch
	victim  Holder // zero if there is none
	force   Force
	address string // of the channel on which the client of the victim listens; "" if it is not known
	sharded bool   // it is a sharded one
}

// robbery returns how the latch is taken from a holder that was there at that time.
func (l *latch) robbery(victim Holder, at time.Time, reason string) robbery {
	c := l.client
	r := robbery{
		latch: l, victim: victim, sharded: c.engine.Listener.Sharded(),
		force: Force{By: newProcess(c.engine.Presence.Self()), At: at, Reason: reason, Owner: victim.Owner, From: victim.Process},
	}
	switch {
	case victim.Client != "" && r.sharded:
		r.address = l.Keys.Grants(victim.Client)
	case victim.Client != "":
		r.address = keys.Grants(c.options.Prefix, victim.Client)
	}
	return r
}

// tell notes in the journal that the lock was taken, and tells a lease of this client, which may
// not listen.
func (r *robbery) tell() {
	c := r.latch.client
	if r.victim.Owner != "" {
		c.recorder.forced(&r.latch.Lock, r.victim, r.force.Reason)
	}
	if r.victim.Client == c.engine.ID {
		c.engine.Keeper.Revoked(r.victim.Owner, r.force.dated())
	}
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

// String names the process that took the lock, the time and the reason.
func (f *Force) String() string {
	s := fmt.Sprintf("%v at %s", f.By, f.At.Local().Format(time.DateTime))
	if f.Reason != "" {
		s += fmt.Sprintf(": %q", f.Reason)
	}
	return s
}

// String is the program, its pid and its host.
func (p Process) String() string {
	if p == (Process{}) {
		return "an unknown process"
	}
	return fmt.Sprintf("%s (pid %d on %s)", p.Program, p.PID, p.Host)
}

// forceNote is what Redis remembers of a forced release, beside the owner and the time.
type forceNote struct {
	By     processNote `json:"by"`
	From   processNote `json:"from"`
	Reason string      `json:"reason,omitempty"`
}

type processNote struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
}

// note returns what Redis is to remember of a forced release.
func (f *Force) note() string {
	text, _ := json.Marshal(forceNote{processNote(f.By), processNote(f.From), f.Reason}) // plain fields
	return string(text)
}

// dated returns the note as Redis keeps it, with its time.
func (f *Force) dated() string { return fmt.Sprintf("%d\t%s", f.At.UnixMicro(), f.note()) }

// parseForce reads a note about the owner that lost a lock; nil if it is none.
func parseForce(owner, note string) *Force {
	at, text, ok := script.ParseNote(note)
	var n forceNote
	if !ok || json.Unmarshal([]byte(text), &n) != nil {
		return nil
	}
	return &Force{By: Process(n.By), At: time.UnixMicro(at), Reason: n.Reason, Owner: owner, From: Process(n.From)}
}
