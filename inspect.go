package redlatch

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// LockInfo is what Redis knows of one name at one moment. Fields that do not apply are zero.
type LockInfo struct {
	Name      string        // without the prefix
	Key       string        // in Redis
	Kind      string        // "mutex", ...; "" if the name is not in use, or in use for what is no lock
	RedisType string        // of a key that is no lock, such as "list"
	Size      int64         // permits of a semaphore, or slots of a pool, that is in use; what a countdown was set to
	Count     int64         // of a countdown
	Token     int64         // the last fencing token; 0 if none is remembered
	At        time.Time     // the moment, by the server's clock
	Remaining time.Duration // until the last holder's lease runs out, or a countdown expires; negative if never
	Holders   []Holder      // in no order
	Forced    *Force        // the last forced release of the last hour; nil if there was none
	Waiters   []Waiter      // in line, first come first; goroutines of one client that wait for a mutex are one, unless in strict order
}

// Abandoned reports whether only the dead wait for the lock: it has no holder, and each of its
// waiters is believed dead. The next acquisition forgets them. A countdown never is: it needs no
// holder.
func (i LockInfo) Abandoned() bool {
	living := func(w Waiter) bool { return !w.Dead }
	return i.Kind != script.Countdown.Name && len(i.Holders) == 0 && len(i.Waiters) > 0 && !slices.ContainsFunc(i.Waiters, living)
}

// Holder is an acquisition that holds a lock, and the process behind it as far as Redis knows it.
// Fields that do not apply are zero.
type Holder struct {
	Owner     string        // of the acquisition
	Client    string        // id of the client; "" for a foreign holder
	Process   Process       // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since     time.Time     // of the acquisition, by the server's clock; zero if unknown, as over a quorum
	Token     int64         // the fencing token; for goroutines that pass a mutex on, the last one that their process took
	Remaining time.Duration // of the lease; negative if it never expires

	// LastSeen is the last sign of life of the client, by the server's clock: the acquisition, a
	// record that it writes once a minute, or now if it listens for grants, as a client does that
	// has waited for something before. An extend leaves no trace that tells its time: a lease whose
	// TTL is short is a better sign of life itself. It is zero if nothing is known.
	LastSeen time.Time

	// Dead says that the client is believed dead, or cut off from Redis: it said in its record that
	// it listens, and it does not; or it has no record three minutes after the acquisition. The
	// lease counts all the same, until Remaining has passed.
	Dead bool

	// Resting says that the holder is gone, and that its place is kept free until Remaining has
	// passed: a slot, the window of a job, or a lock with LockOptions.MinHold.
	Resting bool

	// Detached says that [Lease.Detach] handed the lease on, and that the client which did so has
	// closed: Process is where that client ran. No process holds the lease until one adopts it.
	Detached bool

	// Foreign says that the owner is not one of redlatch's: another library holds the lock, or a
	// SET by hand.
	Foreign bool

	// Labels are what its program gave it: [Options].Labels and [WithLabels]. They are what another
	// program wrote into Redis: show them as data, control characters escaped.
	Labels map[string]string

	Mode    string // "read" or "write" for a read-write lock
	Permits int64  // of a semaphore
	Slot    int    // of a slot pool, from 0 on
	Value   string // of a leader
	EntryOf string // the owner that entered a reentrant mutex: several holders have the same, and are its entries
}

// Waiter is an acquisition in line, and the process behind it as far as Redis knows it. Fields that
// do not apply are zero.
type Waiter struct {
	Owner   string    // of the acquisition
	Client  string    // id of the client
	Process Process   // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since   time.Time // of the arrival in line, by the server's clock

	// LastSeen is the last sign of life of the client, by the server's clock: its last heartbeat
	// for this line, or its arrival. A client without a record is taken to have the
	// Options.Heartbeat of the client that looks.
	LastSeen time.Time

	// Dead says that the client is believed dead, or cut off from Redis: three of its heartbeats
	// are missing, or it does not listen for grants. A waiter that is dead is forgotten when it
	// comes to the head of the line, and keeps no other waiting.
	Dead bool

	// Callers is how many goroutines of the client this place in line is for: they hand a mutex on
	// among themselves, so they stand in line together. The client tells it at its heartbeats; it is
	// 1 before the first, and for all other waiters. Goroutines that wait behind a lease of their
	// own client are in no line, and are not counted.
	Callers int

	// Labels are what its program gave it, as for a [Holder].
	Labels map[string]string

	// Holds is the leases that it keeps while it waits: those under whose context it called Lock.
	// See [Client.Deadlocks].
	Holds []Held

	Mode    string // "read" or "write" for a read-write lock
	Permits int64  // that it wants of a semaphore
	Value   string // of a candidate
	EntryOf string // the owner that wants to enter a reentrant mutex
}

