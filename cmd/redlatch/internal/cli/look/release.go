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
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
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
		return connect(cmd.Context(), a, redlatch.Options{Program: releaser(), Journal: a.Noting()}, func(client *redlatch.Client, _ server) error {
			if how.pattern != "" {
				return releaseAll(cmd.Context(), a, client, how)
			}
			return release(cmd.Context(), a, client, args[0], how)
		})
	})
	cmd.Flags().BoolVar(&how.force, "force", false, "do it")
	cmd.Flags().StringArrayVar(&how.owners, "owner", nil, "from this `OWNER` alone, as inspect shows it; may be repeated")
	cmd.Flags().BoolVar(&how.all, "all", false, "from all who hold it")
	cmd.Flags().StringVar(&how.reason, "reason", "", "`TEXT` shown to the holder, and by inspect")
	cmd.Flags().StringVar(&how.pattern, "pattern", "", "all locks whose names match `PATTERN`, as ls has it")
	cmd.Flags().StringVar(&how.before, "before", "", "only from holders that acquired it before `TIME`, which release prints without --force")
	return cmd
}

// releasing has the flags of release.
type releasing struct {
	force, all bool
	owners     []string
	reason     string
	pattern    string
	before     string
	until      time.Time // before, parsed; zero if there is none
}

// check refuses flags that make no sense.
func (r *releasing) check(typed *pflag.FlagSet) (err error) {
	if r.before != "" {
		if r.until, err = time.Parse(time.RFC3339Nano, r.before); err != nil {
			err = exit.Usagef("2026-11-22T03:04:05.678Z is one", "--before is %q, which is no time", r.before)
		}
	}
	return cmp.Or(err, app.Refuse(typed,
		app.Clash("owner", "all", "--owner and --all contradict each other", ""),
		app.Clash("pattern", "owner all", "--pattern takes locks from all their holders: leave --owner and --all out", ""),
	))
}

// means reports whether a holder is one of those that the flags name.
func (r *releasing) means(h redlatch.Holder) bool {
	early := r.until.IsZero() || !h.Since.IsZero() && h.Since.Before(r.until)
	return early && (len(r.owners) == 0 || slices.Contains(r.owners, h.Owner))
}

// Fresh is the age below which a holder may have come after the operator looked. Tests change it.
var Fresh = 5 * time.Second

// place is a holder of an inspected lock.
type place struct {
	redlatch.LockInfo
	holder redlatch.Holder
}

func (p place) String() string { return fleet.HolderLine(p.Kind, p.holder, p.At) }

// former is String once the lock was taken from the holder.
func (p place) former() string {
	who := fleet.HolderText(p.Kind, p.holder)
	if held, ok := strings.CutPrefix(p.String(), who+" for "); ok && p.holder.Kept.IsZero() {
		return who + ", which had held it for " + held
	}
	return p.String()
}

// places returns the wanted holders of a lock. It leaves out slots at rest, which nothing opens
// early, and the window of a job whose run is still going on, which opens with the run.
func places(info redlatch.LockInfo, wanted func(redlatch.Holder) bool) (all []place) {
	runs := slices.ContainsFunc(info.Holders, func(h redlatch.Holder) bool { return !h.Resting })
	for _, h := range info.Holders {
		atRest := h.Resting && info.Kind == "slotpool" || fleet.BetweenRuns(h) && runs
		if !atRest && wanted(h) {
			all = append(all, place{info, h})
		}
	}
	return all
}

// errNothing is the error if the lock was taken from no holder.
var errNothing = errors.New("nothing was done")

