package lock

import (
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Grant is an acquisition as Redis made it.
type Grant struct {
	Owner   string
	Token   int64
	Spare   int // how many tokens after it belong to it, too
	Detail  string
	Sent    clock.Reading // no later than the moment at which Redis set the expiry
	TTL     time.Duration // that it set, at least
	Resent  bool          // a request for it got no answer, and may arrive after the release
	Ticket  string        // that such a request carries; "" if none
	Passed  bool          // it is that of a lease of this client
	Adopted bool          // it is that of a lease that was detached
	Gone    bool          // Redis says that it has run out
	Err     error         // it is none: waiting cannot help any more
}

// Inside returns the grant that an answer of Redis tells.
func (l *Lock) Inside(owner, ticket string, s script.Standing, a ask.Answer, resent bool) Grant {
	g := Grant{Owner: owner, Token: s.Token, Detail: s.Detail, Sent: a.Sent, TTL: l.TTL, Resent: resent, Ticket: ticket}
	if s.Anew {
		g.Spare = l.Spare()
	}
	return g
}

// Spare returns how many tokens an acquisition of a mutex takes for other goroutines.
func (l *Lock) Spare() int {
	if l.Param == "" || l.Kind != script.Mutex {
		return 0
	}
	n, _ := strconv.Atoi(l.Param)
	return n - 1
}
