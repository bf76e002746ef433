package hold

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// newGuardCommand is what `redlatch run` starts beside the command that it runs. It is not for
// people.
func newGuardCommand(a *app.App) *cobra.Command {
	return app.Hidden(child.GuardArg, "Stop a command when `redlatch run` cannot (started by it)", func(cmd *cobra.Command, _ []string) error {
		text, deadline := child.Guard(a.Stdin, a.Stdout, a.Stderr)
		execute(cmd.Context(), a, text, deadline)
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
func execute(ctx context.Context, a *app.App, text string, deadline time.Time) {
	var w will
	if text == "" || json.Unmarshal([]byte(text), &w) != nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	a.Redis, a.Prefix, a.Quiet = w.URLs, w.Prefix, true
	a.Date()
	const why = "no process of its command is left"
	// If it fails, the lease ends by itself.
	o := redlatch.Options{Program: "redlatch guard"}
	_ = a.Connect(ctx, o, func(client *redlatch.Client) error {
		_, err := client.ForceRelease(ctx, w.Name, redlatch.ForceOptions{Owner: w.Owner, Reason: why})
		if err == nil {
			a.Say("released %q, since %s", w.Name, why)
		}
		return err
	})
}
