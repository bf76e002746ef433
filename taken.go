package redlatch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// TakenError says that a lock was not free, and names its holder, as far as that is known without
// another request. Every error that matches [ErrTaken] is one. It matches [ErrExhausted] or
// [ErrLineFull] as well where that is so.
//
// [Client.Inspect] and `redlatch inspect` tell more: the process, and for how long.
type TakenError struct {
	Kind string // of the lock, such as "mutex"
	Name string // of the lock

	// Owner holds the lock, or is one of several holders: [Lease.Owner] of that lease, but for an
	// entry of a [ReentrantMutex]. After a wait, it held the lock when Redis told last, a heartbeat
	// ago at most. It is "" if Redis did not tell, as it does not of a ReentrantMutex or of a line
	// that is full.
	Owner string

	Own   bool      // Owner is of this client: perhaps a lease that was not released, see [Client.Leases]
	Since time.Time // when this client acquired it, if Own and still held; else zero

	reason error // ErrTaken, ErrExhausted or ErrLineFull
}

// Error says that the lock is taken, and names the holder, or says how to find it out.
func (e *TakenError) Error() string {
	text := e.reason.Error()
	several := ""
	if errors.Is(e.reason, ErrExhausted) {
		several = ", among others"
	}
	switch {
	case errors.Is(e.reason, ErrLineFull):
		return text
	case e.Own && !e.Since.IsZero():
		return fmt.Sprintf("%s by this client%s, since %v", text, several, time.Since(e.Since).Round(time.Millisecond))
	case e.Own:
		return text + " by this client" + several
	case e.Owner != "":
		return fmt.Sprintf("%s by %.80q%s; Client.Inspect or `redlatch inspect` tells which process that is", text, e.Owner, several)
	}
	return text + "; Client.Inspect or `redlatch inspect` tells by which process"
}

// Unwrap makes the error match [ErrTaken], and [ErrExhausted] or [ErrLineFull] if that is the case.
func (e *TakenError) Unwrap() error { return e.reason }

// taken returns the error that says that there is no room, since this owner and perhaps others are
// inside; "" if that is not known.
func (c *Client) taken(l *lock.Lock, occupant string) error {
	reason := ErrTaken
	if l.Size > 0 {
		reason = ErrExhausted
	}
	return c.takenFor(l, reason, occupant)
}

func (c *Client) takenFor(l *lock.Lock, reason error, occupant string) error {
	e := &TakenError{Kind: l.Kind.Name, Name: l.Name, reason: reason}
	if occupant == script.Window || strings.HasSuffix(occupant, "\tshut") { // which is gone
		return e
	}
	e.Owner = occupant
	client, ours := script.OwnerClient(occupant)
	if e.Own = ours && client == c.id; !e.Own {
		return e
	}
	if l := c.keeper.Of(occupant); l != nil {
		e.Owner, e.Since = l.NamedOwner(), l.Acquired().Time()
	}
	return e
}
