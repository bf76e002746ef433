package engine

import (
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// What the client does when a subscription comes or goes, and with the messages on it. Polls that fail
// are in line/poll.go, and places in line that Redis has dropped in line/restore.go.

// subscribed is called when a subscription was connected or lost. Messages may have been published
// while it was down. From now on its waiters have to ask more often, or no longer need to (how
// often: line/pace.go). No wait ends.
func (e *Engine) subscribed(s *subscribe.Subscription) {
	if s == e.Listener.Plain() {
		e.Keeper.DropKept()
		if s.Connected() {
			e.Presence.Again() // which says that the client listens
		}
	}
	if s.Session() > 1 { // it is back: the server may be another, or have an older copy
		e.Keeper.ReleaseAgain(s.Key(), 0)
	}
	e.Line.PollNow(s)
	e.tries.WakeAll()
	e.Counts.askAll()
	if s.Connected() {
		e.Keeper.Recheck(s.Key())
	}
}

// uses reports whether the client needs to hear of the name with this key. A holder hears that its
// lock was taken by force, and of a failover to a server that may not know of a release.
func (e *Engine) uses(key string) bool {
	return e.Line.Waits(key) || e.Counts.waits(key) || e.Keeper.Uses(key)
}

// hear handles one message. Any other text is ignored: anybody may publish on the channel.
func (e *Engine) hear(text string) {
	switch m := script.ParseMessage(text); m.Verb {
	case script.MessageGrant:
		if !e.Line.Granted(m.Owner, m.Token, m.Detail) {
			e.Keeper.GrantedAgain(m.Owner)
		}
	case script.MessageFirst:
		e.Line.PollAtExpiry(m.Owner, m.Remaining) // its heartbeat would be later
	case script.MessageRevoke:
		e.Keeper.Revoked(m.Owner, m.Note)
	case script.MessageWanted: // a waiter came behind a holder that uses Lease.Wanted: lease/wanted.go
		e.Keeper.Wanted(m.Owner)
	case script.MessageAsked: // another client wants a lock that this one may only keep: lease/kept.go
		e.Keeper.Asked(m.Owner, m.Again)
	case script.MessageZero:
		e.Counts.hear(m.Key, m.Token)
	case script.MessageFree:
		if !e.tries.Wake(m.Owner) { // as a rule it has just left, and its release is on its way
			e.Line.LeaveAgain(m.Owner, e.RequestTimeout/5)
		}
	}
}
