package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lease is one acquisition of a lock. Its methods say what those of the root's Lease say.
type Lease struct {
	keeper   *Keeper
	lock     *lock.Lock
	id       uint64 // of its events
	owner    string
	token    int64
	detail   string                      // what else the acquisition got, by kind: the number of a slot, ...
	parent   context.Context             // that was given to Lock
	work     atomic.Pointer[workContext] // what ends its context; nil until code asks for that
	acquired clock.Reading
	entry    schedule.Entry

	mu          *sync.Mutex // guards what is below; own, or that of its nest
	own         sync.Mutex
	nest        *nest // of an entry of a reentrant mutex; else nil
	state       state
	forced      bool           // its client was told that it was taken by force
	doubted     bool           // it was told so while an extend was under way
	unsure      bool           // a release got no answer, and may have taken place
	resent      bool           // see lock.Grant
	untold      bool           // the hook has not been told of it
	parting     int8           // how many calls are detaching it
	scheduled   bool           // it has been on the schedule
	unused      bool           // it is given back before the program had it; set before its release begins
	forgotten   bool           // no code has it any more
	outlived    uint8          // how many extends found its context done; 2 at most
	spare       int16          // how many goroutines of the group it may be passed on to; small, too
	tokens      int16          // how many tokens after its own it has
	hearing     uint32         // see lock.Grant
	keptSince   time.Time      // while it is kept
	ticket      string         // if it is resent
	sentAt      clock.Reading  // before the last confirmed request was sent
	ttl         time.Duration  // that Redis set then, at least
	longest     time.Duration  // that any extend asked Redis for
	extendAfter time.Duration  // when the watchdog should extend it, from sentAt on
	pending     bool           // an extend or a release is under way
	settled     chan struct{}  // closed when it has ended; nil if no code waits for that
	err         error          // why it is not held any more
	wish        *wish          // to be told that it is waited for; nil if the program has not asked
	group       *handoff.Group // whose turn it has, and in which it can be passed on; nil if none
	votes       *ballot.Round  // of a quorum, while answers are missing that may cross its release; else nil
}

type state uint8 // small, as leases are many

const (
	held       state = iota
	inJeopardy       // held, but the last extend failed
	ended            // given up here; its release is under way, or failed
	kept             // given up here, and kept by the client: see linger.go
	released
	lost
	detached // given up here, and not in Redis
)

// Begin begins a lease from a grant with time left. id numbers its events, and parent is the context
// that was given to Lock.
func (k *Keeper) Begin(on *lock.Lock, id uint64, parent context.Context, g lock.Grant, now clock.Reading) *Lease {
	l := &Lease{
		keeper: k, lock: on, id: id, owner: g.Owner, token: g.Token, detail: g.Detail, parent: parent, acquired: now,
		resent: g.Resent, sentAt: g.Sent, ttl: g.TTL, spare: int16(g.Spare), tokens: int16(g.Spare),
	}
	l.mu = &l.own
	if g.Passed {
		l.spare = int16(g.Run)
	}
	if script.Kept(g.Owner) {
		l.hearing = g.Hearing
	}
	if g.Resent {
		l.ticket = g.Ticket // which is needed for its clean-up alone
	}
	l.entry.Owner = (*renewal)(l)
	l.extendAfter = retry.Jitter(l.validity()/3, 0.05)
	if !g.Passed {
		// A grant out of the line counts from the last poll, which can be a third of its time ago.
		// Most work has ended before a tenth of the rest has passed. Not so for a lease that is
		// passed on, perhaps many times within a tenth: it would not be extended, nor its loss
		// found, before the end.
		age := now.Time().Sub(g.Sent.Time())
		l.extendAfter = max(l.extendAfter, age+(l.validity()-age)/10)
	}
	l.mu.Lock()
	revoked := k.add(l)
	l.reschedule()
	var events []lock.Event
	if revoked {
		events = l.recheck()
	}
	l.unlock(events...)
	return l
}

// Lock returns what the lease is on.
func (l *Lease) Lock() *lock.Lock { return l.lock }

// ID returns the number of its events.
func (l *Lease) ID() uint64 { return l.id }

// Owner returns the name of this acquisition in Redis.
func (l *Lease) Owner() string { return l.owner }

// NamedOwner returns the owner as a program knows it: of an entry the owner that entered.
func (l *Lease) NamedOwner() string {
	if l.lock.Kind.Name == script.Reentrant.Name {
		return l.lock.Kind.Detail(l.lock.Param)
	}
	return l.owner
}

// Number returns the fencing token, also of a lease that is not held.
func (l *Lease) Number() int64 { return l.token }

// Detail returns what else the acquisition got, by kind: the number of a slot, and so on.
func (l *Lease) Detail() string { return l.detail }

// Acquired returns when the lease began.
func (l *Lease) Acquired() clock.Reading { return l.acquired }

// Held reports whether the lease is held at this moment. When it returns false, its context is done
// already.
func (l *Lease) Held() bool { return l.Remaining() > 0 }

// Remaining returns how long the lease is sure to last without another extend; 0 if it is not held.
func (l *Lease) Remaining() time.Duration { return l.remainingAt(l.keeper.Now()) }

// remainingAt is Remaining at that time.
func (l *Lease) remainingAt(now clock.Reading) time.Duration {
	l.mu.Lock()
	left, events := l.leftAt(now)
	l.unlock(events...)
	return left
}

