package lease

import (
	"cmp"
	"context"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Release gives the lock up and lets in the waiter that is next in line. It goes on when ctx is
// done, since a lock that stays behind keeps all others waiting.
func (l *Lease) Release(ctx context.Context) error {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	begun, was, err := l.beginRelease()
	if !begun {
		return err
	}
	defer l.finishRelease()
	if l.handOff(was) {
		return nil
	}
	answer, err := l.keeper.Asker.AskHearing(ctx, l.lock.Subject, "release", l.releasing(""), l.hearingMisses())
	var gone script.Gone
	if err == nil && !script.Inside(answer.Reply) && !answer.Resent {
		gone = l.askGone(ctx)
	}
	return l.applyRelease(was, answer, gone, err)
}

// applyRelease applies the answer to a release, or the error of its request. was is the state before
// the release, and gone is why Redis does not know the owner, if it does not. It returns what
// Release returns.
func (l *Lease) applyRelease(was state, answer ask.Answer, gone script.Gone, err error) error {
	l.mu.Lock()
	event := lock.Event{What: lock.Released, HeldFor: l.keeper.Now().Since(l.acquired), Err: err}
	switch stateAfterRelease(err, script.Inside(answer.Reply), answer.Resent || l.unsure) {
	case ended:
		l.unsure = true
	case released:
		l.state = released
	case lost:
		event = l.losing(l.whyGone(gone))
		err = l.err
	}
	if l.resent || err != nil && !l.keeper.Quorum { // a quorum goes on by itself, node by node
		l.undoLocked(0)
	}
	// Not before: a goroutine that released it, and wants it again, may then be among those that
	// the next acquisition is for.
	l.detachLocked()
	if was == ended { // the hook was told of the release that this one repeats
		l.unlock()
		return err
	}
	l.unlock(event)
	return err
}

// stateAfterRelease returns the state of a lease after a request that releases it. err is that of
// the request, and inside says that Redis took the owner out. again says that an earlier request may
// have done so: this one was resent, or an earlier release got no answer. The lease stays ended if
// the release may be tried again.
func stateAfterRelease(err error, inside, again bool) state {
	switch {
	case err != nil:
		return ended
	case inside || again:
		return released
	}
	return lost
}

// askGone asks Redis why the lease is not there. It sends one extend, which changes nothing for an
// owner that is not inside.
func (l *Lease) askGone(ctx context.Context) script.Gone {
	if l.keeper.Quorum { // whose nodes do not tell
		return script.Gone{}
	}
	call := l.lock.Kind.Renew(l.lock.Keys, l.owner, l.lock.TTL, l.detail)
	return script.ParseGone(l.keeper.Asker.Once(ctx, call).Reply)
}

// releasing returns the request that releases the lease. By MinHold it says how long the lock stays
// closed, unless the lease is given back unused.
func (l *Lease) releasing(ticket string) conn.Call {
	call := l.lock.Release(l.owner, ticket, true, l.keeper.Listener.Sharded())
	if l.lock.MinHold > 0 && !l.unused {
		call = script.AtLeast(call, l.token, l.lock.MinHold)
	}
	return call
}

// undoLocked releases the lease in the background after that time: its release got no answer, or a
// request that got none may bring it back. The caller holds l.mu.
//
// It is tempting to release it as an acquisition that never began. A run of a [Job] would then not
// have taken place, and a second one could begin in the same window.
func (l *Lease) undoLocked(after time.Duration) {
	until := max(l.lock.TTL, l.longest, l.keeper.LiveFor)
	if l.ticket != "" {
		until = max(until, lock.Lingers)
	}
	for node := range l.keeper.Asker.Nodes() {
		l.keeper.Cleanup.Add(node, l.releasing(l.ticket), after, until)
	}
}

// undoAtLocked releases the lease in the background at one node of a quorum, which has answered all
// its requests. The caller holds l.mu.
func (l *Lease) undoAtLocked(node int) {
	l.keeper.Cleanup.AddAnswered(node, l.releasing(""), max(l.lock.TTL, l.longest, l.keeper.LiveFor))
}

// MarkResent notes that a request got no answer, and may arrive after the end of the lease. If the
// lease has ended already, it schedules a clean-up. A release that is under way does so itself:
// another release beside it could come first, and the lease would seem to have been lost.
func (l *Lease) MarkResent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resent = true
	if l.state == released || l.state == lost || l.state == ended && !l.pending {
		l.undoLocked(0)
	}
}

