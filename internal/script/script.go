package script

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/keys"
)

// Request is what acquire.lua is asked for.
type Request struct {
	Owner    string
	TTL      time.Duration
	Arg      string // for the kind
	FenceTTL time.Duration
	Ticket   string // "" to not wait
	Address  string
	Horizon  time.Duration
	Arrival  int64 // of a ticket that was lost, to get its place back; 0 for a new one
	Most     int   // of waiters: with so many in line, it is refused; 0 for no bound
}

// Acquire is the call of acquire.lua.
func (k *Kind) Acquire(set keys.Set, r Request) conn.Call {
	call := conn.Call{Script: k.acquire, Keys: k.keys(set), Args: []string{
		seconds(r.FenceTTL), r.Owner, millis(r.TTL), r.Arg, r.Ticket, r.Address, millis(r.Horizon), strconv.FormatInt(r.Arrival, 10),
	}}
	if r.Most > 0 {
		call.Args = append(call.Args, strconv.Itoa(r.Most))
	}
	return call
}

// Standing is how an acquisition stands.
type Standing struct {
	Inside    bool
	Token     int64
	Anew      bool          // let in by the request that was answered, with all the tokens that it asked for; else Token is the last of them
	Got       string        // what else it got inside, such as the number of a slot
	Remaining time.Duration // of the holder's lease; negative if it never ends, or nobody holds it
	Foreign   bool          // the holder is not one of redlatch's; known only to the first in line
	Arrival   int64         // in line since, in microseconds of the server's clock; 0 if not in line
	First     bool          // in line
	Missing   bool          // neither inside nor in line
	Refused   string        // why it can never be inside: a word, and a tab and what it is about; "" if it can
}

// ParseAcquire reads the reply of acquire.lua.
func ParseAcquire(r conn.Reply) (Standing, error) {
	switch {
	case r.Int > 0:
		return Standing{Inside: true, Token: r.Int, Anew: true}, nil
	case len(r.List) == 3 && r.List[0].Int == 1:
		return inside(r), nil
	case len(r.List) == 2 && r.List[0].Int == -1:
		return Standing{Refused: r.List[1].Text}, nil
	case len(r.List) == 5:
		arrival, err := score(r.List[3])
		return Standing{Remaining: duration(r.List[1]), Foreign: r.List[2].Int == 1, Arrival: arrival, First: r.List[4].Int == 1}, err
	}
	return Standing{}, unexpected(r)
}

// Await is the call of await.lua.
func (k *Kind) Await(set keys.Set, address string, horizon, fenceTTL time.Duration, tickets []string) conn.Call {
	args := append([]string{seconds(fenceTTL), address, millis(horizon)}, tickets...)
	return conn.Call{Script: k.await, Keys: k.keys(set), Args: args}
}

// Line is how a client's tickets on one latch stand: what all share, and each of them.
type Line struct {
	Remaining time.Duration // as in [Standing]
	Foreign   bool
	First     bool // one of them is the first in line
	Tickets   []Standing
}

// ParseAwait reads the reply of await.lua to n tickets.
func ParseAwait(r conn.Reply, n int) (Line, error) {
	if len(r.List) != 3+n {
		return Line{}, unexpected(r)
	}
	line := Line{Remaining: duration(r.List[0]), Foreign: r.List[1].Int == 1, First: r.List[2].Int == 0, Tickets: make([]Standing, n)}
	for i, t := range r.List[3:] {
		switch {
		case len(t.List) == 3 && t.List[0].Int == 1:
			line.Tickets[i] = inside(t)
		case len(t.List) == 0:
			line.Tickets[i].Missing = true
		case len(t.List) != 1:
			return Line{}, unexpected(r)
		}
	}
	return line, nil
}

// Release is the call of release.lua; its reply is for [Inside]. The result is how the work ended,
// which some kinds ask.
func (k *Kind) Release(set keys.Set, owner, ticket, result string, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.release, Keys: k.keys(set), Args: []string{seconds(fenceTTL), owner, ticket, result}}
}

// AtLeast returns that release for a lease with this token which leaves the latch shut until it was
// held for so long.
func AtLeast(release conn.Call, token int64, hold time.Duration) conn.Call {
	release.Args = append(release.Args, strconv.FormatInt(token, 10), millis(hold))
	return release
}

