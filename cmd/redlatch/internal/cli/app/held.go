package app

import (
	"encoding/json"
	"os"

	"github.com/redlatch/redlatch"
)

// heldVariable tells a command, and a redlatch that it starts, which leases are held while it runs.
// So a deadlock of nested `redlatch run` can be found. It is not for people.
const heldVariable = "REDLATCH_HELD"

// Inherited returns the leases that are held while this process runs. A variable that makes no
// sense tells of none.
func Inherited() []redlatch.Held {
	var held []redlatch.Held
	if json.Unmarshal([]byte(os.Getenv(heldVariable)), &held) != nil {
		return nil
	}
	return held
}

// HandDown returns the variable for a command that runs under the lease, as an entry of its
// environment.
func HandDown(lease *redlatch.Lease) string {
	held := append(Inherited(), redlatch.Held{Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token()})
	text, _ := json.Marshal(held) // plain fields
	return heldVariable + "=" + string(text)
}
