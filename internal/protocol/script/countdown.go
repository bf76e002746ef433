package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Leases reports whether an owner can be inside.
func (k *Kind) Leases() bool { return k.adopt != nil }

// Count is the state of a countdown.
type Count struct {
	There   bool   // there is a count; else it was never set, or is gone
	Done    bool   // the request, or an earlier copy of it, set the count
	Again   bool   // the request set none, and can be sent again with the fence
	Fence   int64  // of the name, if Again is set
	Left    int64  // the count
	Of      int64  // what it was set to; not known of a round that has ended
	Round   int64  // of the count
	Refused string // as in [Standing]
}

// SetCount is the call of countdown_set.lua; its reply is for [ParseSetCount]. The count lasts that
// long after it was last set or counted down. A fence of -1 only asks for the fence.
func SetCount(set keys.Set, owner string, n int64, lasts, fenceTTL time.Duration, fence int64) conn.Call {
	return conn.Call{Script: Countdown.set.get(), Keys: Countdown.keys(set), Args: []string{
		seconds(fenceTTL), owner, strconv.FormatInt(n, 10), millis(lasts), strconv.FormatInt(fence, 10),
	}}
}

// CountDown is the call of countdown_down.lua; its reply is for [ParseCount]. Requests with the
// same id count once; "" for none.
func CountDown(set keys.Set, owner, id string) conn.Call {
	return conn.Call{Script: Countdown.down.get(), Keys: Countdown.keys(set), Args: []string{owner, id}}
}

// WaitCount is the call of countdown_wait.lua; its reply is for [ParseCount]. The round is 0 if it
// is not known, and the ticket "" to only read the count.
func WaitCount(set keys.Set, round int64, ticket, address string, liveFor time.Duration) conn.Call {
	return conn.Call{Script: Countdown.wait.get(), Keys: Countdown.keys(set), Args: []string{
		strconv.FormatInt(round, 10), ticket, address, millis(liveFor),
	}}
}

// DeleteCount is the call of countdown_delete.lua; its reply is for [Done].
func DeleteCount(set keys.Set, round int64) conn.Call {
	return conn.Call{Script: Countdown.delete.get(), Keys: Countdown.keys(set), Args: []string{strconv.FormatInt(round, 10)}}
}

// ParseSetCount reads the reply of countdown_set.lua.
func ParseSetCount(r conn.Reply) (Count, error) {
	switch {
	case len(r.List) != 2:
		return Count{}, unexpected(r)
	case r.List[0].Int == -1:
		return Count{Refused: r.List[1].Text}, nil
	case r.List[0].Int == 2:
		return Count{There: true, Again: true, Fence: r.List[1].Int}, nil
	}
	return Count{There: true, Done: r.List[0].Int == 1, Left: r.List[1].Int}, nil
}

// ParseCount reads the reply of countdown_down.lua and countdown_wait.lua.
func ParseCount(r conn.Reply) (Count, error) {
	switch n := len(r.List); {
	case n == 1 && r.List[0].Int == 0:
		return Count{}, nil
	case n == 2 && r.List[0].Int == -1:
		return Count{Refused: r.List[1].Text}, nil
	case n == 2 && r.List[0].Int == 1:
		return Count{There: true, Left: r.List[1].Int}, nil
	case n == 4 && r.List[0].Int == 1:
		return Count{There: true, Left: r.List[1].Int, Round: r.List[2].Int, Of: r.List[3].Int}, nil
	}
	return Count{}, unexpected(r)
}

// CountOf reads the count and what it was set to from the parameter of a [Use].
func CountOf(parameter string) (left, of int64) {
	first, rest, _ := strings.Cut(parameter, ":")
	second, _, _ := strings.Cut(rest, ":")
	left, _ = strconv.ParseInt(first, 10, 64)
	of, _ = strconv.ParseInt(second, 10, 64)
	return left, of
}
