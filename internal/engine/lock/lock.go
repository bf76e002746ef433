package lock

import (
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Lock is a name with a kind, and how it is held. It does not change.
type Lock struct {
	ask.Subject
	Client string        // the id of the client that it belongs to
	Prefix string        // of the keys of that client
	Param  string        // for the kind
	Extra  time.Duration // how long past the lease an acquisition may block later ones: a quarantine, a window
	Terms
	Waiting

	Linger     time.Duration     // how long the client keeps it after a release; 0 for not at all
	MinHold    time.Duration     // how long after the acquisition a release leaves it shut (lease/needs.go, release.lua); 0 for not at all
	FenceKey   string            // where another library counts its tokens; "" for a key of redlatch
	FenceTTL   time.Duration     // how long the fence is remembered; 0 leaves the expiry of another library's key as it is
	Neighbours script.Neighbours // what a release does for other libraries
}

// Terms are the options by which a lease is held. A goroutine can take over a lease that has the
// same terms as its own.
type Terms struct {
	TTL, MaxHold time.Duration // MaxHold: see lease.overdueLocked
	Replicas     int32         // small, to keep a group of goroutines small: each lease has one
	Renews       bool          // by the watchdog
}

// Waiting is how an acquisition waits.
type Waiting struct {
	Most  time.Duration // 0 for no bound
	Line  int           // it is refused if this many wait; 0 for no bound
	Turns string        // the queue in which goroutines of the client pass it on; "" if each waits for itself
}

// With returns the lock with another argument for the kind.
func (l *Lock) With(param string) *Lock {
	next := *l
	next.Param = param
	return &next
}

// Same reports whether the other is the same lock of the same client, whatever is asked of it.
func (l *Lock) Same(o *Lock) bool {
	return l.Client == o.Client && l.Kind == o.Kind && l.Keys.State() == o.Keys.State()
}

// Rest returns how long the place of a holder that vanished is kept after its lease. The window of
// a job is kept in any case.
func (l *Lock) Rest() time.Duration {
	if l.Kind.Name == script.SlotPool.Name {
		return l.Extra
	}
	return 0
}

// MaxTTL is the longest that Redis keeps a lease without an extend.
const MaxTTL = 24 * time.Hour

// Drift returns the part of a TTL that a holder gives up at its end, for clocks that run at
// different rates and for the millisecond in which Redis counts.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Release returns the request that takes an owner out, and does what the options say for other
// libraries. begun says that the owner's acquisition led to a lease. sharded says that the client
// has sharded channels.
func (l *Lock) Release(owner, ticket string, begun, sharded bool) conn.Call {
	others := l.Neighbours
	others.Sharded = others.Sharded && sharded
	return script.For(l.Kind.Release(l.Keys, owner, ticket, begun, l.FenceTTL), others)
}

// Mode returns how a read-write mutex is acquired, and "" for the other kinds.
func (l *Lock) Mode() string {
	switch {
	case l.Kind != script.RWMutex:
		return ""
	case strings.HasPrefix(l.Param, "w"):
		return "write"
	}
	return "read"
}
