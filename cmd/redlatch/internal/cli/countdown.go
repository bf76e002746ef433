package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const countdownHelp = `Set the countdown NAME, count it down, or wait until it is zero: a step that may begin when n others are done.

Without a flag, the count is printed. With --done it is counted down by one, and the count after that is printed; at zero the
waiters go on. Give --as a name for what is done, such as the host: of all calls with that name one counts, so the step may be
repeated. Without it, a call that fails with 69 may have counted.

--set is refused while the count is above zero. The count is forgotten when it has neither been set nor counted down for --expiry,
and then --wait fails. It waits for no count to be set either: set it before the steps begin.

Exit codes:
    0  done; with --wait: the count is zero
    1  no count is set: not yet, or it has expired, was deleted or the server lost it
   64  a flag, an argument or a name makes no sense
   65  the name is in use for a lock, or for something else
   69  Redis did not answer, or refused to
   75  --set: the count is above zero; --wait: --timeout has passed`

const countdownExamples = `  redlatch countdown import --set 3
  ./import-part.sh 1 && redlatch countdown import --done --as part-1      on each of three hosts
  redlatch countdown import --wait --timeout 2h && ./publish.sh
  redlatch countdown import`

// counting is what the flags of countdown say.
type counting struct {
	set     int64
	expiry  time.Duration
	done    bool
	as      string
	wait    bool
	timeout time.Duration
	delete  bool
}

func newCountdownCommand(a *app) *cobra.Command {
	var c counting
	cmd := &cobra.Command{
		Use:     "countdown [flags] NAME",
		Short:   "Wait until n steps are done",
		Long:    countdownHelp,
		Example: countdownExamples,
		Args:    oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return a.countdown(cmd.Context(), args[0], c, cmd.Flags().Changed("set"))
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&c.set, "set", 0, "set the count to `N`")
	flags.DurationVar(&c.expiry, "expiry", 24*time.Hour, "with --set: forget the count so long after its last change")
	flags.BoolVar(&c.done, "done", false, "count down by one")
	flags.StringVar(&c.as, "as", "", "with --done: what is done, which counts once")
	flags.BoolVar(&c.wait, "wait", false, "wait until the count is zero")
	flags.DurationVar(&c.timeout, "timeout", 0, "with --wait: wait no longer than that (default: for ever)")
	flags.BoolVar(&c.delete, "delete", false, "delete the count, which its waiters learn")
	return cmd
}

// check refuses flags that make no sense together.
func (c *counting) check(changed func(flag string) bool) error {
	asked := 0
	for _, flag := range []string{"set", "done", "wait", "delete"} {
		if changed(flag) {
			asked++
		}
	}
	switch {
	case asked > 1:
		return usagef("call it once for each", "countdown takes one of --set, --done, --wait and --delete, got %d", asked)
	case changed("expiry") && !changed("set"):
		return usagef("", "--expiry goes with --set")
	case changed("as") && !c.done:
		return usagef("", "--as goes with --done")
	case changed("timeout") && !c.wait:
		return usagef("", "--timeout goes with --wait")
	case changed("timeout") && c.timeout <= 0:
		return usagef("", "--timeout is %v: give a time", c.timeout)
	}
	return nil
}

func (a *app) countdown(ctx context.Context, name string, c counting, set bool) error {
	client, err := a.open(ctx, redlatch.Options{Program: "redlatch countdown"})
	if err != nil {
		return err
	}
	defer client.Close()
	latch := client.CountDownLatch(name)
	var left int64
	switch {
	case set:
		ok, err := latch.TrySetCount(ctx, c.set, c.expiry)
		if err == nil && !ok {
			err = &failure{
				exitTaken, fmt.Errorf("the count of %q is above zero, and stays as it is", name),
				fmt.Sprintf("`%s` shows it, and --delete deletes it", a.again("countdown", name)),
			}
		}
		return err
	case c.wait:
		return a.awaitCount(ctx, latch, c.timeout)
	case c.delete:
		return latch.Delete(ctx)
	case c.done && c.as != "":
		left, err = latch.CountDownOnce(ctx, c.as)
	case c.done:
		left, err = latch.CountDown(ctx)
	default:
		left, err = latch.Count(ctx)
	}
	if err != nil {
		return err
	}
	return a.answer("%d\n", left)
}

// awaitCount waits until a count is zero, the time has passed, or the program is to end.
func (a *app) awaitCount(ctx context.Context, latch *redlatch.CountDownLatch, timeout time.Duration) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	over := make(chan error, 1)
	go func() { over <- latch.Await(ctx) }()
	select {
	case err := <-over:
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			return &failure{exitTaken, err, ""}
		}
		return err
	case sig := <-signals:
		cancel()
		<-over // its place in line is given up when the client closes
		number, _ := sig.(syscall.Signal)
		return &failure{128 + int(number), nil, ""}
	}
}
