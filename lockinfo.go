package redlatch

import (
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/script"
)

// LockInfo is what Redis knows of one name at one moment. Fields that do not apply are zero.
type LockInfo struct {
	Name      string        // without the prefix
	Key       string        // in Redis
	Kind      string        // "mutex", ...; "" if the name is not in use, or in use for what is no lock
	RedisType string        // of a key that is no lock, such as "list"
	Size      int64         // permits of a semaphore, or slots of a pool, that is in use
	Token     int64         // the last fencing token; 0 if none is remembered
	Remaining time.Duration // until the last holder's lease runs out; negative if never
	Holders   []Holder      // in no order
	Waiters   []Waiter      // in line, first come first; goroutines of one client that wait for a mutex are one, unless in strict order
}

// Holder is an acquisition that holds a lock, and the process behind it as far as Redis knows it. Fields that do not apply are zero.
type Holder struct {
	Owner     string        // of the acquisition
	Client    string        // id of the client; "" for a foreign holder
	Process   Process       // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since     time.Time     // of the acquisition, by the server's clock; zero if unknown, as over a quorum
	Token     int64         // the fencing token; for goroutines that pass a mutex on, the last one that their process took
	Remaining time.Duration // of the lease; negative if it never expires

	// Resting says that the holder is gone, and that its place is kept free until Remaining has passed: a slot, or the window of a job.
	Resting bool

	// Foreign says that the owner is not one of redlatch's: another library holds the lock, or a SET by hand.
	Foreign bool

	Mode    string // "read" or "write" for a read-write lock
	Permits int64  // of a semaphore
	Slot    int    // of a slot pool, from 0 on
	Value   string // of a leader
	EntryOf string // the owner who entered a reentrant mutex: that of several holders, each of them one of its entries
}

// Waiter is an acquisition in line, and the process behind it as far as Redis knows it. Fields that do not apply are zero.
type Waiter struct {
	Owner   string    // of the acquisition
	Client  string    // id of the client
	Process Process   // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since   time.Time // of the arrival in line, by the server's clock

	Mode    string // "read" or "write" for a read-write lock
	Permits int64  // that it wants of a semaphore
	Value   string // of a candidate
	EntryOf string // the owner who wants to enter a reentrant mutex
}

// Process is where a client runs.
type Process struct {
	Host    string
	PID     int
	Program string // [Options.Program]
}

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
		n.Mode = modes[h.Got]
	case script.Semaphore.Name:
		n.Permits, _ = strconv.ParseInt(h.Got, 10, 64)
	case script.SlotPool.Name:
		n.Slot, _ = strconv.Atoi(h.Got)
	case script.Election.Name:
		n.Value = h.Got
	case script.Reentrant.Name:
		n.EntryOf = h.Got
	}
	return n
}

// newWaiter is the waiter that has a ticket.
func newWaiter(kind *script.Kind, ticket script.Ticket, arrival int64) Waiter {
	client, _ := script.OwnerClient(ticket.Owner)
	n := Waiter{Owner: ticket.Owner, Client: client, Since: time.UnixMicro(arrival)}
	wish := kind.Detail(ticket.Arg)
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

// modes are the modes of a read-write lock, by how a script spells them.
var modes = map[string]string{"r": "read", "w": "write"}
