package script

import (
	"strconv"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Proclaims reports whether a holder of the kind can change its value. No node of a quorum has
// such a kind: a node that missed the request would still report the old value.
func (k *Kind) Proclaims() bool { return k.proclaim != nil }

// Proclaim is the call of proclaim.lua, for a kind that [Kind.Proclaims]; its reply is for [Done].
// Of several calls for one owner, the one with the largest number counts.
func (k *Kind) Proclaim(set keys.Set, owner, value string, number uint64) conn.Call {
	return conn.Call{Script: k.proclaim.get(), Keys: k.keys(set), Args: []string{owner, value, strconv.FormatUint(number, 10)}}
}
