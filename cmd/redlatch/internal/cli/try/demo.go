package try

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/redlatchtest"
)

func newDemoCommand(a *app.App) *cobra.Command {
	c := demo.Config{Duration: 10 * time.Second, Workers: 8}
	cmd := app.Command("demo", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		if len(a.Redis) > 1 {
			return exit.Usagef("give one --redis, or none", "the demo runs on one server, not on a quorum")
		}
		c.URL = strings.Join(a.Redis, "")
		return play(cmd.Context(), a, c)
	})
	cmd.Annotations = map[string]string{app.OwnServer: "the embedded server"}
	flags := cmd.Flags()
	flags.DurationVar(&c.Duration, "duration", c.Duration, "how long it runs at least")
	app.Between(flags, "duration", &c.Duration, 3*time.Second, time.Hour) // both faults need their time
	flags.IntVar(&c.Workers, "workers", c.Workers, "how many contend")
	app.Between(flags, "workers", &c.Workers, 2, 24) // a row must fit on a screen
	flags.BoolVar(&a.JSON, "json", false, "answer with one JSON object; the timeline goes to stderr")
	return cmd
}

func play(ctx context.Context, a *app.App, c demo.Config) error {
	ctx, stop := app.UntilSignal(ctx)
	defer stop()
	out, where := a.Stdout, "Redis at "+talk.Redacted(c.URL)
	if a.JSON {
		out = a.Stderr
	}
	if c.URL == "" {
		server, err := redlatchtest.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		c.URL, where = server.URL(), "the embedded server"
	}
	verdict, text, err := demo.Show(ctx, out, where, c)
	if err == nil {
		err = a.AnswerAs(verdict, text)
	}
	if err != nil || len(verdict.Broken) == 0 {
		return err
	}
	err = fmt.Errorf("not shown: %s", strings.Join(verdict.Broken, "; "))
	if verdict.EndedEarly {
		err = fmt.Errorf("ended early, so %w", err)
	}
	return exit.New(exit.Failed, err, "")
}
