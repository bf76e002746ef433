package lease

import (
	"context"
	"errors"
	"math/bits"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Release gives the lock up and lets in the waiter that is next in line. It goes on when ctx is
// done, since a lock that stays behind keeps all others waiting. Without an answer, link/ask sends
// it again for RequestTimeout. Then applyRelease leaves it to the clean-up (votes.go at one node of a
// quorum), which stops in settle of cleanup/queue.go, or at the time that undoLateLocked gives it.
func (l *Lease) Release(ctx context.Context) (err error) {
	begun, was, now, err := l.beginRelease()
	if !begun {
		return err
	}
	defer func() { l.finishRelease(err) }()
	if l.handOff(was, now) || l.keep(was, now) {
		return nil
	}
	answered := false
	defer func() {
		if !answered { // the context or a connection observer has panicked
			l.MarkResent()
			_ = l.applyRelease(was, ask.Answer{}, script.Gone{}, errPanicked)
		}
	}()
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	call := l.releasing("")
	answer, err := l.keeper.Asker.AskHearing(ctx, l.lock.Subject, "release", call, l.heedRelease(call))
	var gone script.Gone
	if err == nil && !script.Inside(answer.Reply) && !answer.Resent {
		gone = l.askGone(ctx)
	}
	answered = true
	return l.applyRelease(was, answer, gone, err)
}

// errPanicked is the error of a release whose request panicked.
var errPanicked = errors.New("redlatch: release: the calling goroutine panicked")

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
	if l.state != lost { // losing has done so
		l.remember(now)
	}
	if l.state != lost && (l.resent || l.state == ended && !l.keeper.Quorum) { // heedRelease did it for a quorum
		l.undoLocked(0)
	} else if l.state != lost {
		for late := l.late; late != 0; late &= late - 1 {
			l.undoLateLocked(bits.TrailingZeros64(late), 0)
		}
	}
	// Only now: before the release was answered, the next acquisition would find the lock taken.
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

// beginRelease ends the lease for the program and waits for the extend under way, so that no extend
// follows a release. The release is then under way until finishRelease. It returns the state
// before, and when the lease ended. If there is nothing to release, as while other leases share its
// entry, err is what Release returns. A lease that has ended for good is not waited for: its release
// may be under way still, and call a hook that releases it.
func (l *Lease) beginRelease() (begun bool, was state, now clock.Reading, err error) {
	l.mu.Lock()
	for l.pending && l.state <= ended && !l.accompanied() {
		settled := l.settledLocked()
		l.mu.Unlock()
		<-settled.over
		if settled.err != nil { // of another release. If many repeated it, each would wait for all before it
			return false, 0, now, settled.err
		}
		l.mu.Lock()
	}
	now = l.keeper.Now()
	left, events := l.leftAt(now)
	if left > 0 && l.accompanied() {
		l.state, l.err = released, (*releasedLease)(l)
		l.keeper.forget(l)
		l.cancel(l.err)
		l.unlock(lock.Event{What: lock.Released, HeldFor: now.Since(l.acquired)})
		return false, 0, now, nil
	}
	defer func() { l.unlock(events...) }()
	switch l.state {
	case released, detached, kept:
		return false, 0, now, nil
	case lost:
		return false, 0, now, l.err
	}
	was = l.state
	l.state, l.err = ended, (*releasedLease)(l)
	l.keeper.forget(l)
	l.cancel(l.err)
	l.pending = true
	return true, was, now, nil
}

// finishRelease ends the release under way. err is what Release returns.
func (l *Lease) finishRelease(err error) {
	l.mu.Lock()
	if l.settled != nil {
		l.settled.err = err
	}
	l.settleLocked()
	l.mu.Unlock()
}

// MarkUnused notes that the lease is given back before the program had it, so that its MinHold keeps
// no name closed.
func (l *Lease) MarkUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = true
}
