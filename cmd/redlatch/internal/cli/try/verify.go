package try

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/verify"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

type verifyFlags struct {
	o       verify.Options
	yes     bool
	recheck string
}

func newVerifyCommand(a *app.App) *cobra.Command {
	var f verifyFlags
	f.o.Plan = verify.Plan{Deployment: "one", Duration: time.Minute, Workers: 4}
	f.o.TTL = time.Second
	cmd := app.Command("verify", app.Nothing, func(cmd *cobra.Command, _ []string) error { return putToTest(a, cmd, f) })
	cmd.Annotations = map[string]string{app.OwnServer: "REDLATCH_VERIFY_REDIS, or servers of its own"}
	flags := cmd.Flags()
	flags.StringVar(&f.o.Deployment, "deployment", f.o.Deployment, "servers to start without --redis: "+strings.Join(servers.Kinds, ", "))
	flags.DurationVar(&f.o.Duration, "duration", f.o.Duration, "how long it works, with a quiet part of some 8 TTLs at its end")
	app.Between(flags, "duration", &f.o.Duration, 15*time.Second, 24*time.Hour)
	flags.IntVar(&f.o.Workers, "workers", f.o.Workers, "how many processes take turns")
	app.Between(flags, "workers", &f.o.Workers, 2, 32)
	kinds := verify.Kinds(false)
	flags.StringSliceVar(&f.o.Kinds, "kinds", nil, "kinds of locks (default all): "+strings.Join(kinds, ", "))
	mild, rough := faultNames()
	flags.StringSliceVar(&f.o.Faults, "faults", nil, "faults (default all that are possible): "+strings.Join(mild, ", ")+"; with --disrupt also "+strings.Join(rough, ", "))
	flags.BoolVar(&f.o.Disrupt, "disrupt", false, "also faults that hit other users; needs --yes")
	flags.BoolVar(&f.yes, "yes", false, "say that --disrupt is meant")
	flags.DurationVar(&f.o.TTL, "ttl", f.o.TTL, "of the leases; the faults last up to one and a half of it")
	app.Between(flags, "ttl", &f.o.TTL, 500*time.Millisecond, time.Minute)
	flags.IntVar(&f.o.Rate, "rate", f.o.Rate, "acquisitions a second at most; 0 for no limit (default 500 with --redis, else no limit)")
	app.AtLeast(flags, "rate", &f.o.Rate, 0)
	flags.StringVar(&f.o.Out, "out", "", "`directory` for the records: empty or not there")
	flags.StringVar(&f.recheck, "recheck", "", "judge the records in this `directory` again")
	flags.BoolVar(&a.JSON, "json", false, "answer with one JSON object, the report")
	app.Offer(cmd, "deployment", servers.Kinds...)
	app.Offer(cmd, "kinds", kinds...)
	app.Offer(cmd, "faults", append(mild, rough...)...)
	return cmd
}

// faultNames returns the names of the faults: those that need no --disrupt, and those that do.
func faultNames() (mild, rough []string) {
	names := make(map[bool][]string)
	for _, f := range verify.Faults() {
		names[f.Disrupt] = append(names[f.Disrupt], f.Name)
	}
	return names[false], names[true]
}

// check refuses flags that make no sense.
func (f verifyFlags) check(given []string) error {
	o := f.o
	switch {
	case o.Duration < 14*o.TTL:
		return exit.Usagef("", "--duration is %v: with a --ttl of %v it must be %v at least", o.Duration, o.TTL, 14*o.TTL)
	case !slices.Contains(servers.Kinds, o.Deployment):
		return exit.Usagef(strings.Join(servers.Kinds, ", ")+" are known", "there is no deployment %q", o.Deployment)
	case o.Disrupt && !f.yes:
		return exit.Usagef("add --yes if that is meant", "--disrupt affects every client of the servers")
	case len(given) == 2:
		return exit.Usagef("give one --redis, or three or more", "a quorum of two servers survives the loss of none")
	}
	return nil
}

func putToTest(a *app.App, cmd *cobra.Command, f verifyFlags) error {
	if len(a.Redis) == 0 {
		a.From = "REDLATCH_VERIFY_REDIS"
		a.Redis = strings.Fields(os.Getenv(a.From))
	}
	given := a.Redis
	for _, flag := range []string{"recheck", "out"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return exit.Usagef("is a variable of the script empty?", "--%s needs a directory, and got an empty name", flag)
		}
	}
	if f.recheck != "" {
		report, err := verify.Judge(f.recheck)
		if err != nil {
			return exit.Usagef("give a directory that `redlatch verify --out` wrote", "the records in %s cannot be judged: %w", f.recheck, err)
		}
		report.Dir = f.recheck
		return verdict(a, report)
	}
	if err := f.check(given); err != nil {
		return err
	}
	if len(given) > 0 && cmd.Flags().Changed("deployment") {
		return exit.Usagef("leave --deployment out", "--deployment is for servers of its own, and --redis names others")
	}
	if len(given) > 0 && !cmd.Flags().Changed("rate") {
		f.o.Rate = 500
	}
	f.o.URLs, f.o.Prefix, f.o.Version = given, a.Prefix, a.Version
	ctx, stop := app.UntilSignal(cmd.Context())
	defer stop()
	line := &liveLine{out: a.Stderr, terminal: terminal.Is(a.Stderr)}
	f.o.Planned, f.o.Tell = func(p verify.Plan) { fmt.Fprint(a.Stderr, verify.PlanText(p)) }, line.tell
	report, err := verify.Run(ctx, f.o)
	line.end()
	switch {
	case errors.Is(err, servers.ErrNone):
		return exit.New(exit.System, err, "install it (apt-get install redis-server), name it with "+servers.Program+", or give a server with --redis URL")
	case errors.Is(err, context.Canceled):
		return verdict(a, verify.Report{Verdict: verify.Unknown, Reasons: []string{"it was ended before it began"}})
	case err != nil:
		return err
	}
	return verdict(a, report)
}

// verdict prints the report of a run, and returns how the program ends.
func verdict(a *app.App, r verify.Report) error {
	switch err := a.AnswerAs(r, verify.Text(r)); {
	case err != nil:
		return err
	case r.Verdict == verify.Fail:
		return exit.Silent(exit.Failed)
	case r.Verdict == verify.Unknown:
		return exit.Silent(exit.Unknown)
	}
	return nil
}

// liveLine shows the progress of a run: in a terminal as one line, else as a line per ten seconds.
type liveLine struct {
	out      io.Writer
	terminal bool
	last     time.Duration
	begun    bool
}

// tell shows one report. Only one goroutine calls it.
func (l *liveLine) tell(p verify.Progress) {
	if !l.terminal && p.Elapsed-l.last < 10*time.Second {
		return
	}
	l.last, l.begun = p.Elapsed, true
	text := fmt.Sprintf("%6.1fs  %d acquired  %d handed over  %d lost  %d late writes kept out  %d faults",
		p.Elapsed.Seconds(), p.Acquired, p.HandOvers, p.Lost, p.Stale, p.Faults)
	if p.Now != "" {
		text += ": " + p.Now
	}
	if l.terminal {
		fmt.Fprintf(l.out, "\r\x1b[K%s", text)
		return
	}
	fmt.Fprintln(l.out, text)
}

// end ends the line in a terminal.
func (l *liveLine) end() {
	if l.terminal && l.begun {
		fmt.Fprintln(l.out)
	}
}
