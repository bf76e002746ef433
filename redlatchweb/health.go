package redlatchweb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	healthAge     = time.Minute      // findings that are older are looked for again
	healthTimeout = 30 * time.Second // of one examination
)

// health keeps what Options.Doctor found.
type health struct {
	look    func(context.Context) ([]Finding, error)
	running sync.WaitGroup

	mu    sync.Mutex // guards known
	known report
}

// report is what a page shows of it.
type report struct {
	Set   bool // there is a doctor
	Busy  bool
	Found []Finding // the worst first
	At    time.Time // of the last examination that ended
	Err   error     // of that
	Worst string
}

// report returns what is known, and starts an examination if that is old.
func (h *health) report(ctx context.Context) report {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known.Set = h.look != nil
	if h.known.Set && !h.known.Busy && time.Since(h.known.At) > healthAge && ctx.Err() == nil {
		h.known.Busy = true
		h.running.Go(func() { h.examine(ctx) })
	}
	return h.known
}

// Amiss returns the findings that are not ok.
func (r report) Amiss() []Finding { return r.Found[:r.amiss()] }

// Fine returns the findings that are ok.
func (r report) Fine() []Finding { return r.Found[r.amiss():] }

func (r report) amiss() int {
	i := slices.IndexFunc(r.Found, func(f Finding) bool { return rank(f.Level) <= rank("ok") })
	if i < 0 {
		return len(r.Found)
	}
	return i
}

// Summary returns how many findings there are of each level that matters.
func (r report) Summary() string {
	var all []string
	for _, level := range []string{"fault", "warning", "note"} {
		n := 0
		for _, f := range r.Found {
			if f.Level == level {
				n++
			}
		}
		switch {
		case n > 0:
			all = append(all, plural(n, level))
		case level == "fault" && r.Err == nil:
			all = append(all, "No faults")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ", ") + "."
}

func (h *health) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	found, err := guarded(ctx, h.look)
	found = slices.Clone(found)
	for i := range found {
		if rank(found[i].Level) < 0 { // the program's own word
			found[i].Level = "fault"
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return rank(b.Level) - rank(a.Level) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = report{Set: true, Found: found, At: time.Now(), Err: err}
	if len(found) > 0 {
		h.known.Worst = found[0].Level
	}
}

// guarded turns a panic of the program's function into an error: on this goroutine it would end the
// process, but on one of the server it would not.
func guarded(ctx context.Context, look func(context.Context) ([]Finding, error)) (found []Finding, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("Options.Doctor panicked: %v", v)
		}
	}()
	return look(ctx)
}

func rank(level string) int { return slices.Index([]string{"ok", "note", "warning", "fault"}, level) }
