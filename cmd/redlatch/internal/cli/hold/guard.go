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

// newGuardCommand returns the command that `redlatch run` starts beside the user's command. It is
// not for users. The guard acts only if `redlatch run` died or hangs; keep.go decides when a command is
// stopped.
func newGuardCommand(a *app.App) *cobra.Command {
	return app.Hidden(child.GuardArg, "Stop a command when `redlatch run` cannot (started by it)", func(cmd *cobra.Command, _ []string) error {
		a.Date()
		a.InBackground() // a terminal or a pipe that is not read must not keep the lock
		text, deadline := child.Guard(a.Stdin, a.Stdout, func(text, message string) {
			a.Events = read(text).Events
			a.Say("%s", message)
		})
		execute(cmd.Context(), a, read(text), deadline)
		return nil
	})
}

// will is what the guard of `redlatch run` needs to release its lock. It reaches the guard through
// a pipe, so that no list of processes shows a password in it.
type will struct {
	Events bool // the guard writes JSON, too
	URLs   []string
	Prefix string
	Name   string // "" if the guard must let the lease expire
	Owner  string
}

// read returns the will in a text, or an empty one if the text is malformed.
func read(text string) (w will) {
	_ = json.Unmarshal([]byte(text), &w)
	return w
}

// execute releases the lock of a `redlatch run` that was killed, unless its lease ends first. No
// process of its command is left when it is called.
func execute(ctx context.Context, a *app.App, w will, deadline time.Time) {
	if w.Name == "" {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	a.Redis, a.Prefix, a.Quiet, a.Events = w.URLs, w.Prefix, true, w.Events
	const why = "no process of its command is left"
	// If this fails, the lease expires.
	o := redlatch.Options{Program: "redlatch guard"}
	_ = a.Connect(ctx, o, func(client *redlatch.Client) error {
		_, err := client.ForceRelease(ctx, w.Name, redlatch.ForceOptions{Owner: w.Owner, Reason: why})
		if err == nil {
			a.Say("released %q, since %s", w.Name, why)
		}
		return err
	})
}
