package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
)

const lockHelp = `Acquire the lock NAME for the steps that follow, and print a text that names the lease.

The lock stays taken when this command has ended: for --ttl, unless --while-pid says otherwise. In that time

  redlatch unlock TEXT              releases it
  redlatch run --adopt TEXT -- ...  runs a command under it, extends it meanwhile, and releases it

A text works once. Keep it to yourself: whoever has it, and may use the server, has the lock. It names neither the server nor
the prefix; give the same --redis and --prefix again.

With --while-pid a process in the background extends the lease. When the process PID has ended, it releases the lease. When the
lease is unlocked, adopted or lost, it ends within a second. It needs Unix. Without --while-pid, the steps that follow must be
over within --ttl: nothing stops them when the lease ends, as ` + "`redlatch run`" + ` stops its command. Let what they write to check the token.

The kinds of lock are those of ` + "`redlatch run`" + `. With --json the answer is one object: lease (the text), name, token, slot
(null unless --slot-pool) and deadline_ms (when the lease ends if it is not extended, in ms of Unix time).

Exit codes:
    0  the lock is acquired, and the text is on stdout
   64  a flag, an argument or a name makes no sense
   65  the name is in use for another kind of lock, or for something that is none
   69  Redis did not answer, or refused to
   71  the process that keeps the lease cannot be started
   75  somebody else holds the lock (or --taken-exit-code), or with --once another run used the window
   79  the lease was lost at once`

const lockExamples = `  lease=$(redlatch lock --ttl 10m deploy)            in one step of a pipeline,
  redlatch unlock "$lease"                           and in a later one
  lease=$(redlatch lock --while-pid $$ nightly) || exit; ./backup.sh; redlatch unlock "$lease"
  redlatch lock --try --json --permits 1/4 render | jq -r .token`

// locking is one `redlatch lock`.
type locking struct {
	run
	pid    int
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
			changed := cmd.Flags().Changed
			if err := l.check(changed); err != nil {
				return err
			}
			if err := l.target.check(changed); err != nil {
				return err
			}
			if changed("while-pid") {
				if _, err := child.Watch(l.pid); l.pid <= 0 || err != nil {
					return usagef("`--while-pid $$` in a shell script is the script itself", "--while-pid is %d: there is no such process", l.pid)
				}
			}
			l.hush()
			return l.lock(cmd.Context())
		},
	}
	flags := cmd.Flags()
	l.acquireFlags(flags)
	l.target.flags(flags)
	flags.IntVar(&l.pid, "while-pid", 0, "extend the lease for as long as the process `PID` runs, then release it")
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
	if l.pid != 0 {
		if answer.Lease, err = l.keep(answer.Lease); err != nil {
			return l.giveBack(ctx, client, answer.Lease, &failure{exitSystem, err, ""})
		}
	}
	if l.asJSON {
		err = a.answerJSON(answer)
	} else {
		err = a.answer("%s\n", answer.Lease)
	}
	if err != nil { // the caller has no text
		return l.giveBack(ctx, client, answer.Lease, err)
	}
	return nil
}

// keep starts the keeper, and returns the text of the lease that it keeps; or the one that it was
// given, and an error.
func (l *locking) keep(text string) (string, error) {
	a := l.app
	args := []string{"--prefix", a.prefix, "--ttl", l.ttl.String(), "--while-pid", strconv.Itoa(l.pid)}
	// What may be secret goes through the environment: others see the arguments.
	kept, err := child.StartKeeper(args, []string{"REDLATCH_REDIS=" + strings.Join(a.urls(), " "), leaseVariable + "=" + text})
	if err != nil {
		return text, err
	}
	return kept, nil
}

// giveBack releases the lease since the command fails with err.
func (l *locking) giveBack(ctx context.Context, client *redlatch.Client, text string, err error) error {
	if lease, e := client.Adopt(ctx, text, redlatch.LockOptions{}); e == nil {
		_ = lease.Release(ctx) // if it fails, it expires
	}
	return err
}

// leaseVariable hands the text to the keeper.
const leaseVariable = "REDLATCH_KEEP_LEASE"

// newKeeperCommand is what `redlatch lock --while-pid` leaves behind. It is not for people.
func newKeeperCommand(a *app) *cobra.Command {
	var ttl time.Duration
	var pid int
	cmd := &cobra.Command{
		Use:    child.KeeperArg,
		Short:  "Extend a lease while a process runs (started by `redlatch lock`)",
		Hidden: true,
		Args:   nothing,
		RunE:   func(cmd *cobra.Command, _ []string) error { return a.keep(cmd.Context(), ttl, pid) },
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the lock outlives a crash")
	cmd.Flags().IntVar(&pid, "while-pid", 0, "the process `PID`")
	return cmd
}

// keep is the keeper. It extends the lease until the process is gone, and then releases it; or
// until the lease is unlocked, adopted or lost.
func (a *app) keep(ctx context.Context, ttl time.Duration, pid int) error {
	if os.Getenv(leaseVariable) == "" {
		return usagef("`redlatch lock --while-pid PID NAME`", "the keeper is started by `redlatch lock`")
	}
	signal.Ignore(syscall.SIGHUP)
	watched, err := child.Watch(pid)
	if err != nil {
		child.Began("", err)
		return err
	}
	options := redlatch.LockOptions{TTL: ttl}
	client, err := a.open(ctx, redlatch.Options{
		Lock: options, RequestTimeout: min(ttl, 3*time.Second), Program: fmt.Sprintf("redlatch lock for pid %d", pid),
		Journal: a.noting(),
	})
	if err != nil {
		child.Began("", err)
		return err
	}
	defer client.Close()
	text, err := takeOver(ctx, client, os.Getenv(leaseVariable), options)
	child.Began(text, err)
	if err != nil {
		return err
	}
	pause := min(ttl/3, keeperLook)
	next := time.Now().Add(pause)
	for ; !watched.Gone(); time.Sleep(min(ttl/10, 250*time.Millisecond)) {
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(pause)
		err := client.ExtendDetached(ctx, text, options)
		switch {
		case errors.Is(err, redlatch.ErrNotHeld), errors.Is(err, redlatch.ErrWrongKind):
			return nil
		case err != nil:
			next = time.Now() // it tries again
		}
	}
	lease, err := client.Adopt(ctx, text, options)
	if err != nil {
		return nil // the lease has ended, or expires
	}
	return lease.Release(ctx)
}

// keeperLook is the longest time after which a keeper extends its lease: so it learns that the lease
// was unlocked, adopted or taken by force.
const keeperLook = time.Second

// takeOver makes a lease that of this process, so that others see it as the holder. It has no use
// for the lease itself, and so keeps it detached, under another text.
func takeOver(ctx context.Context, client *redlatch.Client, text string, o redlatch.LockOptions) (string, error) {
	lease, err := client.Adopt(ctx, text, o)
	if err != nil {
		return "", err
	}
	kept, err := lease.Detach(ctx)
	if err != nil {
		return "", errors.Join(err, lease.Release(ctx))
	}
	return kept, nil
}
