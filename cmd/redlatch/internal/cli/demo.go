package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/redlatchtest"
)

// The bounds of the demo's flags: both faults need their time, and a row must fit on a screen.
const (
	minDemo    = 3 * time.Second
	maxDemo    = time.Hour
	maxWorkers = 24
)

func newDemoCommand(a *app) *cobra.Command {
	duration, workers, asJSON, scene := 10*time.Second, 8, false, "mutex"
	cmd := command("demo", nothing, func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(
			within(cmd.Flags(), "duration", duration, minDemo, maxDemo), within(cmd.Flags(), "workers", workers, 2, maxWorkers),
		); err != nil {
			return err
		}
		if scene != "mutex" && cmd.Flags().Changed("workers") {
			return usagef("", "--workers is for --scene mutex; the slots have as many as they need")
		}
		if len(a.redis) > 1 {
			return usagef("give one --redis, or none", "the demo runs on one server, not on a quorum")
		}
		return a.demo(cmd.Context(), scene, demo.Config{URL: strings.Join(a.redis, ""), Duration: duration, Workers: workers}, asJSON)
	})
	cmd.Annotations = map[string]string{ownServer: "the embedded server"}
	flags := cmd.Flags()
	flags.StringVar(&scene, "scene", scene, "mutex, slots or all")
	flags.DurationVar(&duration, "duration", duration, "how long it runs, each scene of all")
	flags.IntVar(&workers, "workers", workers, "how many contend")
	flags.BoolVar(&asJSON, "json", false, "answer with one JSON object; the timeline goes to stderr")
	return cmd
}

func (a *app) demo(ctx context.Context, name string, c demo.Config, asJSON bool) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if !slices.Contains(demo.Names(), name) {
		return usagef("mutex, slots and all are known", "there is no scene %q", name)
	}
	s := demo.Show{Out: a.stdout, Where: "Redis at " + redacted(c.URL)}
	if asJSON {
		s.Out, s.JSON = a.stderr, a.answerJSON
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
	return &failure{exitFailure, err, ""}
}

func newDevCommand(a *app) *cobra.Command {
	listen := "127.0.0.1:6379"
	cmd := command("dev", nothing, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		server, err := redlatchtest.Listen(listen)
		if err != nil {
			return &failure{exitFailure, fmt.Errorf("cannot listen on %s: %w", listen, err), "if a server runs there already, use it; or give another address with --listen"}
		}
		defer server.Close()
		if err := a.answer("%s\n", server.URL()); err != nil {
			return err
		}
		a.say("serving until INT or TERM; nothing is kept")
		if listen == "127.0.0.1:6379" {
			a.hint("try `redlatch run hello -- sleep 10` in two other terminals, and `redlatch ls` in a third")
		} else {
			a.hint("try `REDLATCH_REDIS=%s redlatch run hello -- sleep 10` in another terminal", server.URL())
		}
		<-ctx.Done()
		return nil
	})
	cmd.Annotations = map[string]string{talksToNone: "yes"}
	cmd.Flags().StringVar(&listen, "listen", listen, "`ADDRESS` to listen on; port 0 for any")
	return cmd
}