// beginRelease ends the lease for the program and waits for the extend under way, so that no extend
// follows a release. The release is then under way until finishRelease. It returns the state
// before. If there is nothing to release, err is what Release returns.
func (l *Lease) beginRelease() (begun bool, was state, err error) {
	l.mu.Lock()
	for l.pending {
		settled := l.settledLocked()
		l.mu.Unlock()
		<-settled
		l.mu.Lock()
	}
	_, events := l.left()
	defer func() { l.unlock(events...) }()
	switch l.state {
	case released, detached:
		return false, 0, nil
	case lost:
		return false, 0, l.err
	}
	was = l.state
	l.state, l.err = ended, (*releasedLease)(l)
	l.keeper.forget(l)
	l.cancel(l.err)
	l.pending = true
	return true, was, nil
}

// finishRelease ends what is under way.
func (l *Lease) finishRelease() {
	l.mu.Lock()
	l.settleLocked()
	l.mu.Unlock()
}

// settleLocked ends the extend or release under way. The caller holds l.mu.
func (l *Lease) settleLocked() {
	l.pending = false
	if l.settled != nil {
		close(l.settled)
		l.settled = nil
	}
}

// settledLocked returns a channel that is closed when the extend or release under way has ended.
// The caller holds l.mu.
func (l *Lease) settledLocked() <-chan struct{} {
	if l.settled == nil {
		l.settled = make(chan struct{})
	}
	return l.settled
}

// Lose ends a lease that is held, for that reason.
func (l *Lease) Lose(reason lock.Reason) {
	l.mu.Lock()
	var events []lock.Event
	if l.state <= inJeopardy {
		events = append(events, l.losing(lock.Loss{Reason: reason}))
	}
	l.unlock(events...)
}

// losing marks the lease as lost, cancels its context and returns the event to tell. The caller
// holds l.mu.
func (l *Lease) losing(why lock.Loss) lock.Event {
	reason, err := why.Reason, l.keeper.Lost(l, why)
	l.state, l.err = lost, err
	l.keeper.forget(l)
	l.cancel(err)
	l.detachLocked()
	switch {
	case !l.resent || reason == lock.ReasonClosed:
	case reason.Told():
		l.undoLocked(0)
	default: // not before Redis ends it: the work may need a moment to stop
		l.undoLocked(lock.Drift(l.ttl))
	}
	return lock.Event{What: lock.Lost, HeldFor: l.keeper.Now().Since(l.acquired), Reason: reason, Err: err}
}

// whyGone returns why Redis said that the lease is not there, from the reply to an extend that said
// so. The caller holds l.mu.
func (l *Lease) whyGone(gone script.Gone) lock.Loss {
	note := cmp.Or(readable(gone.Note), l.keeper.forced(l.owner))
	switch {
	case note != "", l.forced:
		return lock.Loss{Reason: lock.ReasonForced, Note: note}
	case !gone.Known, l.keeper.Now().Since(l.acquired) >= l.keeper.FenceTTL/2:
		return lock.Loss{Reason: lock.ReasonGone} // its token may be forgotten by now
	case gone.Fenced:
		return lock.Loss{Reason: lock.ReasonDeleted}
	}
	return lock.Loss{Reason: lock.ReasonForgotten}
}

// Detach extends the lease once more, and ends it in this process without releasing it.
func (l *Lease) Detach(ctx context.Context) error {
	if err := l.Extend(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	_, events := l.left()
	err := l.err
	if err == nil { // else it ended in this moment
		events = append(events, l.detaching())
	}
	l.unlock(events...)
	return err
}

// detaching ends a lease that is held here, and not in Redis. It returns the event to tell. The
// caller holds l.mu.
//
// It is tempting to release the owner of a lease that was resent, as other ends do: a late copy of
// its acquisition may still arrive. But the text may be used until the TTL has passed. Such a copy
// costs the others a TTL at most.
func (l *Lease) detaching() lock.Event {
	l.state, l.err = detached, &detachedError{l.lock.Name}
	l.keeper.forget(l)
	l.cancel(l.err)
	l.detachLocked()
	now := l.keeper.Now()
	remaining := l.validity() - now.Since(l.sentAt)
	l.keeper.Bequeath(now.Time().Add(remaining))
	return lock.Event{What: lock.Detached, HeldFor: now.Since(l.acquired), Remaining: remaining}
}

// MarkUnused notes that the lease is given back before the program had it, so that its MinHold keeps
// no name closed.
func (l *Lease) MarkUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = true
}