func release(ctx context.Context, a *app.App, client *redlatch.Client, name string, how releasing) error {
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if info.RedisType != "" { // the key is in use for something else
		_, err := client.ForceRelease(ctx, name, redlatch.ForceOptions{}) // is refused
		return err
	}
	if len(info.Holders) == 0 && info.Doubt != nil {
		return info.Doubt
	}
	if len(info.Holders) == 0 {
		return exit.New(exit.Failed, fmt.Errorf("nobody holds %q", name), fmt.Sprintf("`%s` lists what is held", a.Again("ls")))
	}
	if anybody := func(redlatch.Holder) bool { return true }; len(places(info, anybody)) == 0 {
		rest := fleet.Span(info.Holders[0].Remaining)
		return exit.New(exit.Failed, fmt.Errorf("%q has no holder: a slot rests for another %s, and nothing can free it earlier", name, rest), "")
	}
	all, err := how.choose(info)
	if err != nil {
		return err
	}
	if !how.force {
		var who []string
		for _, p := range all {
			who = append(who, p.String())
		}
		return exit.Usagef(how.commands(a, all), "%q is %s%s%s", name, fleet.Grip(all[0].holder), strings.Join(who, ", "), mayRun(all, ": its work may still run"))
	}
	if err = take(ctx, a, client, how, all); err == nil && how.all {
		err = info.Doubt // there may be more
	}
	return err
}

// take takes locks from holders that were inspected, and fails if it took none. It spares a holder
// that came after the inspection.
func take(ctx context.Context, a *app.App, client *redlatch.Client, how releasing, all []place) error {
	if err := confirm(a, how, all); err != nil {
		return err
	}
	taken := 0
	for _, p := range all {
		_, err := client.ForceRelease(ctx, p.Name, redlatch.ForceOptions{Owner: p.holder.Owner, Reason: how.reason})
		if errors.Is(err, redlatch.ErrNotHeld) {
			a.Say("%s released %q itself just now", fleet.HolderText(p.Kind, p.holder), p.Name)
			continue
		}
		if err == nil {
			err = a.Answer("took %q from %s\n", p.Name, p.former())
		}
		if err != nil {
			return err
		}
		taken++
	}
	if taken == 0 {
		return exit.New(exit.Failed, errNothing, "")
	}
	return nil
}

// releaseAll takes the locks that match, or says which it would take.
func releaseAll(ctx context.Context, a *app.App, client *redlatch.Client, how releasing) error {
	mute := warnOfVotes(ctx, a, client, "")
	locks, doubt := collect(ctx, a, client, how.pattern)
	if len(locks) == 0 && doubt != nil {
		return doubt
	}
	if doubt != nil && !how.force {
		a.Say("%s", talk.Text(doubt))
	}
	var all []place
	for _, info := range locks {
		if info.Doubt != nil {
			doubt = cmp.Or(doubt, info.Doubt)
			a.Say("%q may have another holder: too few nodes answered to say", info.Name)
		}
		all = append(all, places(info, how.means)...)
	}
	switch {
	case len(all) == 0 && doubt != nil:
		return doubt
	case len(all) == 0 && len(mute) > 0:
		return exit.New(exit.Unreachable, fmt.Errorf("no lock%s is known to be held", where(how.pattern, a.Prefix)), "")
	case len(all) == 0 && how.before != "":
		return exit.New(exit.Failed, fmt.Errorf("no lock%s has been held since before %s", where(how.pattern, a.Prefix), how.before), "")
	case len(all) == 0:
		return exit.New(exit.Failed, fmt.Errorf("no lock%s is held", where(how.pattern, a.Prefix)), "")
	case how.force:
		return cmp.Or(take(ctx, a, client, how, all), doubt)
	}
	return how.propose(a, all)
}

// propose says what would be taken, and returns an error with the commands that do it.
func (r releasing) propose(a *app.App, all []place) error {
	for _, p := range all {
		if err := a.Answer("would take %q from %s\n", p.Name, p); err != nil {
			return err
		}
	}
	return exit.Usagef(r.commands(a, all), "nothing was done%s (%d)", mayRun(all, ", and the work under them may still run"), len(all))
}

