package survey

import (
	"slices"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Picture is what Redis, or one node of a quorum, knows of a name at one moment. The root's LockInfo
// tells what each field means.
type Picture struct {
	ask.Subject        // what the name is used for; that of a mutex if it is no lock
	Lock        bool   // it is in use for a lock
	RedisType   string // of a key that is no lock
	Count       int64
	Token       int64
	At          time.Time
	Remaining   time.Duration
	Holders     []Holder
	Waiters     []Waiter
	Forced      string // and Note, as in [script.State]
	Note        string
	Doubt       error // of a quorum: why an owner may be inside that is none of Holders; nil if none may

	free bool  // there is no such key
	err  error // why that could not be found out
}

// Holder is an acquisition that is inside.
type Holder struct {
	Party
	Token     int64
	Remaining time.Duration
	Detail    string // as in [script.Standing]
	Resting   bool
	Detached  bool
	Foreign   bool
	Kept      time.Time // since when its client only keeps it; zero if its program is inside
}

// Waiter is an acquisition in line.
type Waiter struct {
	Party
	Detail  string // that it wants
	Callers int
	Holds   []notes.Held
}

// Party is what is known of an acquisition and of its client.
type Party struct {
	Owner, Client   string
	Process         presence.Process // zero if the client has no record
	Labels          map[string]string
	Since, LastSeen time.Time
	Dead            bool
}

// Use returns what the name is used for: a kind, a type of Redis, or "".
func (p *Picture) Use() string {
	if p.Lock {
		return p.Kind.Name
	}
	return p.RedisType
}

// InUse is Use, but "" if there is no holder and only dead waiters: then it keeps no caller out.
func (p *Picture) InUse() string {
	counts := p.Kind == script.Countdown && !p.free // a count needs no holder
	living := func(w Waiter) bool { return !w.Dead }
	if p.Lock && !counts && len(p.Holders) == 0 && !slices.ContainsFunc(p.Waiters, living) {
		return ""
	}
	return p.Use()
}

// inspected notes the holders and the line.
func (p *Picture) inspected(r conn.Reply) error {
	state, err := script.ParseInspect(r)
	if err != nil {
		return err
	}
	p.Token, p.Remaining, p.At = state.Token, state.Remaining, time.UnixMicro(state.Now)
	p.Forced, p.Note = state.Forced, state.Note
	if p.free {
		p.Remaining = 0
	}
	for i, h := range state.Holders {
		p.Holders = append(p.Holders, newHolder(p.Kind, h, state))
		if i == 0 || h.Remaining > p.Remaining {
			p.Remaining = h.Remaining
		}
	}
	for _, w := range state.Waiters {
		if ticket, err := script.ParseTicket(w.Ticket); err == nil && ticket.Kind != script.Yielding {
			p.Waiters = append(p.Waiters, newWaiter(p.Kind, ticket, w, state.Now))
		}
	}
	return nil
}

// newHolder returns a holder as a script describes it.
func newHolder(kind *script.Kind, h script.Holder, state script.State) Holder {
	client, ours := script.OwnerClient(h.Owner)
	n := Holder{
		Party: Party{Owner: h.Owner, Client: client}, Token: h.Token, Remaining: h.Remaining, Detail: h.Detail,
		Resting: h.Resting, Foreign: !ours && !h.Resting,
	}
	switch {
	case n.Foreign:
		n.Token = 0 // what is remembered is that of another holder
	case n.Token > 0 && !kind.Counts():
		// A token is the server's clock at the grant, and the last of several a little more.
		n.Since = time.UnixMicro(min(n.Token, state.Now))
	case n.Owner == script.Window && state.Token > 0 && !kind.Counts(): // it began with the last run
		n.Since = time.UnixMicro(min(state.Token, state.Now))
	}
	return n
}

// newWaiter returns the waiter that has a ticket. now is the time of the server: the waiter did not
// arrive later, whatever has become of the clock since.
func newWaiter(kind *script.Kind, ticket script.Ticket, w script.Waiting, now int64) Waiter {
	client, _ := script.OwnerClient(ticket.Owner)
	n := Waiter{
		Party:  Party{Owner: ticket.Owner, Client: client, Since: time.UnixMicro(min(w.Arrival, now)), Dead: !w.Alive},
		Detail: kind.Detail(ticket.Param), Callers: 1,
	}
	if w.End > 0 {
		n.LastSeen = time.UnixMilli(w.End) // meet makes of it when that heartbeat was
	}
	return n
}

// meet fills in what the sign of a holder's client says at that moment. A holder is believed dead if
// its client's record says that it listens, and it does not (Read in record/presence). Without a
// record, it is once it has held for longer than a record lasts.
func (h *Holder) meet(sign presence.Sign, at time.Time) {
	h.Process, h.LastSeen = sign.Process, h.Since
	note := sign.Notes[h.Owner]
	h.Labels = notes.Merged(sign.Process.Labels, note.Labels)
	if note.Kept > 0 {
		h.Kept = time.UnixMilli(note.Kept)
	}
	switch {
	case sign.Listening:
		h.LastSeen = at
	case sign.Process.Detached:
		h.Detached = true
	case sign.Written:
		h.LastSeen = later(h.Since, at.Add(-sign.Ago))
		h.Dead = sign.Deaf
	case !h.Since.IsZero() && !sign.Unknown:
		h.Dead = at.Sub(h.Since) >= presence.TTL
	}
}

// meet fills in what the sign of a waiter's client tells. LastSeen is still the time until which the
// client is believed alive. It was seen earlier by as long as its record says, or by liveFor if the
// record does not tell.
func (w *Waiter) meet(sign presence.Sign, liveFor time.Duration) {
	if sign.Process.LiveFor > 0 {
		liveFor = clock.Millis(sign.Process.LiveFor)
	}
	if !w.LastSeen.IsZero() {
		w.LastSeen = w.LastSeen.Add(-liveFor)
	}
	note := sign.Notes[w.Owner]
	w.Process, w.LastSeen = sign.Process, later(w.Since, w.LastSeen)
	w.Labels, w.Holds = notes.Merged(sign.Process.Labels, note.Labels), note.Holds
	w.Callers = max(1, note.Callers)
}

// hear adds what another node tells of the client. A client that any node has heard from is not
// believed dead.
func (p *Party) hear(o Party) {
	if p.Process.PID == 0 {
		p.Process = o.Process
	}
	p.LastSeen, p.Dead = later(p.LastSeen, o.LastSeen), p.Dead && o.Dead
	p.Labels = notes.Merged(p.Labels, o.Labels)
}

// permits returns how many of the permits or slots of its lock a holder has.
func (h *Holder) permits(kind string) int64 {
	if kind != script.Semaphore.Name {
		return 1
	}
	n, _ := strconv.ParseInt(h.Detail, 10, 64)
	return max(n, 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
