package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// errNotInside is the error for a lease that Redis did not know for a moment, perhaps because
// another server answered.
var errNotInside = errors.New("the server did not know the lease for a moment: call Detach again")

// Detach extends the lease once more, and ends it in this process without releasing it. From then
// on no other lease joins its entry, which belongs to another process.
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
	if left.owner == "" && script.Kept(l.owner) { // or others would ask this client in vain
		bounded, cancel := context.WithTimeout(ctx, l.keeper.Timeout/3)
		l.sayUsed(bounded)
		cancel()
	}
	parted, told := false, false
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case told:
		case left.owner != "": // also if the hook has panicked, and no program gets the text
			l.undoHeir(left.owner, max(l.lock.TTL, l.longest))
		case parted:
			l.undoLocked(0)
		}
	}()
	if l.doubtful() { // since the extend was sent
		err = l.Extend(ctx)
	}
	l.mu.Lock()
	_, events := l.left()
	err = cmp.Or(l.err, err)
	if parted = err == nil; parted { // else it ended at this moment
		events = append(events, l.detaching(left))
	}
	l.unlock(events...)
	told = parted
	return err
}

// doubtful reports whether a message of a forced loss is still to be checked by an extend.
func (l *Lease) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading().forced
}

// undoHeir releases in the background an owner that was let in for another process. The caller
// holds l.mu, unless it is for an entry of a reentrant mutex. If the lease is lost, its slot rests:
// the program may still be at work.
func (l *Lease) undoHeir(owner string, ttl time.Duration) {
	k, rest := l.keeper, l.lock.Rest()
	call := k.releasing(l.lock, owner, "", l.token, true, rest > 0 && l.state == lost)
	k.Cleanup.Add(0, call, 0, max(ttl+rest, k.LiveFor))
}

// rename gives a new owner, which no request lets in, to a lease whose acquisition was sent twice.
// A late copy could bring the old owner in again later. Then a text that names it would be valid a
// second time, with a token from before other holders. If the request for the new owner was sent
// twice, too, rename gives the lease one more. If no answer comes, the owner is not known, and the
// lease is released in the background.
//
// A quorum does without: late copies would have to reach two of its nodes, in different rounds.
//
// It is tempting to end the lease after rename. But a release that waits for rename, or a
// hand-over, would find it held by an owner that Redis no longer knows. So rename ends it (done).
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
	left, err := l.beginExtend(ctx, l.keeper.Now())
	if err != nil {
		return to, false, err
	}
	var before []string // owners that a late copy of a request could bring in again
	ttl, ended := l.lengthen(l.lock.TTL), false
	defer func() {
		if !ended { // a connection observer has panicked: which owner Redis has is not known
			l.mu.Lock()
			l.settleLocked()
			for _, owner := range append(before, to.owner) {
				l.undoHeir(owner, ttl)
			}
			l.unlock(l.giveUpLocked(errPanicked)...)
		}
	}()
	to.token = l.token
	bounded, cancel := context.WithTimeout(ctx, left) // later, an answer is of no use
	defer cancel()
	var answer ask.Answer
	for from := l.owner; ; from = to.owner {
		to.owner = l.keeper.Owner()
		answer, err = l.keeper.Asker.Ask(bounded, l.lock.Subject, "detach", l.lock.Kind.Adopt(l.lock.Keys, from, to.owner, ttl, l.detail, ttl+l.lock.Extra))
		if err != nil || !answer.Resent || !script.Done(answer.Reply) {
			break
		}
		before = append(before, to.owner)
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = l.failed("detach", fmt.Errorf("%w before the deadline", fault.ErrUnreachable))
	}
	ended = true
	l.mu.Lock()
	l.settleLocked()
	for _, owner := range before {
		l.undoHeir(owner, ttl)
	}
	var events []lock.Event
	switch inside := err == nil && script.Done(answer.Reply); {
	case inside && l.state <= inJeopardy:
		l.sentAt, l.ttl = answer.Sent, ttl
		events, done = append(events, l.detaching(to)), true
	case l.state > inJeopardy || err != nil:
		l.undoHeir(to.owner, ttl)
		events = l.giveUpLocked(err)
	default:
		if answer.Resent {
			l.undoHeir(to.owner, ttl)
		}
		events = append(events, l.losing(l.whyGone(script.Gone{})))
	}
	if !done {
		err = cmp.Or(err, l.err)
	}
	told := !done
	defer func() {
		if !told { // the hook has panicked, and no program gets the text
			l.mu.Lock()
			defer l.mu.Unlock()
			l.undoHeir(to.owner, ttl)
		}
	}()
	l.unlock(events...)
	told = true
	return to, done, err
}

// giveUpLocked ends a held lease, like a release that gets no answer. The caller holds l.mu.
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

// detaching ends a lease here, but not in Redis. It returns the event to tell. The caller holds
// l.mu.
func (l *Lease) detaching(to heir) lock.Event {
	if to.owner != "" && !l.accompanied() {
		l.undoLocked(0)
	}
	l.state, l.err = detached, &detachedError{l.lock.Name, to}
	l.keeper.forget(l)
	l.cancel(l.err)
	l.detachLocked()
	now := l.keeper.Now()
	remaining := l.timeLeft(now)
	l.keeper.Bequeath(now.Time().Add(remaining))
	return lock.Event{What: lock.Detached, HeldFor: now.Since(l.acquired), Remaining: remaining}
}

// part adds to the number of calls that are detaching the lease.
func (l *Lease) part(calls int8) {
	l.mu.Lock()
	l.parting += calls
	l.mu.Unlock()
}

// enterApart has Redis let the owner in once more, for a lease that goes on in another process
// while others share its entry. It asks for no bound on the depth: the lease that it is for ends
// here. If the request was sent twice, the entry is given back: a late copy could bring it back.
func (l *Lease) enterApart(ctx context.Context) (heir, error) {
	k := l.keeper
	bounded, cancel := context.WithTimeout(ctx, l.Remaining())
	defer cancel()
	undo := func() {} // undoes the request under way, if a connection observer panics
	defer func() { undo() }()
	for {
		owner := k.Owner()
		l.mu.Lock()
		ttl := max(l.lock.TTL, l.leftInRedis())
		l.mu.Unlock()
		undo = func() { l.undoHeir(owner, ttl) }
		answer, err := k.Asker.Ask(bounded, l.lock.Subject, "detach", l.lock.Kind.Acquire(l.lock.Keys, script.Request{
			Owner: owner, TTL: ttl, Param: "0:" + l.NamedOwner(), FenceTTL: l.lock.FenceTTL,
		}))
		undo = func() {}
		var standing script.Standing
		if err == nil {
			standing, err = script.ParseAcquire(answer.Reply)
		}
		if err == nil && standing.Inside && !answer.Resent {
			return heir{owner, standing.Token}, nil
		}
		l.undoHeir(owner, ttl)
		switch {
		case err != nil && ctx.Err() == nil && bounded.Err() != nil:
			return heir{}, l.failed("detach", fmt.Errorf("%w before the deadline", fault.ErrUnreachable))
		case err != nil:
			return heir{}, err
		case !standing.Inside: // its owner is gone, as the next extend finds out; or was for a moment
			return heir{}, cmp.Or(l.Extend(ctx), l.failed("detach", errNotInside))
		}
	}
}
