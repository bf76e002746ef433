package fleet

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch"
)

// EntryText returns which process noted an entry of the journal, and what it says.
func EntryText(e redlatch.JournalEntry) string {
	var all []string
	for _, s := range append(happened(e), LabelText(e.Labels)) {
		if s != "" {
			all = append(all, s)
		}
	}
	if e.Dropped > 0 {
		all = append(all, Count(e.Dropped)+" entries before this one are missing")
	}
	text := ProcessText(e.Process, e.Client)
	if len(all) > 0 {
		text += ": " + strings.Join(all, "; ")
	}
	return text
}

// happened returns what an entry says, by its type.
func happened(e redlatch.JournalEntry) []string {
	cause := OneLine(strings.TrimPrefix(e.Text, "redlatch: "))
	switch e.Type {
	case redlatch.JournalLost:
		reason := Visible(string(e.Reason))
		return []string{fmt.Sprintf("held for %s, lost (%s)", Span(e.Held), reason), cause}
	case redlatch.JournalJeopardy:
		return []string{fmt.Sprintf("%s are left of the lease", Span(e.Remaining)), cause}
	case redlatch.JournalForced:
		from := ProcessText(e.From.Process, e.From.Client)
		return []string{fmt.Sprintf("took it from %s, token %d", from, e.Token), cause}
	case redlatch.JournalTimeout:
		return []string{"gave up after " + Span(e.Waited), cause}
	case redlatch.JournalWaited:
		return []string{"waited for " + Span(e.Waited)}
	case redlatch.JournalHeld:
		return []string{"holds or held it for " + Span(e.Held)}
	case redlatch.JournalLeader:
		return []string{fmt.Sprintf("leads as %s, term %d", Visible(e.Value), e.Token)}
	}
	return []string{cause}
}