// Deadline returns the time at which the lease ends without another extend.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// Err returns nil while the lease is held, and otherwise why it is not.
func (l *Lease) Err() error {
	l.Remaining() // notices that the deadline passed
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Info is what a debug page shows of a lease.
type Info struct {
	Jeopardy, Outlived, Forgotten bool
	Callers                       []uintptr
}

// Info returns what a debug page shows of the lease.
func (l *Lease) Info() Info {
	outlived := isDone(l.parent) // before mu: it may be the context of another lease
	l.mu.Lock()
	defer l.mu.Unlock()
	return Info{
		Jeopardy: l.state == inJeopardy, Outlived: outlived, Forgotten: l.forgotten, Callers: l.keeper.callersOf(l.id),
	}
}

// left is Remaining. If it finds that the deadline has passed, the lease is lost before it returns,
// and events says so. The caller holds l.mu.
func (l *Lease) left() (left time.Duration, events []lock.Event) { return l.leftAt(l.keeper.Now()) }

// leftAt is left at that time. The caller holds l.mu.
func (l *Lease) leftAt(now clock.Reading) (left time.Duration, events []lock.Event) {
	if l.state > inJeopardy {
		return 0, nil
	}
	left = l.validity() - now.Since(l.sentAt)
	if left > 0 {
		return left, nil
	}
	events = []lock.Event{l.losing(lock.Loss{Reason: l.whyExpired()})}
	if next := l.leading(); next != l { // whose deadline is the same, as a rule
		_, more := next.leftAt(now)
		l.nest.tell(next, more...)
	}
	return 0, events
}

// SeemsHeld is Held for a caller that holds a mutex of its own: it tells no event.
func (l *Lease) SeemsHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state <= inJeopardy && l.validity() > l.keeper.Now().Since(l.sentAt)
}

// whyExpired returns the cause of a loss by the deadline. The caller holds l.mu.
func (l *Lease) whyExpired() lock.Reason {
	switch {
	case !l.lock.Renews:
		return lock.ReasonNotRenewed
	case l.overdueLocked():
		return lock.ReasonMaxHold
	}
	return lock.ReasonExpired
}

// unlock releases mu and then tells the events, whose hook may call the lease. It tells those of the
// leases that share its entry, too.
func (l *Lease) unlock(events ...lock.Event) {
	if l.untold {
		l.nest.tell(l, events...)
		events = nil
	}
	others := l.nest.collect()
	l.mu.Unlock()
	defer tellAll(others)
	for _, e := range events {
		l.emit(e)
	}
}

// emit tells the client what has become of a lease. The caller does not hold l.mu, since a hook may
// call the lease.
func (l *Lease) emit(e lock.Event) {
	if e.What == lock.Extended || e.What == lock.Jeopardy {
		e.HeldFor = l.keeper.Now().Since(l.acquired)
	}
	e.ID, e.Owner, e.Token = l.id, l.owner, l.token
	l.keeper.Tell(l.Context(), l.lock, e)
}

// TellForgotten tells that the program has forgotten a lease, if it is held.
func (l *Lease) TellForgotten() {
	l.mu.Lock()
	left, events := l.left()
	if left > 0 {
		l.forgotten = true
		events = append(events, l.straying(lock.Forgotten, left))
	}
	l.unlock(events...)
}

// outlives returns the event that the context which was given to Lock is done, as it is, at the
// second extend after that: the first may come while the work is about to end. The caller holds
// l.mu.
func (l *Lease) outlives(left time.Duration) []lock.Event {
	if l.outlived == 2 {
		return nil
	}
	if l.outlived++; l.outlived < 2 {
		return nil
	}
	return []lock.Event{l.straying(lock.Outlived, left)}
}

// straying returns an event of a lease that is held without need. The caller holds l.mu.
func (l *Lease) straying(what lock.What, left time.Duration) lock.Event {
	return lock.Event{
		What: what, HeldFor: l.keeper.Now().Since(l.acquired), Remaining: left, Callers: l.keeper.callersOf(l.id),
	}
}

// deadline is Deadline. The caller holds l.mu.
func (l *Lease) deadline() time.Time { return l.sentAt.Time().Add(l.validity()) }

// validity returns how long the lease is held after sentAt: the TTL, but for what the clocks
// may differ by. The caller holds l.mu.
func (l *Lease) validity() time.Duration { return l.ttl - lock.Drift(l.ttl) }

// ReleasedError is why leases are not held that their holder released.
type ReleasedError struct{ Name string }

func (e *ReleasedError) Error() string {
	return fmt.Sprintf("redlatch: the lease on %q is %v: it was released", e.Name, fault.ErrNotHeld)
}

func (e *ReleasedError) Unwrap() error { return fault.ErrNotHeld }

// releasedLease is the ReleasedError of a lease: every release has one, which costs nothing so.
type releasedLease Lease

func (l *releasedLease) Error() string { return (&ReleasedError{l.lock.Name}).Error() }
func (l *releasedLease) Unwrap() error { return fault.ErrNotHeld }

// heir is what the lease of another process has that was left to it. It is zero if that is the same as
// here.
type heir struct {
	owner string
	token int64 // a larger one than here if the owner was out in between
}

// detachedError is why a lease is not held that was detached.
type detachedError struct {
	name string
	heir heir
}

func (e *detachedError) Error() string {
	return fmt.Sprintf("redlatch: the lease on %q is %v here: it was %v for another process", e.name, fault.ErrNotHeld, fault.ErrDetached)
}

func (e *detachedError) Unwrap() []error { return []error{fault.ErrNotHeld, fault.ErrDetached} }
