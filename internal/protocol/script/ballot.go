package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Ballot has the arguments of vote.lua.
type Ballot struct {
	Owner    string
	TTL      time.Duration
	Param    string // for the kind
	Bound    time.Duration
	FenceTTL time.Duration
	Again    bool   // first give up what an earlier vote gave
	Ticket   string // "" to not wait
	Address  string
	LiveFor  time.Duration
	Waited   time.Duration // so far
}

// Vote is the call of vote.lua.
func (k *Kind) Vote(set keys.Set, b Ballot) conn.Call {
	again := "0"
	if b.Again {
		again = "1"
	}
	return conn.Call{Script: k.vote.get(), Keys: k.keys(set), Args: []string{
		seconds(b.FenceTTL), b.Owner, millis(b.TTL), b.Param, millis(b.Bound), again, b.Ticket, b.Address, millis(b.LiveFor),
		strconv.FormatInt(b.Waited.Microseconds(), 10),
	}}
}

// Vote is how one node answered.
type Vote struct {
	Inside    bool
	Number    int64         // if inside: this node's count
	Detail    string        // as in [Standing]
	Remaining time.Duration // as in [Standing]
	Holder    string        // the owner inside, if it is another
	Rank      int           // how many are before it in line
	Refused   string        // as in [Standing]
	Nonvoting bool          // it has no right to vote
	Rest      time.Duration // until it may get the right; 0 if a client needs to restore it
}

// ParseVote reads the reply of vote.lua.
func ParseVote(r conn.Reply) (Vote, error) {
	if len(r.List) < 2 {
		return Vote{}, unexpected(r)
	}
	switch verdict := r.List[0].Int; {
	case verdict == 1 && len(r.List) == 3:
		return Vote{Inside: true, Number: r.List[1].Int, Detail: r.List[2].Text}, nil
	case verdict == 0 && len(r.List) == 4:
		return Vote{Remaining: duration(r.List[1]), Holder: r.List[2].Text, Rank: int(r.List[3].Int)}, nil
	case verdict == -1:
		return Vote{Refused: r.List[1].Text}, nil
	case verdict == -2:
		return Vote{Nonvoting: true, Rest: duration(r.List[1])}, nil
	}
	return Vote{}, unexpected(r)
}

// Raise is the call of raise.lua; its reply is for [Done].
func (k *Kind) Raise(set keys.Set, owner string, ttl time.Duration, token int64, detail string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.raise.get(), Keys: k.keys(set), Args: []string{
		seconds(fenceTTL), owner, millis(ttl), strconv.FormatInt(token, 10), detail,
	}}
}

// Counted returns how far a node of a quorum has counted, if it did not confirm a lease and no
// other owner has the lease's place there; else 0. r is the node's reply to the call of Renew.
func Counted(r conn.Reply) int64 { return max(-r.Int, 0) }

// Mend is the call of mend.lua. The ballot is as for vote.lua; token and detail are those of the
// owner, and counted is what [Counted] returned for the node.
func (k *Kind) Mend(set keys.Set, b Ballot, token int64, detail string, counted int64) conn.Call {
	return conn.Call{Script: k.mend.get(), Keys: k.keys(set), Args: []string{
		seconds(b.FenceTTL), b.Owner, millis(b.TTL), b.Param, millis(b.Bound), strconv.FormatInt(token, 10), detail,
		strconv.FormatInt(counted, 10),
	}}
}

// ParseMend reads whether the owner is inside, and otherwise whether the node has no right to vote
// and a client needs to restore it.
func ParseMend(r conn.Reply) (inside, nonvoting bool) {
	if len(r.List) == 0 {
		return false, false
	}
	verdict := r.List[0].Int
	return verdict == 1, verdict == -2 && r.List[len(r.List)-1].Int == 0
}

// From returns param, the argument of a slot pool, with this slot as the lowest one to give.
func From(param string, slot int64) string {
	field := strings.SplitN(param, ":", 4)
	field[2] = strconv.FormatInt(slot, 10)
	return strings.Join(field, ":")
}

// Look returns the call of epoch.lua that changes nothing. The reply is for [ParseEpoch].
func Look(key string) conn.Call { return epochCall(key, "look", "", 0, 0, 0) }

// Rest returns the call of epoch.lua that begins the rest of a process without a vote. If
// it is at rest already, nothing changes. The reply is for [ParseEpoch].
func Rest(key, process string, d time.Duration) conn.Call {
	return epochCall(key, "rest", process, d, 0, 0)
}

// Restore returns the call of epoch.lua that gives a process whose rest has ended the right to
// vote. The node goes on counting from floor; bound is the longest time that others were bound for.
// If the rest so far was shorter than rest, it goes on until it has lasted that long, except in a
// new quorum. The reply is for [ParseEpoch].
func Restore(key, process string, rest time.Duration, floor int64, bound time.Duration) conn.Call {
	return epochCall(key, "seat", process, rest, floor, bound)
}

func epochCall(key, step, process string, rest time.Duration, floor int64, bound time.Duration) conn.Call {
	return conn.Call{Script: epoch.get(), Keys: []string{key}, Args: []string{
		step, process, millis(rest), strconv.FormatInt(floor, 10), millis(bound),
	}}
}

// Epoch is a node's right to vote.
type Epoch struct {
	Votes   bool
	Voted   bool          // it had the right at some time, if not now
	Process string        // the server process
	Bound   time.Duration // the longest time that its votes bound it for
	High    int64         // the largest number it knows
	Rest    time.Duration // what is left of its rest; negative if that has not begun
	Clock   int64         // in microseconds
}

// ParseEpoch reads the reply of epoch.lua.
func ParseEpoch(r conn.Reply) (Epoch, error) {
	if len(r.List) != 7 {
		return Epoch{}, unexpected(r)
	}
	l := r.List
	return Epoch{
		Votes: l[0].Int == 1, Voted: l[1].Int == 1, Process: l[2].Text,
		Bound: duration(l[3]), High: l[4].Int, Rest: duration(l[5]), Clock: l[6].Int,
	}, nil
}

// Releases reports whether a call is one of release.lua.
func Releases(call conn.Call) bool { return strings.HasSuffix(call.Script.Name, " release") }

// Awaits reports whether a call is one of await.lua, of whatever kind.
func Awaits(call conn.Call) bool { return strings.HasSuffix(call.Script.Name, " await") }

// Renews reports whether a call is one of renew.lua, or on a quorum of confirm.lua.
func Renews(call conn.Call) bool {
	return strings.HasSuffix(call.Script.Name, " renew") || strings.HasSuffix(call.Script.Name, " confirm")
}
