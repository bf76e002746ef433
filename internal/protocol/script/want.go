package script

import (
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// TellsHolders reports whether a holder of the kind can be told that its latch is wanted. A holder
// on a node of a quorum cannot.
func (k *Kind) TellsHolders() bool { return k.want != nil }

// Want is the call of want.lua, for a kind that [Kind.TellsHolders]; its reply is for [Waited]. The
// client that listens to the address is told, and the wish is remembered for that time.
func (k *Kind) Want(set keys.Set, owner, address string, remember time.Duration) conn.Call {
	return conn.Call{Script: k.want.get(), Keys: k.keys(set), Args: []string{owner, address, millis(remember)}}
}

// Waited reads whether a waiter is in line.
func Waited(r conn.Reply) bool { return r.Int == 1 }
