package look

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newReleaseCommand(a *app.App) *cobra.Command {
	var how releasing
	cmd := app.Command("release", func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("pattern") {
			return app.OneName(cmd, args)
		} else if len(args) > 0 {
			return exit.Usagef(app.HintQuote, "release --pattern takes no names, got %q", args[0])
		}
		return app.KnownPattern(how.pattern)
	}, func(cmd *cobra.Command, args []string) error {
		if err := how.check(cmd.Flags()); err != nil {
			return err
		}
		return a.Connect(cmd.Context(), redlatch.Options{Program: releaser(), Journal: a.Noting()}, func(client *redlatch.Client) error {
			if how.pattern != "" {
				return releaseAll(cmd.Context(), a, client, how)
			}
			return release(cmd.Context(), a, client, args[0], how)
		})
	})
	cmd.Flags().BoolVar(&how.force, "force", false, "do it")
	cmd.Flags().StringArrayVar(&how.owners, "owner", nil, "from this `OWNER` alone, as inspect shows it; may be repeated")
	cmd.Flags().BoolVar(&how.all, "all", false, "from all who hold it")
	cmd.Flags().StringVar(&how.reason, "reason", "", "`TEXT` for the holder and for who inspects the lock")
	cmd.Flags().StringVar(&how.pattern, "pattern", "", "all locks whose names match `PATTERN`, as ls has it")
	cmd.Flags().StringVar(&how.before, "before", "", "with --pattern: only from holders since before `TIME`, as the look without --force prints it")
	return cmd
}

// releasing is what the flags say.
type releasing struct {
	force, all bool
	owners     []string
	reason     string
	pattern    string
	before     string
	until      time.Time // what before says; zero for now
}

// check refuses flags that make no sense.
func (r *releasing) check(typed *pflag.FlagSet) (err error) {
	if r.before != "" {
		if r.until, err = time.Parse(time.RFC3339Nano, r.before); err != nil {
			err = exit.Usagef("2026-11-22T03:04:05.678Z is one", "--before is %q, which is no time", r.before)
		}
	}
	return cmp.Or(app.Lacks(typed, "pattern", "before"), err, app.Refuse(typed,
		app.Clash("owner", "all", "--owner and --all contradict each other", ""),
		app.Clash("pattern", "owner all", "--pattern takes locks from all their holders: leave --owner and --all out", ""),
	))
}

// Fresh is the age up to which a holder may have come after the operator looked. Tests change it.
var Fresh = 5 * time.Second

func release(ctx context.Context, a *app.App, client *redlatch.Client, name string, how releasing) error {
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if info.RedisType != "" { // the key is in use for something else
		_, err := client.ForceRelease(ctx, name, redlatch.ForceOptions{}) // which refuses it
		return err
	}
	if len(info.Holders) == 0 {
		return exit.New(exit.Failed, fmt.Errorf("nobody holds %q", name), fmt.Sprintf("`%s` lists what is held", a.Again("ls")))
	}
	holders, err := how.choose(info)
	if err != nil {
		return err
	}
	resting := func(h redlatch.Holder) bool { return h.Resting && info.Kind == "slotpool" }
	if i := slices.IndexFunc(holders, resting); i >= 0 {
		rest := holders[i].Remaining
		if holders = slices.DeleteFunc(slices.Clone(holders), resting); len(holders) == 0 {
			return exit.New(exit.Failed, fmt.Errorf("nobody holds %q: a slot is at rest for another %s, and nothing opens it before", name, fleet.Span(rest)), "")
		}
	}
	if !how.force {
		var all []string
		for _, h := range holders {
			all = append(all, fleet.HolderLine(info.Kind, h, info.At))
		}
		return exit.Usagef(how.again(a, name, holders), "%q is held by %s: its work may still run", name, strings.Join(all, ", "))
	}
	if err := confirm(a, how, info, holders); err != nil {
		return err
	}
	taken := 0
	for _, h := range holders {
		err := take(ctx, a, client, info, h, how.reason)
		switch {
		case err == nil:
			taken++
		case !errors.Is(err, redlatch.ErrNotHeld):
			return err
		case len(holders) > 1:
			a.Say("%s released %q by itself in this moment", fleet.HolderText(info.Kind, h), name)
		}
	}
	if taken == 0 {
		return exit.New(exit.Failed, fmt.Errorf("%s released %q by itself in this moment: nothing was done", fleet.HolderText(info.Kind, holders[0]), name), "")
	}
	return nil
}

// take takes a lock from a holder that was looked at: one that comes after it in this moment is not
// meant.
func take(ctx context.Context, a *app.App, client *redlatch.Client, info redlatch.LockInfo, h redlatch.Holder, reason string) error {
	if _, err := client.ForceRelease(ctx, info.Name, redlatch.ForceOptions{Owner: h.Owner, Reason: reason}); err != nil {
		return err
	}
	return a.Answer("took %q from %s\n", info.Name, fleet.HolderLine(info.Kind, h, info.At))
}

