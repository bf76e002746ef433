package cli

import (
	"context"
	"encoding/json"
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

// will returns that of this run; "" if the lock is to end by itself. That of a job with a window, or
// with a minimal hold, would open too early. Of which kind an adopted lease is, this program does
// not know.
func (r *run) will(h *held) string {
	if r.target.once || r.least > 0 || r.target.adopted != "" {
		return ""
	}
	text, _ := json.Marshal(will{r.app.urls(), r.app.prefix, h.Name(), h.Owner()}) // plain fields
	return string(text)
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
