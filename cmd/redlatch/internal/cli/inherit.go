package cli

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/redlatch/redlatch"
)

// heldVariable tells a command, and a redlatch that it starts, which leases are held while it runs.
// So a deadlock of nested `redlatch run` can be found. It is not for people.
const heldVariable = "REDLATCH_HELD"

// inherited returns the leases that are held while this process runs. A variable that makes no sense
// tells of none.
func inherited() []redlatch.Held {
	var all []heldJSON
	if json.Unmarshal([]byte(os.Getenv(heldVariable)), &all) != nil {
		return nil
	}
	var held []redlatch.Held
	for _, h := range all {
		held = append(held, redlatch.Held(h))
	}
	return held
}

// handDown returns the variable for a command that runs under the lease, as an entry of its
// environment.
func handDown(lease *redlatch.Lease) string {
	var all []heldJSON
	for _, h := range slices.Concat(inherited(), []redlatch.Held{{Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token()}}) {
		all = append(all, heldJSON(h))
	}
	text, _ := json.Marshal(all) // plain fields
	return heldVariable + "=" + string(text)
}