// releaseAll takes the locks that match, or says which it would take.
func releaseAll(ctx context.Context, a *app.App, client *redlatch.Client, how releasing) error {
	locks, err := collect(ctx, a, client, how.pattern)
	if err != nil {
		return err
	}
	total := 0
	var byOwner []string // commands for holders of which it is not known since when they hold
	var looked time.Time // the earliest moment at which a lock was looked at
	for _, info := range locks {
		for _, h := range info.Holders {
			if !how.until.IsZero() && (h.Since.IsZero() || !h.Since.Before(how.until)) {
				continue
			}
			total++
			switch {
			case how.force:
				err = take(ctx, a, client, info, h, how.reason)
			case h.Since.IsZero(): // --before would leave it out: it may have come after the look
				one := []string{"release", "--owner", h.Owner, "--force"}
				byOwner = append(byOwner, "`"+a.AgainOn(info.Name, how.because(one)...)+"`")
			case looked.IsZero() || info.At.Before(looked):
				looked = info.At
			}
			if !how.force {
				err = a.Answer("would take %q from %s\n", info.Name, fleet.HolderLine(info.Kind, h, info.At))
			}
			if errors.Is(err, redlatch.ErrNotHeld) {
				a.Say("%s released %q by itself in this moment", fleet.HolderText(info.Kind, h), info.Name)
			} else if err != nil {
				return err
			}
		}
	}
	switch {
	case total == 0 && how.before != "":
		return exit.New(exit.Failed, fmt.Errorf("no lock%s is held since before %s", where(how.pattern, a.Prefix), how.before), "")
	case total == 0:
		return exit.New(exit.Failed, fmt.Errorf("no lock%s is held", where(how.pattern, a.Prefix)), "")
	case !how.force:
		if !looked.IsZero() {
			again := []string{"release", "--pattern", how.pattern, "--before", looked.UTC().Format(time.RFC3339Nano), "--force"}
			byOwner = append(byOwner, "`"+a.Again(how.because(again)...)+"`")
		}
		return exit.Usagef(strings.Join(byOwner, ", "), "nothing was done, and the work under them may still run (%d)", total)
	}
	return nil
}

// because adds the reason to arguments.
func (r releasing) because(args []string) []string {
	if r.reason == "" {
		return args
	}
	return append(args, "--reason", r.reason)
}

// releaser is what the holder is told as the program that took its lock.
func releaser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "redlatch release by " + u.Username
	}
	return "redlatch release"
}

// confirm asks before it takes a lock from a holder that the operator may not have meant: it came
// only just now, perhaps after the same command had done what it should. Where no human is there to
// answer, confirm refuses.
func confirm(a *app.App, how releasing, info redlatch.LockInfo, holders []redlatch.Holder) error {
	i := slices.IndexFunc(holders, func(h redlatch.Holder) bool {
		return !h.Resting && (h.Since.IsZero() || info.At.Sub(h.Since) < Fresh)
	})
	if len(how.owners) > 0 || i < 0 {
		return nil
	}
	what := fmt.Sprintf("%q is held by %s, which may not be the holder that you mean", info.Name, fleet.HolderLine(info.Kind, holders[i], info.At))
	if !terminal.Is(a.Stdin) || !terminal.Is(a.Stderr) {
		return exit.Usagef(how.again(a, info.Name, holders), "%s", what)
	}
	fmt.Fprintf(a.Stderr, "redlatch: %s; take it? [y/N] ", what)
	answer, _ := bufio.NewReader(a.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return exit.New(exit.Failed, errors.New("nothing was done"), "")
}

// again is the command line that does it. It names the owners, so that it can be repeated.
func (r releasing) again(a *app.App, name string, holders []redlatch.Holder) string {
	args := []string{"release", "--force"}
	for _, h := range holders {
		args = append(args, "--owner", h.Owner)
	}
	return "`" + a.AgainOn(name, r.because(args)...) + "`"
}

// choose is whom to take the lock from. Of several it wants to be told which.
func (r releasing) choose(info redlatch.LockInfo) ([]redlatch.Holder, error) {
	if len(r.owners) > 0 {
		chosen := slices.DeleteFunc(slices.Clone(info.Holders), func(h redlatch.Holder) bool {
			return !slices.Contains(r.owners, h.Owner)
		})
		if len(chosen) == 0 {
			return nil, exit.New(exit.Failed, fmt.Errorf("%q is not held by %q: %s", info.Name, strings.Join(r.owners, ", "), report.Summary(info)), "")
		}
		return chosen, nil
	}
	if len(info.Holders) > 1 && !r.all {
		return nil, exit.Usagef("give --owner OWNER, as `redlatch inspect` shows it, or --all", "%q has %d holders", info.Name, len(info.Holders))
	}
	return info.Holders, nil
}
