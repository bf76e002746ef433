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
		head := fmt.Sprintf("%d workers contend for one lock on %s, for %v; a lease lasts %v",
			c.Workers, s.Where, c.Duration, TTL(c.Duration))
		broken, err = s.scene(c, head, func(c Config) (any, string, []string, error) {
			v, err := Run(ctx, c)
			return v, v.text(TTL(c.Duration)), v.Broken, err
		})
	}
	if name == "mutex" || err != nil {
		return broken, err
	}
	c.Workers = slotWorkers
	fmt.Fprintln(s.Out)
	head := fmt.Sprintf("slots: %s; on %s, for %v", AboutSlots, s.Where, c.Duration)
	more, err := s.scene(c, head, func(c Config) (any, string, []string, error) {
		r, err := playSlots(ctx, c)
		return r, r.text(), r.Broken, err
	})
	return append(broken, more...), err
}

// scene shows one scene under a head. play returns what came of it, for JSON and in words, and the
// promises that were not kept.
func (s *Show) scene(
	c Config, head string, play func(Config) (came any, text string, broken []string, err error),
) ([]string, error) {
	line := newTimeline(s.Out, c.Workers, c.Duration)
	fmt.Fprintln(s.Out, line.fold(0, head))
	c.Tell = line.tell
	stop := line.start()
	came, text, broken, err := play(c)
	stop()
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Out)
	for row := range strings.Lines(text) {
		fmt.Fprint(s.Out, line.fold(25, strings.TrimSuffix(row, "\n")))
	}
	if s.JSON != nil {
		err = s.JSON(came)
	}
	return broken, err
}

// row returns a line of what came of a scene.
func row(what, format string, args ...any) string {
	return fmt.Sprintf("  %-22s %s\n", what, fmt.Sprintf(format, args...))
}

// text is the report for people.
func (p Report) text() (text string) {
	for _, what := range slices.Sorted(maps.Keys(p.Counts)) {
		text += row(strings.ReplaceAll(what, "_", " "), "%d", p.Counts[what])
	}
	for _, promise := range p.Kept {
		text += row("kept", "%s", promise)
	}
	for _, promise := range p.Broken {
		text += row("BROKEN", "%s", promise)
	}
	return text
}

// text is the verdict for people.
func (v Verdict) text(ttl time.Duration) string {
	monotonic := "strictly increasing"
	if !v.TokensMonotonic {
		monotonic = "NOT increasing"
	}
	takeover := "none was needed"
	if v.TakeoverMS > 0 {
		takeover = fmt.Sprintf("%dms after the crash; its lease lasted %v", v.TakeoverMS, ttl)
	}
	return row("acquisitions", "%d", v.Acquisitions) +
		row("overlaps", "%d: how often two workers held the lock at once", v.Overlaps) +
		row("fencing tokens", "%s", monotonic) +
		row("stale writes refused", "%d: a worker that woke up too late could do no harm", v.StaleWritesRefused) +
		row("taken over", "%s", takeover) +
		row("turns per worker", "%d to %d: first come, first served", v.MinPerWorker, v.MaxPerWorker)
}
