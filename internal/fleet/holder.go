package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Fact is one thing that is known of a lock, a holder or a waiter.
type Fact struct {
	Label string // "" if the text has it
	Text  string
	Bad   bool // it needs a look
}

// ProcessText returns what is known of a process, or else of its client.
func ProcessText(p redlatch.Process, client string) string {
	switch {
	case p.Host != "":
		return fmt.Sprintf("%s (pid %d on %s)", Visible(p.Program), p.PID, Visible(p.Host))
	case client != "":
		return fmt.Sprintf("%s (id %s)", unknown, Visible(client))
	}
	return unknown
}

// unknown stands for a process that has no record.
const unknown = "a client that is gone, cut off or just starting"

// BetweenRuns reports whether what holds a job is the window of a run that has ended.
func BetweenRuns(h redlatch.Holder) bool { return h.Resting && h.Owner == script.Window }

// HolderText returns what is known of the process that holds a lock of that kind. [Lock.HolderText]
// is for a list.
func HolderText(kind string, h redlatch.Holder) string {
	switch {
	case BetweenRuns(h):
		return "the window of its last run"
	case h.Resting:
		client := "a client"
		if h.Process.Host != "" {
			client = ProcessText(h.Process, "")
		}
		if kind != "slotpool" {
			return fmt.Sprintf("%s, which has released it; its minimal hold keeps it closed for another %s", client, Span(h.Remaining))
		}
		return fmt.Sprintf("%s, which is gone; its place is kept for another %s", client, Span(h.Remaining))
	case h.Foreign:
		return fmt.Sprintf("a foreign client (owner %.40q)", h.Owner)
	case h.Detached:
		return ProcessText(h.Process, h.Client) + ", detached"
	case !h.Kept.IsZero():
		return ProcessText(h.Process, h.Client) + ", which only keeps it, unused"
	}
	return ProcessText(h.Process, h.Client)
}

// formerText returns what is known of the process that a lock was taken from.
func formerText(owner string, p redlatch.Process) string {
	client, ours := script.OwnerClient(owner)
	h := redlatch.Holder{Owner: owner, Client: client, Process: p, Resting: owner == script.Window}
	h.Foreign = !ours && !h.Resting && p == redlatch.Process{}
	return HolderText("", h)
}

// HolderLine returns a holder in words, with how long it has held the lock at that moment.
func HolderLine(kind string, h redlatch.Holder, at time.Time) string {
	if h.Resting {
		return HolderText(kind, h)
	}
	facts := told(h.Labels, h.Dead, h.LastSeen, at)
	since := h.Since
	if !h.Kept.IsZero() {
		since = h.Kept
	}
	return sentence(lasting(HolderText(kind, h), since, at), facts)
}

// Grip returns how a holder keeps others out, to go in front of a [HolderLine]: one that is not at
// work does not hold the lock.
func Grip(h redlatch.Holder) string {
	switch {
	case h.Resting:
		return "closed by "
	case !h.Kept.IsZero():
		return "kept by "
	}
	return "held by "
}

// WaiterText returns a waiter in words, with how long it has waited at that moment.
func WaiterText(kind string, w redlatch.Waiter, at time.Time) string {
	text := lasting(ProcessText(w.Process, w.Client), w.Since, at)
	return sentence(text, WaiterFacts(kind, w, at))
}

func lasting(text string, since, at time.Time) string {
	if since.IsZero() {
		return text
	}
	return text + " for " + Ago(at, since)
}

// told returns the labels, and when a client that is believed dead was last seen.
func told(labels map[string]string, dead bool, seen, at time.Time) (all []Fact) {
	if len(labels) > 0 {
		all = append(all, Fact{Text: LabelText(labels)})
	}
	switch {
	case dead && seen.IsZero():
		all = append(all, Fact{Text: believedDead, Bad: true})
	case dead:
		text := "last seen " + Ago(at, seen) + " ago: " + believedDead
		all = append(all, Fact{Text: text, Bad: true})
	}
	return all
}

// believedDead describes a dead holder (meet in engine/survey/picture.go) or waiter (newWaiter there).
const believedDead = "believed dead"

// sentence returns a text, followed by these facts.
func sentence(text string, facts []Fact) string {
	for _, f := range facts {
		text += ", " + f.Text
	}
	return text
}

