package cli

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
)

// newGuardCommand is what `redlatch run` starts beside the command that it runs. It is not for
// people.
func newGuardCommand(a *app) *cobra.Command {
	return hidden(child.GuardArg, "Stop a command when `redlatch run` cannot (started by it)", func(cmd *cobra.Command, _ []string) error {
		text, deadline := child.Guard(a.stdin, a.stdout, a.stderr)
		a.execute(cmd.Context(), text, deadline)
		return nil
	})
}

// will is what the guard of `redlatch run` needs to release its lock. It reaches the guard by a
// pipe, so that a password in it is in no list of processes.
type will struct {
	URLs   []string
	Prefix string
	Name   string
	Owner  string
}

// execute releases the lock of a `redlatch run` that was killed, and of whose command no process is
// left, unless its lease ends before.
func (a *app) execute(ctx context.Context, text string, deadline time.Time) {
	var w will
	if text == "" || json.Unmarshal([]byte(text), &w) != nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	a.redis, a.prefix, a.quiet = w.URLs, w.Prefix, true
	a.dated.Store(true)
	client, err := a.open(ctx, redlatch.Options{Program: "redlatch guard"})
	if err != nil {
		return // the lease ends by itself
	}
	defer client.Close()
	if _, err := client.ForceRelease(ctx, w.Name, redlatch.ForceOptions{Owner: w.Owner, Reason: "no process of its command is left"}); err == nil {
		a.say("released %q, since no process of its command is left", w.Name)
	}
}

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
