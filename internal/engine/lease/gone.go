package lease

import (
	"cmp"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lose ends a lease that is held, for that reason.
func (l *Lease) Lose(reason lock.Reason) {
	l.mu.Lock()
	var events []lock.Event
	if l.state <= inJeopardy {
		events = append(events, l.losing(lock.Loss{Reason: reason}))
	}
	l.unlock(events...)
}

// whyGone returns why Redis no longer has the lease, from the reply to an extend that said so. The
// caller holds l.mu.
func (l *Lease) whyGone(gone script.Gone) lock.Loss {
	note := cmp.Or(readable(gone.Note), l.keeper.forced(l.owner))
	switch {
	case note != "", l.forced:
		return lock.Loss{Reason: lock.ReasonForced, Note: note}
	case (gone.Fenced || !gone.Known) && !l.accompanied() && l.overAt(l.keeper.Now()):
		return lock.Loss{Reason: l.whyExpired()} // while the request was on its way to Redis
	case !gone.Known, l.keeper.Now().Since(l.acquired) >= l.keeper.FenceTTL/2:
		return lock.Loss{Reason: lock.ReasonGone} // its token may be forgotten by now
	case gone.Last > 0 && gone.Last < l.token: // an older copy of the data
		return lock.Loss{Reason: lock.ReasonForgotten}
	case gone.Fenced:
		return lock.Loss{Reason: lock.ReasonDeleted}
	}
	return lock.Loss{Reason: lock.ReasonForgotten}
}

// Revoked handles the message that the lock of an owner was taken by force. note is "" if the
// process that took it is not known.
func (k *Keeper) Revoked(owner, note string) {
	k.Handoffs.Revoke(owner) // before the look: between two goroutines of a group there is no lease
	l, kept := k.noteForced(owner, note)
	if kept != nil {
		k.apart(kept.giveBack)
	}
	if l != nil {
		l.mu.Lock()
		l = l.leading()
		l.unlock(l.recheck()...)
	}
}

// noteForced remembers what a message said of an owner. It returns the lease of that owner, and its
// kept lease, which it takes off the shelf.
//
// It is tempting to remember the owner only if it has no lease yet. But a lease that is released at
// this moment would be kept, and taken up again under the same owner, beside the holder that took
// it by force.
func (k *Keeper) noteForced(owner, note string) (l, kept *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.early.Add(owner)
	if kept = k.shelf.byOwner[owner]; kept != nil {
		k.unshelveLocked(kept) // at once, or it could be taken up before it is given back
	}
	l = k.byOwner[owner]
	if l != nil && readable(note) != "" {
		if k.taken == nil {
			k.taken = make(map[string]string)
		}
		k.taken[owner] = note
	}
	return l, kept
}

// readable returns a note about a forced release, or "" if it is none: any program may publish one.
func readable(note string) string {
	if _, _, ok := script.ParseNote(note); !ok {
		return ""
	}
	return note
}

// LoseAll ends the leases that are held, since the client closes. If a hook panics, it still ends
// the others. It releases none: the program may still be at work under them.
func (k *Keeper) LoseAll() {
	for _, l := range k.All() {
		defer l.Lose(lock.ReasonClosed)
	}
	k.DropKept()
}
