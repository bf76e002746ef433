package script

import (
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Seizure has the arguments of seize.lua.
type Seizure struct {
	From     string // the owner that loses the latch; "" if the latch is free
	Address  string // of its client; "" if unknown
	Shard    string // its sharded channel for the name; "" if unknown, or not in a cluster
	Note     string // names the process that takes the latch
	Remember time.Duration
	Owner    string // that is inside afterwards
	TTL      time.Duration
	Param    string // for the kind
	FenceTTL time.Duration
}

// Seizes reports whether a latch of the kind can be taken by force in one step. A latch on a node
// of a quorum cannot.
func (k *Kind) Seizes() bool { return k.seize != nil }

// Seize is the call of seize.lua, for a kind that [Kind.Seizes].
func (k *Kind) Seize(set keys.Set, s Seizure) conn.Call {
	return conn.Call{Script: k.seize.get(), Keys: k.keysAndForced(set), Args: []string{
		seconds(s.FenceTTL), s.From, s.Address, s.Shard, s.Note, millis(s.Remember), s.Owner, millis(s.TTL), s.Param,
	}}
}

// ParseSeize reads the reply of seize.lua.
func ParseSeize(r conn.Reply) (Standing, error) {
	switch {
	case len(r.List) == 3 && r.List[0].Int == 1:
		return inside(r), nil
	case len(r.List) == 2 && r.List[0].Int == 0:
		return Standing{Occupant: r.List[1].Text}, nil
	}
	return Standing{}, unexpected(r)
}
