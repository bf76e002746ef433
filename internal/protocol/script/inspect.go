package script

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Sniff is the call of sniff.lua.
func Sniff(set keys.Set) conn.Call { return conn.Call{Script: sniff.get(), Keys: set.List()} }

// Use is what a name is used for.
type Use struct {
	Kind      *Kind  // nil if it is not used, or not for a latch
	Parameter string // of the kind, such as the size of a semaphore
	RedisType string // of K; "none" if it is not there
}

// ParseSniff reads the reply of sniff.lua.
func ParseSniff(r conn.Reply) (Use, error) {
	if len(r.List) != 3 {
		return Use{}, unexpected(r)
	}
	use := Use{RedisType: r.List[0].Text}
	switch use.RedisType {
	case "string":
		use.Kind = Mutex
	case "hash":
		if _, err := strconv.Atoi(r.List[1].Text); err == nil {
			use.Kind = Reentrant
		}
	case "zset":
		name, parameter, _ := strings.Cut(r.List[1].Text, "\t")
		use.Kind, use.Parameter = Named(name), parameter
	case "none":
		if last, err := ParseTicket(r.List[2].Text); err == nil {
			use.Kind = Named(last.Kind)
		}
	}
	return use, nil
}

// Named returns the kind of that name, or nil.
func Named(name string) *Kind {
	for _, k := range all() {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Inspect is the call of inspect.lua.
func (k *Kind) Inspect(set keys.Set) conn.Call {
	return conn.Call{Script: k.inspect.get(), Keys: k.keysAndForced(set)}
}

// InspectInside is Inspect without the line, which may be long.
func (k *Kind) InspectInside(set keys.Set) conn.Call {
	call := k.Inspect(set)
	call.Args = []string{"1"}
	return call
}

// State is what inspect.lua found.
type State struct {
	Token     int64
	Remaining time.Duration
	Holders   []Holder
	Waiters   []Waiting
	Now       int64  // by the server's clock, in microseconds
	Forced    string // the owner that last lost the latch by force; "" if none is remembered
	Note      string // of that forced release, for [ParseNote]
}

// Waiting is a ticket in line.
type Waiting struct {
	Ticket  string
	Arrival int64 // as in [Standing]
	End     int64 // until when its client is believed alive by its heartbeats, in ms of the server's clock; 0 if unknown
	Alive   bool  // its client is believed alive: its time is not over, and it listens where it has to
}

// Holder is one owner inside.
type Holder struct {
	Owner     string
	Remaining time.Duration
	Token     int64  // 0 if none is known
	Detail    string // as in [Standing]
	Resting   bool   // gone; its place is kept free
}

// ParseInspect reads the reply of inspect.lua.
func ParseInspect(r conn.Reply) (State, error) {
	if len(r.List) != 6 {
		return State{}, unexpected(r)
	}
	s := State{Remaining: duration(r.List[1]), Now: r.List[4].Int}
	s.Token, _ = strconv.ParseInt(r.List[0].Text, 10, 64)
	if last := r.List[5].List; len(last) == 2 {
		s.Forced, s.Note = last[0].Text, last[1].Text
	}
	for _, h := range r.List[2].List {
		if len(h.List) != 5 {
			return State{}, unexpected(r)
		}
		holder := Holder{Owner: h.List[0].Text, Remaining: duration(h.List[1]), Detail: h.List[3].Text, Resting: h.List[4].Int == 1}
		holder.Token, _ = strconv.ParseInt(h.List[2].Text, 10, 64)
		s.Holders = append(s.Holders, holder)
	}
	for _, w := range r.List[3].List {
		if len(w.List) != 4 {
			return State{}, unexpected(r)
		}
		arrival, err := score(w.List[1])
		if err != nil {
			return State{}, err
		}
		end, err := score(w.List[2])
		if err != nil {
			return State{}, err
		}
		s.Waiters = append(s.Waiters, Waiting{Ticket: w.List[0].Text, Arrival: arrival, End: end, Alive: w.List[3].Int == 1})
	}
	return s, nil
}
