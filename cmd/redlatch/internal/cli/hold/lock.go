package hold

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// lockedJSON is what `lock --json` prints.
type lockedJSON struct {
	Lease      string `json:"lease"`
	Name       string `json:"name"`
	Token      int64  `json:"token"`
	Slot       *int   `json:"slot"`
	DeadlineMS int64  `json:"deadline_ms"`
}

func newLockCommand(a *app.App) *cobra.Command {
	r := &run{app: a, verb: "lock", waits: make(chan struct{}, 1)}
	cmd := app.Command("lock", app.OneName, func(cmd *cobra.Command, args []string) error {
		child.GoOn()
		r.name = args[0]
		if err := r.check(cmd.Flags()); err != nil {
			return err
		}
		r.hush()
		r.loud = child.QuitQuietly()
		return a.Connect(cmd.Context(), r.options("redlatch lock"), func(client *redlatch.Client) error {
			return r.detach(cmd.Context(), client)
		})
	})
	flags := cmd.Flags()
	r.acquireFlags(flags)
	r.target.flags(flags)
	flags.Lookup("slot-pool").Usage = "one of `N` numbered slots; --json prints its number"
	flags.Lookup("once").Usage = "at most once in a --window, over all hosts"
	flags.Lookup("window").Usage = "with --once: no other is acquired for so long"
	flags.BoolVar(&a.JSON, "json", false, "print one JSON object")
	return cmd
}

// detach acquires the lock, and prints the text that names its lease.
func (r *run) detach(ctx context.Context, client *redlatch.Client) error {
	signals, stop := child.Notify()
	r.loud()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, err := r.acquire(ctx, cancel, client, signals)
	if err != nil {
		return err
	}
	answer := lockedJSON{Name: h.Name(), Token: h.Token(), Slot: h.slot}
	answer.Lease, err = h.Detach(ctx)
	answer.DeadlineMS = h.Deadline().UnixMilli()
	if e := h.release(ctx); err != nil { // which does nothing after Detach
		return exit.LostOr(errors.Join(err, e))
	}
	if err = r.app.AnswerAs(answer, answer.Lease+"\n"); err != nil { // the user has no text
		_ = unlock(ctx, r.app, answer.Lease) // if this fails, the lease expires
	}
	return err
}
