package try

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/redlatchtest"
)

// The bounds of the demo's flags: both faults need their time, and a row must fit on a screen.
const (
	minDemo    = 3 * time.Second
	maxDemo    = time.Hour
	maxWorkers = 24
)

func newDemoCommand(a *app.App) *cobra.Command {
	duration, workers, scene := 10*time.Second, 8, "mutex"
	cmd := app.Command("demo", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(
			app.Within(cmd.Flags(), "duration", duration, minDemo, maxDemo), app.Within(cmd.Flags(), "workers", workers, 2, maxWorkers),
		); err != nil {
			return err
		}
		if scene != "mutex" && cmd.Flags().Changed("workers") {
			return exit.Usagef("", "--workers is for --scene mutex; the slots have as many as they need")
		}
		if len(a.Redis) > 1 {
			return exit.Usagef("give one --redis, or none", "the demo runs on one server, not on a quorum")
		}
		c := demo.Config{URL: strings.Join(a.Redis, ""), Duration: duration, Workers: workers}
		return play(cmd.Context(), a, scene, c)
	})
	cmd.Annotations = map[string]string{app.OwnServer: "the embedded server"}
	flags := cmd.Flags()
	flags.StringVar(&scene, "scene", scene, "mutex, slots or all")
	flags.DurationVar(&duration, "duration", duration, "how long it runs at least, each scene of all")
	flags.IntVar(&workers, "workers", workers, "how many contend")
	flags.BoolVar(&a.JSON, "json", false, "answer with one JSON object; the timeline goes to stderr")
	return cmd
}

func play(ctx context.Context, a *app.App, name string, c demo.Config) error {
	ctx, stop := app.UntilSignal(ctx)
	defer stop()
	if !slices.Contains(demo.Names, name) {
		return exit.Usagef("mutex, slots and all are known", "there is no scene %q", name)
	}
	s := demo.Show{Out: a.Stdout, Where: "Redis at " + talk.Redacted(c.URL)}
	if a.JSON {
		s.Out, s.JSON = a.Stderr, a.AnswerJSON
	}
	if c.URL == "" {
		server, err := redlatchtest.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		c.URL, s.Where = server.URL(), "the embedded server"
	}
	broken, err := s.Play(ctx, name, c)
	if err != nil || len(broken) == 0 {
		return err
	}
	err = fmt.Errorf("not shown: %s", strings.Join(broken, "; "))
	if ctx.Err() != nil {
		err = fmt.Errorf("ended early, so %w", err)
	}
	return exit.New(exit.Failed, err, "")
}
