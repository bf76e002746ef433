package hold

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newElectCommand(a *app.App) *cobra.Command {
	r := &run{app: a, verb: "elect", target: target{election: true}, waits: make(chan struct{}, 1)}
	var observe bool
	cmd := app.Command("elect", func(cmd *cobra.Command, args []string) error {
		if observe {
			return observed(cmd, args)
		}
		return r.parse(args, cmd.ArgsLenAtDash())
	}, func(cmd *cobra.Command, args []string) error {
		if observe {
			a.JSON, a.Events = a.Events, false
			return a.Connect(cmd.Context(), redlatch.Options{}, func(client *redlatch.Client) error {
				return follow(cmd.Context(), a, client.Election(args[0]))
			})
		}
		return r.checked(cmd)
	})
	r.flags(cmd.Flags())
	app.Offer(cmd, "on-loss", "term", "warn")
	cmd.Flags().StringVar(&r.target.value, "value", "", "what others learn of the leader (default: host and process id)")
	cmd.Flags().BoolVar(&r.again, "again", false, "stand again after a loss, instead of exiting with 79")
	cmd.Flags().BoolVar(&observe, "observe", false, "print who leads, now and at each change")
	return cmd
}

// observed refuses arguments other than one election's name, and flags that are for candidates.
func observed(cmd *cobra.Command, args []string) error {
	const hint = "`redlatch elect --observe NAME`"
	if len(args) != 1 {
		return exit.Usagef(hint, "elect --observe needs one election name, got %d", len(args))
	}
	const candidates = "ttl wait try max-waiters label max-hold min-hold taken-exit-code grace value again on-loss quiet keep-password"
	return app.Refuse(cmd.Flags(), app.Clash("observe", candidates, "--OTHER is for a candidate, and --observe only looks", hint))
}

// leaderJSON is one line of `elect --observe --json`. Without a leader, value is "" and term is 0.
type leaderJSON struct {
	Time  time.Time `json:"time"`
	Value string    `json:"value"`
	Term  int64     `json:"term"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
}

func follow(ctx context.Context, a *app.App, e *redlatch.Election) (err error) {
	ask := func() error {
		_, err := e.Leader(ctx)
		if exit.Of(err).Code == exit.Failed {
			err = nil // there is no leader
		}
		return err
	}
	if err := ask(); err != nil {
		return err // the name is refused, or in use for something else
	}
	defer a.Watch(ask)()
	for p := range e.Observe(ctx) {
		now := time.Now()
		switch {
		case a.JSON:
			err = a.AnswerJSON(leaderJSON{now.UTC().Truncate(time.Millisecond), p.Value, p.Term, p.Process.Host, p.Process.PID})
		case p.Term == 0:
			err = a.Answer("%s  nobody\n", now.Format(time.TimeOnly))
		default:
			err = a.Answer("%s  %s  term %d  %s\n", now.Format(time.TimeOnly), fleet.Visible(cmp.Or(p.Value, "-")), p.Term, fleet.ProcessText(p.Process, ""))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
