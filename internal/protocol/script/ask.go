package script

import (
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Lingers reports whether the client of a holder of the kind may keep the latch when its program is
// done with it.
func (k *Kind) Lingers() bool { return k.asking != nil }

// Ask is the call of ask.lua, which tells the client that listens to the address that its latch is
// wanted; its reply is for [ParseKeeper]. again says that the caller asks until it has an answer.
func (k *Kind) Ask(set keys.Set, owner, address string, again bool) conn.Call {
	answer := "0"
	if again {
		answer = "1"
	}
	return conn.Call{Script: k.asking.get(), Keys: k.keys(set), Args: []string{owner, address, answer}}
}

// Used is the call of used.lua, which tells clients that ask in that time that the latch is in use.
func (k *Kind) Used(set keys.Set, owner string, remember time.Duration) conn.Call {
	return conn.Call{Script: k.used.get(), Keys: k.keys(set), Args: []string{owner, millis(remember)}}
}

// Keeper is what Redis says about a client that may only be keeping a latch.
type Keeper int64

// The values are the replies of ask.lua.
const (
	KeeperGone Keeper = iota // the owner is not inside
	KeeperTold
	KeeperUses // its program is inside
	KeeperDeaf // it does not listen
)

// ParseKeeper reads the reply of ask.lua.
func ParseKeeper(r conn.Reply) Keeper { return Keeper(r.Int) }
