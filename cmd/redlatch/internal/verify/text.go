package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// passed says what PASS means.
const passed = "No violation was found, and enough faults hit to have shown one."

// allowed says which overlaps a check found at a time without its promise, and why.
func allowed(f history.Finding) string {
	var by []string
	for _, fault := range slices.Sorted(maps.Keys(f.ExcusedBy)) {
		by = append(by, fmt.Sprintf("%s after %s", fleet.Count(f.ExcusedBy[fault]), fault))
	}
	return fmt.Sprintf("%s allowed: within one TTL after verify itself did harm (%s); %s others",
		overlaps(f.Excused), strings.Join(by, ", "), fleet.Count(f.Bad))
}

func overlaps(n int) string {
	if n == 1 {
		return "1 overlap is"
	}
	return fleet.Count(n) + " overlaps are"
}

// Text is a report for people.
func Text(r Report) string {
	var b strings.Builder
	total := 0
	var kinds []string
	for _, kind := range r.Plan.Kinds {
		total += r.Acquired[kind]
		kinds = append(kinds, kind+" "+fleet.Count(r.Acquired[kind]))
	}
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-14s %s\n", what, fmt.Sprintf(format, args...))
	}
	row("acquired", "%s in %v: %s", fleet.Count(total), r.Took.Round(time.Second), strings.Join(kinds, ", "))
	row("handed over", "%s times from one worker to another, of locks that have one holder", fleet.Count(r.Handed))
	row("lost", "%s leases that their holders lost, or died with", fleet.Count(r.Lost))
	for i, e := range r.Faults {
		head := ""
		if i == 0 {
			head = "faults"
		}
		row(head, "%-17s %s times, %s effects", e.Name, fleet.Count(e.Times), fleet.Count(e.Effect))
	}
	c := r.Control
	row("tokens", "kept %s late writes out of %s; without tokens %s updates would have been lost, with them %s were",
		fleet.Count(c.Refused), fleet.Count(c.Writes), fleet.Count(c.LostWithout), fleet.Count(c.LostWithToken))
	if r.Longest > 0 {
		row("longest wait", "%v after the last fault; the bound is %v", r.Longest.Round(time.Millisecond), r.Plan.Bound)
	}
	for i, f := range r.Findings {
		head, mark := "", "ok"
		if i == 0 {
			head = "checks"
		}
		switch {
		case f.Bad > 0:
			mark = fmt.Sprintf("BAD, %d times", f.Bad)
		case f.Unknown != "":
			mark = "cannot tell"
		case f.Looked == 0:
			mark = "nothing to look at"
		}
		row(head, "%-14s %s (%s looked at)", f.Check, mark, fleet.Count(f.Looked))
		if f.Excused > 0 {
			row("", "%-14s %s", "", allowed(f))
		}
	}
	if r.Dir != "" && r.Verdict != Pass {
		row("records", "%s", r.Dir)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict)
	if r.Verdict == Pass {
		fmt.Fprintf(&b, "  %s\n", passed)
	}
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	return b.String()
}
