package line

import (
	"errors"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
)

// restoreLocked asks for a waiter's place again: Redis lost the line, or passed over this client
// while it did not listen. The waiter takes a new owner, since the old one may have been inside and
// run out. A late grant of the old one must not count any more. The caller holds ln.mu.
func (ln *Line) restoreLocked(w *Waiter) {
	if w.resent || w.lock.Rest() > 0 { // a request may still arrive; a slot that it was given may be at rest
		ln.Undo.Abandon(w.lock, w.owner, w.ticket)
		w.resent = false
	}
	delete(ln.byOwner, w.owner)
	ln.rememberLocked(w.lock, w.owner, w.ticket) // another server may still have it in line
	before := w.owner
	w.owner = ln.Owner()
	ln.Notes.Move(before, w.owner)
	// Perhaps the line was lost, and perhaps the client was taken for dead, though it listens: at a
	// server that used to be the master. It is tempting to ask again with the same kind of ticket. But
	// each release would drop it, for as long as that is so. A plain subscription that was down since the
	// ticket was in line explains the loss. So does the word to ask at once, or a refusal: Redis drops a
	// ticket that it can never let in, and tells the client.
	s, listened, since := ln.Subscription(w.lock), w.address, w.sentAt
	called := w.called.Time().After(since.Time())
	unexplained := func() bool {
		return !called && s.Address() == listened && (s.Sharded() || s.UpSince(since))
	}
	w.ticket, w.address = ln.ticket(w.lock, w.owner, unexplained())
	w.setPlaceLocked(w.arrival, true)
	w.sentAt, w.fence = ln.Now(), 0
	ln.byOwner[w.owner] = w
	owner, ticket, address, arrival := w.owner, w.ticket, w.address, w.arrival
	ln.Go(func() {
		// A waiter may give up during a request, which is then sent again all the same. So the release
		// that Cancel sends may have come before it.
		defer func() {
			if ln.hasGivenUp(w) {
				ln.Undo.Abandon(w.lock, owner, ticket)
			}
		}()
		for failed := false; ln.has(w); failed = true {
			standing, answer, err := ln.Request(ln.Closing, w.lock, owner, ticket, address, arrival, 0)
			answer.Resent = answer.Resent || failed
			switch {
			case err == nil:
				if unexplained() {
					s.MarkUncounted()
				}
				ln.Place(w, standing, answer)
				return
			case standing.Refused != "" || errors.Is(err, fault.ErrWrongKind):
				if answer.Resent {
					ln.Undo.Abandon(w.lock, owner, ticket) // a request that got no answer may still arrive
				}
				ln.Fail(w, err)
				return
			}
			ln.mu.Lock()
			if w.poller.placed == 0 { // else its polls note it
				w.poller.noteLocked(err)
			}
			ln.mu.Unlock()
			retry.Sleep(ln.Closing, PollDisconnected)
		}
	})
}
