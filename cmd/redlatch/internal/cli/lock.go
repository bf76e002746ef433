package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
)

// locking is one `redlatch lock`.
type locking struct {
	run
	asJSON bool
}

// lockedJSON is what `lock --json` prints.
type lockedJSON struct {
	Lease      string `json:"lease"`
	Name       string `json:"name"`
	Token      int64  `json:"token"`
	Slot       *int   `json:"slot"`
	DeadlineMS int64  `json:"deadline_ms"`
}

func newLockCommand(a *app) *cobra.Command {
	l := &locking{run: run{app: a, verb: "lock", waits: make(chan struct{}, 1)}}
	cmd := command("lock", oneName, func(cmd *cobra.Command, args []string) error {
		l.name = args[0]
		if err := l.check(cmd.Flags()); err != nil {
			return err
		}
		l.hush()
		return l.lock(cmd.Context())
	})
	flags := cmd.Flags()
	l.acquireFlags(flags)
	l.target.flags(flags)
	flags.BoolVar(&l.asJSON, "json", false, "print one JSON object")
	return cmd
}

func (l *locking) lock(ctx context.Context) error {
	a := l.app
	client, err := a.open(ctx, l.options("redlatch lock"))
	if err != nil {
		return err
	}
	defer client.Close()
	signals, stop := child.Notify()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, err := l.acquire(ctx, cancel, client, signals)
	if err != nil {
		return err
	}
	answer := lockedJSON{Name: h.Name(), Token: h.Token(), Slot: h.slot}
	answer.Lease, err = h.Detach(ctx)
	answer.DeadlineMS = h.Deadline().UnixMilli()
	if e := h.release(ctx); err != nil { // which does nothing after Detach
		return lostOr(errors.Join(err, e))
	}
	if l.asJSON {
		err = a.answerJSON(answer)
	} else {
		err = a.answer("%s\n", answer.Lease)
	}
	if err != nil { // the caller has no text
		if lease, e := client.Adopt(ctx, answer.Lease, redlatch.LockOptions{}); e == nil {
			_ = lease.Release(ctx) // if it fails, it expires
		}
	}
	return err
}