// Inside reads whether the owner was inside.
func Inside(r conn.Reply) bool { return r.Int > 0 }

// Renew is the call of renew.lua, or of confirm.lua for a node of a quorum, which compares what the
// owner got; its reply is for [Done].
func (k *Kind) Renew(set keys.Set, owner string, ttl time.Duration, got string) conn.Call {
	call := conn.Call{Script: k.renew, Keys: k.keys(set), Args: []string{owner, millis(ttl)}}
	if k.vote != nil {
		call.Args = append(call.Args, got)
	}
	return call
}

// Adopt is the call of adopt.lua, which gives the place of an owner to its successor; its reply is
// for [Done].
func (k *Kind) Adopt(set keys.Set, owner, successor string, ttl time.Duration, got string) conn.Call {
	return conn.Call{Script: k.adopt, Keys: k.keys(set), Args: []string{owner, millis(ttl), successor, got}}
}

// Force is the call of force.lua; its reply is for [Done].
func (k *Kind) Force(set keys.Set, owner, address string, sharded bool, fenceTTL time.Duration) conn.Call {
	shard := "0"
	if sharded {
		shard = "1"
	}
	return conn.Call{Script: k.force, Keys: k.keys(set), Args: []string{seconds(fenceTTL), owner, address, shard}}
}

// Done reads a reply that says whether the owner was inside.
func Done(r conn.Reply) bool { return r.Int == 1 }

// Resize is the call of resize.lua, for a kind that has a size.
func (k *Kind) Resize(set keys.Set, n int64, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.resize, Keys: k.keys(set), Args: []string{seconds(fenceTTL), strconv.FormatInt(n, 10)}}
}

// ParseResize reads the kind that was found; "" if nobody is inside.
func ParseResize(r conn.Reply) (kind string, err error) {
	if len(r.List) != 2 {
		return "", unexpected(r)
	}
	return r.List[0].Text, nil
}

// Multi is the call of multi.lua, for mutexes.
func Multi(sets []keys.Set, owners []string, ttl, fenceTTL time.Duration) conn.Call {
	call := conn.Call{Script: multi, Args: append([]string{seconds(fenceTTL), millis(ttl)}, owners...)}
	for _, set := range sets {
		call.Keys = append(call.Keys, set.List()...)
	}
	return call
}

// ParseMulti reads the tokens of n mutexes; none if they were not all free.
func ParseMulti(r conn.Reply, n int) ([]int64, error) {
	if len(r.List) != 0 && len(r.List) != n {
		return nil, unexpected(r)
	}
	tokens := make([]int64, len(r.List))
	for i, t := range r.List {
		tokens[i] = t.Int
	}
	return tokens, nil
}

// Record is the call of record.lua. An empty text forgets the record.
func Record(key, text string, ttl time.Duration) conn.Call {
	return conn.Call{Script: record, Keys: []string{key}, Args: []string{text, millis(ttl)}}
}

// Recall is the call of recall.lua for the client that listens to that channel.
func Recall(key, channel string) conn.Call {
	return conn.Call{Script: recall, Keys: []string{key}, Args: []string{channel}}
}

// ParseRecall reads the record of a client, "" if there is none, for how long it is still there,
// and how many listen to the channel; -1 if the server does not tell.
func ParseRecall(r conn.Reply) (text string, left time.Duration, listeners int64, err error) {
	if len(r.List) != 3 {
		return "", 0, 0, unexpected(r)
	}
	return r.List[0].Text, duration(r.List[1]), r.List[2].Int, nil
}

func inside(r conn.Reply) Standing {
	return Standing{Inside: true, Token: r.List[1].Int, Got: r.List[2].Text}
}

// score reads a sorted-set score, which a server may write with an exponent.
func score(r conn.Reply) (int64, error) {
	if r.Text == "" {
		return r.Int, nil
	}
	f, err := strconv.ParseFloat(r.Text, 64)
	return int64(f), err
}

func duration(r conn.Reply) time.Duration { return time.Duration(r.Int) * time.Millisecond }

// millis rounds up, since a TTL of zero would delete the key.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func unexpected(r conn.Reply) error { return fmt.Errorf("redlatch: a script answered %+v", r) }