// Held is a lease that a waiter keeps while it waits for another lock.
type Held struct {
	Name  string // of the lock
	Kind  string // of the lock
	Owner string // of the lease
	Token int64  // its fencing token
}

// Process is where a client runs.
type Process struct {
	Host    string
	PID     int
	Program string // [Options.Program]
}

func newProcess(p presence.Process) Process { return Process{p.Host, p.PID, p.Program} }

// newHolder is a holder as a script tells it.
func newHolder(kind *script.Kind, h script.Holder) Holder {
	client, ours := script.OwnerClient(h.Owner)
	n := Holder{
		Owner: h.Owner, Client: client, Token: h.Token, Remaining: h.Remaining, Resting: h.Resting, Foreign: !ours && !h.Resting,
	}
	switch {
	case n.Foreign:
		n.Token = 0 // what is remembered is that of another holder
	case n.Token > 0 && !kind.Counts():
		n.Since = time.UnixMicro(n.Token) // a token is the server's clock at the grant
	}
	switch kind.Name {
	case script.RWMutex.Name:
		n.Mode = modes[h.Detail]
	case script.Semaphore.Name:
		n.Permits, _ = strconv.ParseInt(h.Detail, 10, 64)
	case script.SlotPool.Name:
		n.Slot, _ = strconv.Atoi(h.Detail)
	case script.Election.Name:
		n.Value = h.Detail
	case script.Reentrant.Name:
		n.EntryOf = h.Detail
	}
	return n
}

// newWaiter is the waiter that has a ticket.
func newWaiter(kind *script.Kind, ticket script.Ticket, w script.Waiting) Waiter {
	client, _ := script.OwnerClient(ticket.Owner)
	n := Waiter{Owner: ticket.Owner, Client: client, Since: time.UnixMicro(w.Arrival), Dead: !w.Alive, Callers: 1}
	if w.End > 0 {
		n.LastSeen = time.UnixMilli(w.End) // meet makes of it when that heartbeat was
	}
	wish := kind.Detail(ticket.Param)
	switch kind.Name {
	case script.RWMutex.Name:
		n.Mode = modes[wish]
	case script.Semaphore.Name:
		n.Permits, _ = strconv.ParseInt(wish, 10, 64)
	case script.Election.Name:
		n.Value = wish
	case script.Reentrant.Name:
		n.EntryOf = wish
	}
	return n
}

// meet fills in what the sign of a holder's client tells at that moment.
func (h *Holder) meet(sign presence.Sign, at time.Time) {
	h.Process = newProcess(sign.Process)
	h.LastSeen = h.Since
	h.Labels = merged(sign.Process.Labels, sign.Notes[h.Owner].Labels)
	switch {
	case sign.Listening:
		h.LastSeen = at
	case sign.Process.Detached:
		h.Detached = true
	case sign.Written:
		h.LastSeen = later(h.Since, at.Add(-sign.Ago))
		h.Dead = sign.Deaf
	case !h.Since.IsZero():
		h.Dead = at.Sub(h.Since) >= presence.TTL
	}
}

// meet fills in what the sign of a waiter's client tells. LastSeen is still the time until which the
// client is believed alive. It was seen earlier by as long as its record says, or by liveFor if the
// record does not tell.
func (w *Waiter) meet(sign presence.Sign, liveFor time.Duration) {
	w.Process = newProcess(sign.Process)
	if sign.Process.LiveFor > 0 {
		liveFor = time.Duration(sign.Process.LiveFor) * time.Millisecond
	}
	if !w.LastSeen.IsZero() {
		w.LastSeen = w.LastSeen.Add(-liveFor)
	}
	w.LastSeen = later(w.Since, w.LastSeen)
	note := sign.Notes[w.Owner]
	w.Labels, w.Holds = merged(sign.Process.Labels, note.Labels), heldIn(note)
	w.Callers = max(1, note.Callers)
}

// heldIn returns the leases that a note tells.
func heldIn(note notes.Note) []Held {
	var all []Held
	for _, h := range note.Holds {
		all = append(all, Held(h))
	}
	return all
}

// modes are the modes of a read-write lock, by how a script spells them.
var modes = map[string]string{"r": "read", "w": "write"}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Inspect returns the holders of a name and its waiters, as one consistent picture. A name that is
// not in use has neither. It changes nothing. The error matches [ErrUnreachable] or [ErrInvalid].
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	info, _, err := c.survey.look(ctx, name)
	return info, err
}
