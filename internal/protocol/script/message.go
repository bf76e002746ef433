package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
)

// Message is what a script published to a client.
type Message struct {
	Verb      Verb
	Owner     string        // that it is about; of a free, the waiter
	Token     int64         // of a grant; of a zero, the round
	Key       string        // of a zero
	Detail    string        // of a grant; as in [Standing]
	Remaining time.Duration // of a first: until a lease inside may run out
	Note      string        // of a revoke, for [ParseNote]
	Again     bool          // of an asked: the asker waits for an answer
}

// Verb says what a message means.
type Verb string

const (
	MessageGrant  Verb = "grant"  // token, got, owner: the owner is inside
	MessageFirst  Verb = "first"  // ms, owner: the waiter is the first in line now
	MessageRevoke Verb = "revoke" // owner, note: its lease was taken by force
	MessageWanted Verb = "wanted" // owner: a waiter has come behind it
	MessageAsked  Verb = "asked"  // 1 or 0, owner: another wants what its client may only keep
	MessageZero   Verb = "zero"   // round, key: its count is zero; round 0: its waiters should ask
	MessageFree   Verb = "free"   // waiter: a node of a quorum has room
)

// maxMessage is longer than what any script publishes. Any program may publish, and a client remembers
// some of what it hears.
const maxMessage = 16 << 10

// ParseMessage reads a message, the fields of which are separated by tabs. It returns the zero
// value for a text that is not a message, or too long to be one.
func ParseMessage(text string) Message {
	if len(text) > maxMessage {
		return Message{}
	}
	verb, rest, _ := strings.Cut(text, "\t")
	m := Message{Verb: Verb(verb), Owner: rest}
	switch m.Verb {
	case MessageFree, MessageWanted:
		return m
	case MessageRevoke:
		m.Owner, m.Note, _ = strings.Cut(rest, "\t")
		return m
	case MessageAsked:
		again, owner, _ := strings.Cut(rest, "\t")
		m.Owner, m.Again = owner, again == "1"
		return m
	case MessageFirst:
		ms, owner, _ := strings.Cut(rest, "\t")
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return Message{}
		}
		m.Owner, m.Remaining = owner, clock.Millis(n)
		return m
	case MessageZero:
		round, key, _ := strings.Cut(rest, "\t")
		n, err := strconv.ParseInt(round, 10, 64)
		if err != nil {
			return Message{}
		}
		return Message{Verb: MessageZero, Token: n, Key: key}
	case MessageGrant:
		field := strings.SplitN(rest, "\t", 3)
		if len(field) != 3 {
			return Message{}
		}
		token, err := strconv.ParseInt(field[0], 10, 64)
		if err != nil {
			return Message{}
		}
		m.Token, m.Detail, m.Owner = token, field[1], field[2]
		return m
	}
	return Message{}
}
