package fleet

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch"
)

// EntryText returns an entry of the journal as a sentence about the process that noted it. The lock
// is "it": its name is beside the sentence.
func EntryText(e redlatch.JournalEntry) string {
	all := []string{ProcessText(e.Process, e.Client) + " " + happened(e)}
	if labels := LabelText(e.Labels); labels != "" {
		all = append(all, labels)
	}
	if e.Dropped > 0 {
		all = append(all, Count(e.Dropped)+" entries before this one are missing")
	}
	return strings.Join(all, "; ")
}

// happened returns what the process did or met with, by the type of an entry.
func happened(e redlatch.JournalEntry) string {
	switch e.Type {
	case redlatch.JournalLost:
		reason := Visible(string(e.Reason))
		return because(e, "lost it after holding it for %s (%s)", Span(e.Held), reason)
	case redlatch.JournalJeopardy:
		return because(e, "got no answer to an extend, with %s of its lease left", Span(e.Remaining))
	case redlatch.JournalForced:
		text := "took it by force from " + formerText(e.Owner, e.From.Process)
		if e.Token > 0 { // for a foreign holder it is not known
			text += fmt.Sprintf(", token %d", e.Token)
		}
		if e.Text != "" {
			text += ": " + strconv.Quote(e.Text)
		}
		return text
	case redlatch.JournalAdopted:
		return because(e, "goes on with a lease that was detached, token %d", e.Token)
	case redlatch.JournalTimeout:
		return because(e, "gave up after waiting for %s", Span(e.Waited))
	case redlatch.JournalDeadlock:
		return because(e, "would have waited for itself")
	case redlatch.JournalWaited:
		return because(e, "got it after waiting for %s", Span(e.Waited))
	case redlatch.JournalHeld:
		return because(e, "had held it for %s by then", Span(e.Held))
	case redlatch.JournalLeader:
		return because(e, "became the leader as %s, term %d", Visible(e.Value), e.Token)
	}
	return because(e, "noted %s", Visible(string(e.Type)))
}

// because returns what happened, and after it the cause, if an entry has one. The part of a cause
// up to the name of the lock only repeats what happened.
func because(e redlatch.JournalEntry, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	cause := strings.TrimPrefix(e.Text, "redlatch: ")
	if _, behind, named := strings.Cut(cause, strconv.Quote(e.Name)); named {
		if _, rest, ok := strings.Cut(behind, ": "); ok {
			cause = rest
		}
	}
	if cause == "" {
		return text
	}
	return text + ": " + OneLine(cause)
}
