package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Show prints scenes as they happen.
type Show struct {
	Out   io.Writer       // the timeline, and what came of it in words
	Where string          // on which server it happens, in words
	JSON  func(any) error // takes what came of each scene; may be nil
}

// Names are what Play can show.
var Names = []string{"mutex", "slots", "all"}

// Play shows the scene of that name, or all of them, and returns the promises that were not kept.
func (s *Show) Play(ctx context.Context, name string, c Config) (broken []string, err error) {
	if name != "slots" {
		broken, err = s.mutex(ctx, c)
	}
	if name == "mutex" || err != nil {
		return broken, err
	}
	more, err := s.slots(ctx, c)
	return append(broken, more...), err
}

// mutex shows the main scene, and returns the promises that were not kept.
func (s *Show) mutex(ctx context.Context, c Config) ([]string, error) {
	line := newTimeline(s.Out, c.Workers, c.Duration)
	fmt.Fprintln(s.Out, line.fold(0, fmt.Sprintf("%d workers contend for one lock on %s, for %v; a lease lasts %v",
		c.Workers, s.Where, c.Duration, TTL(c.Duration))))
	c.Tell = line.tell
	stop := line.start()
	verdict, err := Run(ctx, c)
	stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Out)
	for row := range strings.Lines(verdictText(verdict, TTL(c.Duration))) {
		fmt.Fprint(s.Out, line.fold(25, strings.TrimSuffix(row, "\n")))
	}
	if s.JSON != nil {
		err = s.JSON(verdict)
	}
	return verdict.Broken, err
}

// slots shows the other one.
func (s *Show) slots(ctx context.Context, c Config) ([]string, error) {
	line := newTimeline(s.Out, slotWorkers, c.Duration)
	fmt.Fprintln(s.Out, "\n"+line.fold(0, fmt.Sprintf("slots: %s; on %s, for %v", AboutSlots, s.Where, c.Duration)))
	c.Tell = line.tell
	stop := line.start()
	report, err := playSlots(ctx, c)
	stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Out)
	for _, what := range slices.Sorted(maps.Keys(report.Counts)) {
		fmt.Fprintf(s.Out, "  %-22s %d\n", strings.ReplaceAll(what, "_", " "), report.Counts[what])
	}
	for _, promise := range report.Kept {
		fmt.Fprint(s.Out, line.fold(25, fmt.Sprintf("  %-22s %s", "kept", promise)))
	}
	for _, promise := range report.Broken {
		fmt.Fprint(s.Out, line.fold(25, fmt.Sprintf("  %-22s %s", "BROKEN", promise)))
	}
	if s.JSON != nil {
		err = s.JSON(report)
	}
	return report.Broken, err
}

// verdictText is the verdict for people.
func verdictText(v Verdict, ttl time.Duration) string {
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
