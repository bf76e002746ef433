package lease

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Release gives the lock up and lets in the waiter that is next in line. It goes on when ctx is
// done, since a lock that stays behind keeps all others waiting.
func (l *Lease) Release(ctx context.Context) error {
	begun, was, err := l.beginRelease()
	if !begun {
		return err
	}
	defer l.finishRelease()
	if l.handOff(was) || l.keep(was) {
		return nil
	}
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
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
	now := l.keeper.Now()
	event := lock.Event{What: lock.Released, HeldFor: now.Since(l.acquired), Err: err}
	switch stateAfterRelease(err, script.Inside(answer.Reply), answer.Resent || l.unsure) {
	case ended:
		l.unsure = true
	case released:
		l.state = released
	case lost:
		event = l.losing(l.whyGone(gone))
		err = l.err
	}
	l.keeper.remember(l, now)
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
	return l.keeper.releasing(l.lock, l.owner, ticket, l.token, l.unused)
}

// releasing is that of a lease of which so much is known.
func (k *Keeper) releasing(on *lock.Lock, owner, ticket string, token int64, unused bool) conn.Call {
	call := on.Release(owner, ticket, true, k.Listener.Sharded())
	if on.MinHold > 0 && !unused {
		call = script.AtLeast(call, token, on.MinHold)
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
// before. If there is nothing to release, as while others share its entry, err is what Release returns.
func (l *Lease) beginRelease() (begun bool, was state, err error) {
	l.mu.Lock()
	for l.pending && !l.accompanied() {
		settled := l.settledLocked()
		l.mu.Unlock()
		<-settled
		l.mu.Lock()
	}
	now := l.keeper.Now()
	left, events := l.leftAt(now)
	if left > 0 && l.accompanied() {
		l.state, l.err = released, (*releasedLease)(l)
		l.keeper.forget(l)
		l.cancel(l.err)
		l.unlock(lock.Event{What: lock.Released, HeldFor: now.Since(l.acquired)})
		return false, 0, nil
	}
	defer func() { l.unlock(events...) }()
	switch l.state {
	case released, detached, kept:
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
	l.loseOthers(why)
	l.keeper.forget(l)
	l.cancel(err)
	l.detachLocked()
	switch {
	case reason == lock.ReasonClosed, !l.resent && (reason.Told() || !l.long()):
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

// Detach extends the lease once more, and ends it in this process without releasing it. No other
// lease joins its entry from then on: that is another process's.
func (l *Lease) Detach(ctx context.Context) error {
	l.part(1)
	defer l.part(-1)
	if err := l.Extend(ctx); err != nil {
		return err
	}
	left, done, err := l.rename(ctx)
	if err != nil || done {
		return err
	}
	if left.owner == "" && script.Kept(l.owner) { // or others would ask a client that has it no more
		bounded, cancel := context.WithTimeout(ctx, l.keeper.Timeout/3)
		l.sayUsed(bounded)
		cancel()
	}
	l.mu.Lock()
	_, events := l.left()
	err = l.err
	if err == nil { // else it ended in this moment
		events = append(events, l.detaching(left))
	} else if left.owner != "" {
		l.undoHeir(left.owner, max(l.lock.TTL, l.longest))
	}
	l.unlock(events...)
	return err
}

// undoHeir releases in the background what was entered for another process.
func (l *Lease) undoHeir(owner string, ttl time.Duration) {
	k := l.keeper
	k.Cleanup.Add(0, l.lock.Release(owner, "", true, k.Listener.Sharded()), 0, max(ttl, k.LiveFor))
}

// rename gives a lease whose acquisition was sent twice another owner, which no request lets in. A late
// copy could bring its own owner in again later, and a text that names that owner would be good a second
// time, with a token from before other holders. If no answer comes, the owner is not known, and the
// lease is released in the background.
//
// A quorum needs none of that: a majority of late copies cannot be.
//
// It is tempting to end the lease after that. But a release that waits for rename, or a hand-over, would
// find it held by an owner that Redis does not know any more. So done says that rename ended it.
func (l *Lease) rename(ctx context.Context) (to heir, done bool, err error) {
	l.mu.Lock()
	needed, shared := l.resent && !l.keeper.Quorum && l.err == nil, l.accompanied()
	l.mu.Unlock()
	if shared {
		to, err = l.enterApart(ctx)
		return to, false, err
	}
	if !needed {
		return to, false, nil
	}
	left, err := l.beginExtend(ctx)
	if err != nil {
		return to, false, err
	}
	to.owner, to.token = l.keeper.Owner(), l.token
	ttl := l.lengthen(l.lock.TTL)
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	answer, err := l.keeper.Asker.Ask(bounded, l.lock.Subject, "detach", l.lock.Kind.Adopt(l.lock.Keys, l.owner, to.owner, ttl, l.detail))
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.failed("detach", fmt.Errorf("%w before the deadline", fault.ErrUnreachable))
	}
	l.mu.Lock()
	l.settleLocked()
	var events []lock.Event
	switch inside := err == nil && script.Done(answer.Reply); {
	case inside && l.state <= inJeopardy:
		l.sentAt, l.ttl = answer.Sent, ttl
		events, done = append(events, l.detaching(to)), true
	case l.state > inJeopardy || err != nil:
		l.undoHeir(to.owner, ttl)
		events = l.giveUpLocked(err)
	default:
		events = append(events, l.losing(l.whyGone(script.Gone{})))
	}
	if !done {
		err = cmp.Or(err, l.err)
	}
	l.unlock(events...)
	return to, done, err
}

// giveUpLocked ends a lease that is held, as a release does that gets no answer. The caller holds l.mu.
func (l *Lease) giveUpLocked(err error) []lock.Event {
	if l.state > inJeopardy {
		return nil
	}
	l.state, l.err, l.unsure = ended, (*releasedLease)(l), true
	l.keeper.forget(l)
	l.cancel(l.err)
	l.undoLocked(0)
	l.detachLocked()
	return []lock.Event{{What: lock.Released, HeldFor: l.keeper.Now().Since(l.acquired), Err: err}}
}

// Heir returns the owner and the token that the text of a detached lease names.
func (l *Lease) Heir() (owner string, token int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.err.(*detachedError); ok {
		return cmp.Or(d.heir.owner, l.owner), cmp.Or(d.heir.token, l.token)
	}
	return l.owner, l.token
}

// detaching ends a lease that is held here, and not in Redis. It returns the event to tell. The caller
// holds l.mu.
func (l *Lease) detaching(to heir) lock.Event {
	if to.owner != "" && !l.accompanied() {
		l.undoLocked(0)
	}
	l.state, l.err = detached, &detachedError{l.lock.Name, to}
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
