package cli

import (
	"context"
	"fmt"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/redlatchtest"
)

const demoHelp = `Watch locks at work.

Workers, each with a client of its own, contend for one lock. Whoever holds it adds one to a counter that checks fencing tokens.
One worker crashes while it holds the lock, and one stalls for longer than its lease and then tries to write.

Without --redis everything runs inside this process, on the embedded server. With it, the demo uses a prefix of its own on that
server, and leaves one key behind that expires within an hour.

The exit code is 0 if every promise was kept: nobody held the lock together with another, tokens strictly increased, the lock of the
crashed worker was taken over, the late write was refused, and every worker had its turn.`

// The bounds of the demo's flags: both faults need their time, and a row must fit on a screen.
const (
	minDemo    = 3 * time.Second
	maxDemo    = time.Hour
	maxWorkers = 24
)

func newDemoCommand(a *app) *cobra.Command {
	duration, workers, asJSON := 10*time.Second, 8, false
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Watch locks at work, with nothing to install",
		Long:    demoHelp,
		Example: "  redlatch demo\n  redlatch demo --duration 5s --workers 4\n  redlatch demo --redis redis://127.0.0.1:6379 --json",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if duration < minDemo || duration > maxDemo {
				return usagef("", "--duration is %v: it must be between %v and %v", duration, minDemo, maxDemo)
			}
			if workers < 2 || workers > maxWorkers {
				return usagef("", "--workers is %d: it must be between 2 and %d", workers, maxWorkers)
			}
			return a.demo(cmd.Context(), demo.Config{URL: a.redis, Duration: duration, Workers: workers}, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&duration, "duration", duration, "how long it runs")
	flags.IntVar(&workers, "workers", workers, "how many contend")
	flags.BoolVar(&asJSON, "json", false, "answer with one JSON object; the timeline goes to stderr")
	return cmd
}

func (a *app) demo(ctx context.Context, c demo.Config, asJSON bool) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	where := "Redis at " + safeURL(c.URL)
	if c.URL == "" {
		server, err := redlatchtest.Listen("127.0.0.1:0")
		if err != nil {
			return err
		}
		defer server.Close()
		c.URL, where = server.URL(), "the embedded server"
	}
	out := a.stdout
	if asJSON {
		out = a.stderr
	}
	line := newTimeline(out, c.Workers, c.Duration)
	fmt.Fprintf(out, "%d workers contend for one lock on %s, for %v; a lease lasts %v\n\n", c.Workers, where, c.Duration, demo.TTL(c.Duration))
	c.Tell = line.tell
	stopLine := line.start()
	verdict, err := demo.Run(ctx, c)
	stopLine()
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n"+verdictText(verdict, demo.TTL(c.Duration)))
	if asJSON {
		if err := a.answerJSON(verdict); err != nil {
			return err
		}
	}
	if len(verdict.Broken) > 0 {
		err := fmt.Errorf("not shown: %s", strings.Join(verdict.Broken, "; "))
		if ctx.Err() != nil {
			return &failure{exitFailure, fmt.Errorf("ended early, so %w", err), ""}
		}
		return &failure{exitFailure, err, ""}
	}
	return nil
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
