package lock

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Grant is an acquisition as Redis made it.
type Grant struct {
	Owner   string
	Token   int64
	Spare   int // how many more tokens, after Token, belong to it
	Run     int // if Passed, how many more goroutines it may be passed to at most
	Detail  string
	Sent    clock.Reading // no later than the moment at which Redis set the expiry
	TTL     time.Duration // the TTL that Redis set, or less
	Resent  bool          // a request for it got no answer, and may arrive after the release
	Ticket  string        // the ticket that such a request carries; "" if none
	Passed  bool          // it takes over a lease of this client
	Kept    bool          // the client has kept it in the meantime
	Adopted bool          // it takes over a lease that was detached
	Hearing uint32        // the session of the subscription that was up before it was asked for; 0 if it may not be kept
	Gone    bool          // Redis says that it has run out
	Err     error         // if set, there is no grant: waiting cannot help any more
}

// Inside returns the grant that is in an answer of Redis.
func (l *Lock) Inside(owner, ticket string, s script.Standing, a ask.Answer, resent bool) Grant {
	g := Grant{Owner: owner, Token: s.Token, Detail: s.Detail, Sent: a.Sent, TTL: l.TTL, Resent: resent, Ticket: ticket}
	if s.Anew {
		g.Spare = l.Spare()
	}
	return g
}

// Left returns how much is left of its lease.
func (g *Grant) Left(now clock.Reading) time.Duration {
	return g.TTL - Drift(g.TTL) - now.Since(g.Sent)
}

// Spare returns how many tokens an acquisition takes for others that take the lock over from it.
func (l *Lock) Spare() int {
	count := l.Param
	switch l.Kind {
	case script.Mutex:
	case script.RWMutex:
		_, count = splitTokens(l.Param)
	default:
		return 0
	}
	if count == "" { // as a rule: an error would be allocated
		return 0
	}
	n, _ := strconv.Atoi(count)
	return max(n, 1) - 1
}

// splitTokens splits Param of a read-write mutex into count, how many tokens the acquisition takes,
// and the rest. A # further on belongs to the name of an owner.
func splitTokens(param string) (rest, count string) {
	if how, count, found := strings.Cut(param, "#"); found && len(how) == 1 {
		return how, count
	}
	return param, ""
}

// Keepable reports whether this acquisition may take up a lock that the client keeps, and let the
// client keep it after that: not one of a read-write mutex that belongs to a lease inside.
func (l *Lock) Keepable() bool {
	return l.Linger > 0 && (l.Kind != script.RWMutex || len(l.Param) == 1)
}

// WithTokens returns a lock that is [Lock.Keepable] for an acquisition that takes so many tokens.
func (l *Lock) WithTokens(n int) *Lock {
	if l.Kind == script.RWMutex {
		return l.With(l.Param + "#" + strconv.Itoa(n))
	}
	return l.With(strconv.Itoa(max(n, 1+l.Spare())))
}