// commands returns the command lines that take locks from these holders. They spare every holder
// that comes later, so they can be repeated.
func (r releasing) commands(a *app.App, all []place) string {
	if r.pattern == "" {
		return r.again(a, all)
	}
	var lines []string
	var looked time.Time // the earliest time at which a lock was inspected
	for _, p := range all {
		switch {
		case p.holder.Since.IsZero(): // --before would leave it out: it may have come later
			lines = append(lines, r.again(a, []place{p}))
		case looked.IsZero() || p.At.Before(looked):
			looked = p.At
		}
	}
	if !looked.IsZero() {
		args := []string{"release", "--pattern", r.pattern, "--before", looked.UTC().Format(time.RFC3339Nano), "--force"}
		lines = append(lines, "`"+a.Again(r.because(args)...)+"`")
	}
	return strings.Join(lines, ", ")
}

// mayRun returns text, or "" if none of these holders is at work.
func mayRun(all []place, text string) string {
	if slices.ContainsFunc(all, func(p place) bool { return !p.holder.Resting && p.holder.Kept.IsZero() }) {
		return text
	}
	return ""
}

// because appends the reason to the arguments.
func (r releasing) because(args []string) []string {
	if r.reason == "" {
		return args
	}
	return append(args, "--reason", r.reason)
}

// again returns the command line that takes one lock from these holders. It names each of them.
func (r releasing) again(a *app.App, all []place) string {
	args := []string{"release", "--force"}
	for _, p := range all {
		args = append(args, fleet.Only(p.holder)...)
	}
	return "`" + a.AgainOn(all[0].Name, r.because(args)...) + "`"
}

// releaser returns the program name that the holder is told of when its lock is taken.
func releaser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "redlatch release by " + u.Username
	}
	return "redlatch release"
}

// confirm asks before a lock is taken from a holder that the operator may not have meant: a holder
// that came only just now, perhaps after an earlier run of the same command. If no human is there
// to answer, confirm refuses.
func confirm(a *app.App, how releasing, all []place) error {
	i := slices.IndexFunc(all, func(p place) bool {
		return !p.holder.Resting && (p.holder.Since.IsZero() || p.At.Sub(p.holder.Since) < Fresh)
	})
	if len(how.owners) > 0 || how.before != "" || i < 0 {
		return nil
	}
	when := "at an unknown time"
	if since := all[i].holder.Since; !since.IsZero() {
		when = fleet.Recently(all[i].At.Sub(since))
	}
	what := fmt.Sprintf("%q is %s%s, which acquired it %s, so it may not be the holder you meant", all[i].Name, fleet.Grip(all[i].holder), all[i], when)
	if !terminal.Is(a.Stdin) || !terminal.Is(a.Stderr) {
		return exit.Usagef(how.commands(a, all), "%s", what)
	}
	those := "it"
	if len(all) > 1 {
		those = fmt.Sprintf("all %d", len(all))
	}
	fmt.Fprintf(a.Stderr, "redlatch: %s; take %s? [y/N] ", what, those)
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil { // the user did not end the line
		fmt.Fprintln(a.Stderr)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return exit.New(exit.Failed, errNothing, "")
}

// choose returns the holders to take the lock from. If there are several, the flags must say which.
func (r releasing) choose(info redlatch.LockInfo) ([]place, error) {
	all := places(info, r.means)
	switch {
	case len(all) == 0 && info.Doubt != nil:
		return nil, info.Doubt
	case len(all) == 0 && r.before != "":
		return nil, exit.New(exit.Failed, fmt.Errorf("%q is not held since before %s: %s", info.Name, r.before, report.Summary(info)), "")
	case len(all) == 0:
		return nil, exit.New(exit.Failed, fmt.Errorf("%q is not held by %q: %s", info.Name, strings.Join(r.owners, ", "), report.Summary(info)), "")
	case len(all) > 1 && len(r.owners) == 0 && !r.all:
		return nil, exit.Usagef("give --owner OWNER, as `redlatch inspect` shows it, or --all", "%q has %d holders", info.Name, len(all))
	}
	return all, nil
}
