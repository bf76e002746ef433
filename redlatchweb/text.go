package redlatchweb

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

var functions = template.FuncMap{
	"visible": fleet.Visible, "span": fleet.Span, "expiry": fleet.Expiry, "holder": fleet.HolderText, "process": fleet.ProcessText, "clock": clock, "stamp": stamp, "ago": ago,
	"count": fleet.Count, "plural": plural, "kind": fleet.KindText, "detail": holderDetail, "wants": waiterDetail, "error": errorText, "brief": fleet.Brief, "forbidden": forbidden,
	"bar":   func(n, most int) string { return fmt.Sprintf("%.1f", 100*float64(n)/float64(max(1, most))) },
	"add":   func(a, b int) int { return a + b },
	"since": func(at, since time.Time) time.Duration { return max(0, at.Sub(since)) },
	"first": func(l *fleet.Lock) redlatch.Holder { return l.Holders[0] },
	"vote":  voteText, "rate": func(n redlatch.NodeInfo, kind string) redlatch.NodeVote { return rate(n, kind) },
	"long":   func(d time.Duration) bool { return d >= 10*time.Second },
	"labels": labels, "happened": happened, "when": func(t time.Time) string { return t.UTC().Format("01-02 15:04:05") },
	"cap": func(s string) string {
		if s == "" {
			return s
		}
		return strings.ToUpper(s[:1]) + s[1:]
	},
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("15:04:05")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func ago(now, then time.Time) string { return fleet.Span(now.Sub(then)) }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if strings.HasSuffix(word, "s") {
		return fleet.Count(n) + " " + word + "es"
	}
	return fleet.Count(n) + " " + word + "s"
}

// fact is what an acquisition has beyond its lease.
type fact struct{ Label, Value string }

func holderDetail(kind string, h redlatch.Holder) *fact {
	switch {
	case h.Foreign || h.Resting && kind != "slotpool":
		return nil
	case kind == "slotpool":
		return &fact{"slot", strconv.Itoa(h.Slot)}
	case kind == "semaphore":
		return &fact{"permits", fleet.Count(h.Permits)}
	case kind == "rwmutex" && h.Mode != "":
		return &fact{"mode", h.Mode}
	case kind == "election":
		return &fact{"value", fleet.Visible(h.Value)}
	case kind == "reentrant" && h.EntryOf != "":
		return &fact{"entered as", fleet.Visible(h.EntryOf)}
	}
	return nil
}

func waiterDetail(kind string, w redlatch.Waiter) *fact {
	if kind == "slotpool" {
		return nil
	}
	return holderDetail(kind, redlatch.Holder{Mode: w.Mode, Permits: w.Permits, Value: w.Value, EntryOf: w.EntryOf})
}

// errorText is an error without the library's prefix, on one line.
func errorText(err error) string {
	return fleet.Visible(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "redlatch: "), "\n", "; "))
}

// labels are what a program gave an acquisition, by key.
func labels(set map[string]string) []fact {
	var all []fact
	for _, key := range slices.Sorted(maps.Keys(set)) {
		all = append(all, fact{fleet.Visible(key), fleet.Visible(set[key])})
	}
	return all
}

// labelText is the labels in one line.
func labelText(set map[string]string) string {
	var all []string
	for _, l := range labels(set) {
		all = append(all, l.Label+"="+l.Value)
	}
	return strings.Join(all, " ")
}

// happened is what an entry of the record says, by its type.
func happened(e redlatch.JournalEntry) string {
	cause := fleet.Visible(strings.ReplaceAll(strings.TrimPrefix(e.Text, "redlatch: "), "\n", "; "))
	switch e.Type {
	case redlatch.JournalLost:
		return strings.TrimSuffix(fmt.Sprintf("lost after %s (%s): %s", fleet.Span(e.Held), fleet.Visible(string(e.Reason)), cause), ": ")
	case redlatch.JournalJeopardy:
		return fmt.Sprintf("%s are left of the lease: %s", fleet.Span(e.Remaining), cause)
	case redlatch.JournalForced:
		return strings.TrimSuffix("took it by force from "+fleet.ProcessText(e.From.Process, e.From.Client)+": "+cause, ": ")
	case redlatch.JournalTimeout:
		return "gave up after " + fleet.Span(e.Waited)
	case redlatch.JournalDeadlock:
		return "would have waited for itself"
	case redlatch.JournalWaited:
		return "waited for " + fleet.Span(e.Waited)
	case redlatch.JournalHeld:
		return "has held it for " + fleet.Span(e.Held)
	case redlatch.JournalLeader:
		return "leads as " + fleet.Visible(e.Value)
	}
	return cause
}

func rate(n redlatch.NodeInfo, kind string) redlatch.NodeVote {
	for _, v := range n.Votes {
		if v.Kind == kind {
			return v
		}
	}
	return redlatch.NodeVote{}
}

func voteText(v redlatch.NodeVote) string {
	switch v.State {
	case redlatch.NodeVotes:
		return "votes"
	case redlatch.NodeNew:
		return "not used yet"
	case redlatch.NodeForgot:
		return "restarted: no vote"
	case redlatch.NodeRests:
		return "rests for " + fleet.Span(v.Rest)
	case redlatch.NodeRested:
		return "about to vote"
	}
	return "no answer"
}
