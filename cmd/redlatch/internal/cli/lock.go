package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
)

const lockHelp = `Acquire the lock NAME for the steps that follow, and print a text that names the lease.

The lock stays taken when this command has ended, for --ttl. In that time

  redlatch unlock TEXT              releases it
  redlatch run --adopt TEXT -- ...  runs a command under it, extends it meanwhile, and releases it

A text works once. Keep it to yourself: whoever has it, and may use the server, has the lock. It names neither the server nor
the prefix; give the same --redis and --prefix again.

The steps that follow must be over within --ttl: nothing extends the lease, and nothing stops them when it ends. ` + "`redlatch run`" + `
does both for its command. Let what they write to check the token.

The kinds of lock are those of ` + "`redlatch run`" + `. With --json the answer is one object: lease (the text), name, token, slot
(null unless --slot-pool) and deadline_ms (when the lease ends if it is not extended, in ms of Unix time).

Exit codes:
    0  the lock is acquired, and the text is on stdout
   64  a flag, an argument or a name makes no sense
   65  the name is in use for another kind of lock, or for something that is none
   69  Redis did not answer, or refused to
   75  somebody else holds the lock (or --taken-exit-code), or with --once another run used the window
   79  the lease was lost at once`

const lockExamples = `  lease=$(redlatch lock --ttl 10m deploy)            in one step of a pipeline,
  redlatch unlock "$lease"                           and in a later one
  redlatch lock --try --json --permits 1/4 render | jq -r .token`

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
	cmd := &cobra.Command{
		Use:     "lock [flags] NAME",
		Short:   "Acquire a lock in one step, to release it in another",
		Long:    lockHelp,
		Example: lockExamples,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.name = args[0]
			if err := l.check(cmd.Flags()); err != nil {
				return err
			}
			l.hush()
			return l.lock(cmd.Context())
		},
	}
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
