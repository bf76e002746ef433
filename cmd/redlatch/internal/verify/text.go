package verify

import (
	"fmt"
	"strings"
	"time"
)

// Text is a report for people.
func Text(r Report) string {
	var b strings.Builder
	total := 0
	var kinds []string
	for _, kind := range r.Plan.Kinds {
		total += r.Acquired[kind]
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, r.Acquired[kind]))
	}
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-14s %s\n", what, fmt.Sprintf(format, args...))
	}
	row("acquired", "%d in %v: %s", total, r.Took.Round(time.Second), strings.Join(kinds, ", "))
	row("handed over", "%d times from one worker to another, of locks that have one holder", r.Handed)
	row("lost", "%d leases that their holders lost, or died with", r.Lost)
	for i, e := range r.Faults {
		head := ""
		if i == 0 {
			head = "faults"
		}
		row(head, "%-17s %d times, %d effects", e.Name, e.Times, e.Effect)
	}
	row("tokens", "kept %d late writes out of %d; without tokens %d updates would have been lost, with them %d were",
		r.Control.Refused, r.Control.Writes, r.Control.LostWithout, r.Control.LostWithToken)
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
		note := ""
		if f.Excused > 0 {
			note = fmt.Sprintf("; %d that a fault explains, as promised", f.Excused)
		}
		row(head, "%-14s %s (%d looked at%s)", f.Check, mark, f.Looked, note)
	}
	if r.Dir != "" && r.Verdict != Pass {
		row("records", "%s", r.Dir)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict)
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	return b.String()
}
