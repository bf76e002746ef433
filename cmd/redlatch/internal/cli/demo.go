package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os/signal"
	"slices"
	"strings"
	"syscall"
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
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	scenes, err := choose(name)
	if err != nil {
		return err
	}
	where := "Redis at " + safeURL(c.URL)
	if c.URL == "" {
		server, err := redlatchtest.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		c.URL, where = server.URL(), "the embedded server"
	}
	s := &show{app: a, out: a.stdout, where: where, asJSON: asJSON}
	if asJSON {
		s.out = a.stderr
	}
	var broken []string
	if name == "mutex" || name == "all" {
		if broken, err = s.mutex(ctx, c); err != nil {
			return err
		}
	}
	for _, scene := range scenes {
		more, err := s.scene(ctx, scene, c)
		if err != nil {
			return err
		}
		broken = append(broken, more...)
	}
	if len(broken) == 0 {
		return nil
	}
	err = fmt.Errorf("not shown: %s", strings.Join(broken, "; "))
	if ctx.Err() != nil {
		err = fmt.Errorf("ended early, so %w", err)
	}
	return &failure{exitFailure, err, ""}
}

// choose is the scenes of that name, beside the mutex.
func choose(name string) ([]demo.Scene, error) {
	all := demo.Scenes()
	for _, scene := range all {
		if scene.Name == name {
			return []demo.Scene{scene}, nil
		}
	}
	switch name {
	case "mutex":
		return nil, nil
	case "all":
		return all, nil
	}
	return nil, usagef("mutex, slots and all are known", "there is no scene %q", name)
}

// show prints scenes.
type show struct {
	*app
	out    io.Writer // the timeline
	where  string
	asJSON bool
}

// mutex shows the main scene, and returns the promises that were not kept.
func (s *show) mutex(ctx context.Context, c demo.Config) ([]string, error) {
	line := newTimeline(s.out, c.Workers, c.Duration)
	fmt.Fprintln(s.out, line.fold(0, fmt.Sprintf("%d workers contend for one lock on %s, for %v; a lease lasts %v",
		c.Workers, s.where, c.Duration, demo.TTL(c.Duration))))
	c.Tell = line.tell
	stop := line.start()
	verdict, err := demo.Run(ctx, c)
	stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(s.out)
	for row := range strings.Lines(verdictText(verdict, demo.TTL(c.Duration))) {
		fmt.Fprint(s.out, line.fold(25, strings.TrimSuffix(row, "\n")))
	}
	if s.asJSON {
		err = s.answerJSON(verdict)
	}
	return verdict.Broken, err
}

// scene shows another one.
func (s *show) scene(ctx context.Context, scene demo.Scene, c demo.Config) ([]string, error) {
	line := newTimeline(s.out, scene.Workers, c.Duration)
	fmt.Fprintln(s.out, "\n"+line.fold(0, fmt.Sprintf("%s: %s; on %s, for %v", scene.Name, scene.About, s.where, c.Duration)))
	c.Tell = line.tell
	stop := line.start()
	report, err := scene.Play(ctx, c)
	stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(s.out)
	for _, what := range slices.Sorted(maps.Keys(report.Counts)) {
		fmt.Fprintf(s.out, "  %-22s %d\n", strings.ReplaceAll(what, "_", " "), report.Counts[what])
	}
	for _, promise := range report.Kept {
		fmt.Fprint(s.out, line.fold(25, fmt.Sprintf("  %-22s %s", "kept", promise)))
	}
	for _, promise := range report.Broken {
		fmt.Fprint(s.out, line.fold(25, fmt.Sprintf("  %-22s %s", "BROKEN", promise)))
	}
	if s.asJSON {
		err = s.answerJSON(report)
	}
	return report.Broken, err
}

// safeURL is a URL without its password.
func safeURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the given URL"
	}
	return u.Redacted()
}

// verdictText is the verdict for people.
func verdictText(v demo.Verdict, ttl time.Duration) string {
	monotonic := "strictly increasing"
	if !v.TokensMonotonic {
		monotonic = "NOT increasing"
	}
	takeover := "none was needed"
	if v.TakeoverMS > 0 {
		takeover = fmt.Sprintf("%dms after the crash; its lease lasted %v", v.TakeoverMS, ttl)
	}
	row := func(what, format string, args ...any) string {
		return fmt.Sprintf("  %-22s %s\n", what, fmt.Sprintf(format, args...))
	}
	return row("acquisitions", "%d", v.Acquisitions) +
		row("overlaps", "%d: how often two workers held the lock at once", v.Overlaps) +
		row("fencing tokens", "%s", monotonic) +
		row("stale writes refused", "%d: a worker that woke up too late could do no harm", v.StaleWritesRefused) +
		row("taken over", "%s", takeover) +
		row("turns per worker", "%d to %d: first come, first served", v.MinPerWorker, v.MaxPerWorker)
}
