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
		a.Date()
		text, deadline := child.Guard(a.Stdin, a.Stdout, func(text, message string) {
			a.Events = read(text).Events
			a.Say("%s", message)
		})
		execute(cmd.Context(), a, read(text), deadline)
		return nil
	})
}

// will is what the guard of `redlatch run` needs to release its lock. It reaches the guard by a
// pipe, so that a password in it is in no list of processes.
type will struct {
	Events bool // the guard writes JSON, too
	URLs   []string
	Prefix string
	Name   string // "" if the lock is to end by itself
	Owner  string
}

// read returns the will in a text, or an empty one.
func read(text string) (w will) {
	_ = json.Unmarshal([]byte(text), &w)
	return w
}

// execute releases the lock of a `redlatch run` that was killed, and of whose command no process is
// left, unless its lease ends before.
func execute(ctx context.Context, a *app.App, w will, deadline time.Time) {
	if w.Name == "" {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	a.Redis, a.Prefix, a.Quiet, a.Events = w.URLs, w.Prefix, true, w.Events
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