// HolderFacts returns all that is known of a holder besides its process. Times are in that time
// zone.
func HolderFacts(l *Lock, h redlatch.Holder, zone *time.Location) []Fact {
	var all []Fact
	if label, text := beyond(l.Kind, h); text != "" {
		all = append(all, Fact{Label: label, Text: text})
	}
	label, since := Held, h.Since
	if !h.Kept.IsZero() {
		label, since = "kept for", h.Kept
	}
	if !since.IsZero() && !h.Resting {
		text := Ago(l.At, since) + ", since " + Stamp(since.In(zone))
		all = append(all, Fact{Label: label, Text: text})
	}
	all = append(all, l.leaseText(h))
	if !h.LastSeen.IsZero() {
		ago := l.At.Sub(h.LastSeen)
		if extended, seen := l.Extended(h); seen {
			ago = min(ago, extended)
		}
		heard := Recently(ago)
		if h.Dead {
			heard += ": " + believedDead
		}
		all = append(all, Fact{"last seen", heard, h.Dead})
	}
	if h.Token > 0 {
		all = append(all, Fact{Label: Token, Text: strconv.FormatInt(h.Token, 10)})
	}
	if len(h.Labels) > 0 {
		all = append(all, Fact{Label: "labels", Text: LabelText(h.Labels)})
	}
	return append(all, Fact{Label: "owner", Text: Visible(h.Owner)})
}

// WaiterFacts returns what a waiter wants, and what is known of it besides its process.
func WaiterFacts(kind string, w redlatch.Waiter, at time.Time) []Fact {
	var all []Fact
	wants := redlatch.Holder{Slot: -1, Mode: w.Mode, Permits: w.Permits, Value: w.Value}
	wants.EntryOf = w.EntryOf
	if label, text := beyond(kind, wants); text != "" {
		all = append(all, Fact{Text: label + " " + text})
	}
	if w.Callers > 1 {
		all = append(all, Fact{Text: Count(w.Callers) + " callers"})
	}
	facts := told(w.Labels, w.Dead, w.LastSeen, at)
	if len(w.Holds) > 0 {
		var names []string
		for _, h := range w.Holds {
			names = append(names, Visible(h.Name))
		}
		text := "holds " + strings.Join(names, " and ")
		facts = slices.Insert(facts, min(len(w.Labels), 1), Fact{Text: text}) // after the labels
	}
	return append(all, facts...)
}

// beyond returns what an acquisition of a kind has beyond its lease, and what that is called.
func beyond(kind string, h redlatch.Holder) (label, text string) {
	switch {
	case h.Foreign || h.Resting && kind != "slotpool":
		return "", ""
	case kind == "slotpool" && h.Slot >= 0:
		return "slot", strconv.Itoa(h.Slot)
	case kind == "semaphore":
		return "permits", Count(h.Permits)
	case kind == "rwmutex":
		return "mode", Visible(h.Mode)
	case kind == "election":
		return "value", Visible(h.Value)
	case kind == "reentrant":
		return "entered as", Visible(h.EntryOf)
	}
	return "", ""
}

// ends returns when a lease that no client extends runs out.
func ends(d time.Duration) string {
	if d < 0 {
		return "never expires"
	}
	return "expires in " + Span(d)
}

// leaseText returns the state of a holder's lease. One look does not show when it was extended; two
// do.
func (l *Lock) leaseText(h redlatch.Holder) Fact {
	ago, seen := l.Extended(h)
	switch {
	case !h.Kept.IsZero() && !h.Dead:
		return Fact{Label: Lease, Text: "given up when another wants it; " + ends(h.Remaining)}
	case BetweenRuns(h):
		return Fact{Label: Lease, Text: "the next run may begin in " + Span(h.Remaining)}
	case h.Remaining < 0 || h.Resting || h.Foreign || h.Detached || h.Dead: // no client extends it
		return Fact{Label: Lease, Text: ends(h.Remaining)}
	case l.Overdue(h):
		text := fmt.Sprintf("extend overdue: last extended %s ago; expires in %s", Span(ago), Span(h.Remaining))
		return Fact{Lease, text, true}
	case seen:
		return Fact{Label: Lease, Text: "extended " + Recently(ago)}
	}
	return Fact{Label: Lease, Text: Span(h.Remaining) + " left if it is not extended"}
}
