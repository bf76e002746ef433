package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// KindText returns the kind of a lock and its size, if it has one; or what is there instead of a
// lock.
func (l *Lock) KindText() string {
	switch {
	case l.RedisType != "":
		return "no lock, but a " + l.RedisType
	case l.Size > 0:
		return l.Kind + " of " + Count(l.Size)
	}
	return cmp.Or(l.Kind, "not in use")
}

// ToGo returns the state of a countdown, which has no holders; "" for a lock.
func (l *Lock) ToGo() string {
	if l.Kind != "countdown" {
		return ""
	}
	if l.Size == 0 { // it has expired, and waiters are in line
		return "no count is set"
	}
	return Count(l.Count) + " of " + Count(l.Size) + " to go"
}

// HolderText returns the first holder in words for a list, and how many others there are; or why
// there is none. The page of one lock has the words of holder.go.
func (l *Lock) HolderText() string {
	switch {
	case l.RedisType != "":
		return l.KindText()
	case l.ToGo() != "":
		return l.ToGo()
	case l.Abandoned():
		return "nobody: only dead waiters"
	case len(l.Holders) == 0 && l.Doubt != nil:
		return "unknown: too few nodes answered"
	case len(l.Holders) == 0:
		return "nobody"
	}
	first := l.Holders[0] // a live one, if there is any
	text := HolderText(l.Kind, first)
	dead := 0
	for _, h := range l.Holders {
		if h.Dead && !idle(h) {
			dead++
		}
	}
	switch { // what is wrong comes first: a column may have no room for the rest
	case dead > 0 && l.Holding() > 1:
		text = fmt.Sprintf("%s of %s %s: %s", Count(dead), Count(l.Holding()), believedDead, text)
	case dead > 0, first.Dead && !first.Resting:
		text = believedDead + ": " + text
	case l.Overdue(first):
		text = "extend overdue: " + text
	}
	if others := l.others(); others != "" {
		return text + others
	}
	if first.Foreign || first.Detached { // no client extends the lease
		text += ", " + ends(first.Remaining)
	}
	if len(first.Labels) > 0 {
		text += ", " + LabelText(first.Labels)
	}
	return text
}

// others says how many hold the lock besides the first, how many clients only keep it, and how many
// places are at rest.
func (l *Lock) others() (text string) {
	var live, kept, rest int
	for _, h := range l.Holders[1:] {
		switch {
		case h.Resting:
			rest++
		case !h.Kept.IsZero():
			kept++
		default:
			live++
		}
	}
	if live > 0 {
		text = fmt.Sprintf(" and %s more", Count(live))
	}
	if kept > 0 {
		text += fmt.Sprintf(", %s kept", Count(kept))
	}
	place := "place"
	if l.Kind == "slotpool" {
		place = "slot"
	}
	switch {
	case rest == 1:
		text += fmt.Sprintf(", 1 %s at rest", place)
	case rest > 1:
		text += fmt.Sprintf(", %s %ss at rest", Count(rest), place)
	}
	return text
}

// WaitingText returns how many wait, after that how many are believed dead, and how many callers
// the living ones wait for, if that is more than themselves.
func (l *Lock) WaitingText() string {
	text := waitingText(l.Waiting, l.Deaf)
	if l.Calls > l.Waiting {
		text += " (" + Count(l.Calls) + " callers)"
	}
	return text
}

// HoldersText returns how many hold, and for how many names too few nodes can report all holders.
func (t *Totals) HoldersText() string {
	if t.Doubtful == 0 {
		return Count(t.Holders)
	}
	return Count(t.Holders) + " + " + Count(t.Doubtful) + " unknown"
}

// WaitingText returns how many wait, and after that how many are believed dead.
func (t *Totals) WaitingText() string { return waitingText(t.Waiters, t.DeadWaiters) }

func waitingText(living, dead int) string {
	if dead == 0 {
		return Count(living)
	}
	return Count(living) + " + " + Count(dead) + " dead"
}

// Facts returns what is known of a lock besides its holders and waiters. alone says that it is on
// one server, and not on a quorum. Times are in that time zone.
func (l *Lock) Facts(alone bool, zone *time.Location) []Fact {
	all := []Fact{
		{Label: "key", Text: Visible(l.Key)},
		{Label: Kind, Text: l.KindText()},
		{Label: Token, Text: l.lastToken(alone, zone)},
	}
	if f := l.Forced; f != nil {
		from, by := formerText(f.Owner, f.From), ProcessText(f.By, "")
		text := fmt.Sprintf("%s ago: %s took it from %s", Ago(l.At, f.At), by, from)
		if f.Reason != "" {
			text += fmt.Sprintf(": %q", f.Reason)
		}
		all = append(all, Fact{Label: "last forced", Text: text})
	}
	switch {
	case l.ToGo() != "":
		all = append(all, Fact{Label: "count", Text: l.ToGo()})
		all = append(all, Fact{Label: Lease, Text: ends(l.Remaining)})
	case l.RedisType != "":
		const text = "nobody: the key is not a lock, so no lock can use this name"
		all = append(all, Fact{Holder, text, true})
	case l.Abandoned():
		const text = "nobody, it is free: only dead waiters are in its line, " +
			"and the next acquisition forgets them"
		all = append(all, Fact{Holder, text, true})
	case len(l.Holders) == 0 && l.Doubt == nil:
		all = append(all, Fact{Label: Holder, Text: "nobody, it is free"})
	}
	if l.Doubt != nil {
		all = append(all, Fact{Holder, "unknown, as too few nodes answered: " + ErrorText(l.Doubt), true})
	}
	return all
}

// maxRemembered is how long a name that is not used is remembered, at most.
const maxRemembered = 366 * 24 * time.Hour

// lastToken returns the last token, and for a free lock on one server also when it was given: the
// token is the server's time in microseconds then, unless another library counts the tokens.
func (l *Lock) lastToken(alone bool, zone *time.Location) string {
	given := time.UnixMicro(l.Token)
	ago := l.At.Sub(given)
	switch {
	case l.RedisType != "", len(l.Holders) > 0:
	case l.Token == 0:
		return "0: never used, or forgotten"
	case alone && ago > -time.Second && ago < maxRemembered:
		at := Stamp(given.In(zone))
		return fmt.Sprintf("%d, given %s ago, at %s", l.Token, Ago(l.At, given), at)
	}
	return strconv.FormatInt(l.Token, 10)
}

// Cell returns what a lock has in a column; "-" if it has nothing there.
func (l *Lock) Cell(column string) string {
	switch column {
	case Name:
		return Visible(l.Name)
	case Kind:
		if l.RedisType == "" {
			return l.KindText()
		}
	case Holder:
		return l.HolderText()
	case Token:
		return strconv.FormatInt(l.Token, 10)
	case Waiting:
		return waitingText(l.Waiting, l.Deaf)
	case Held:
		if l.Held() > 0 {
			return Span(l.Held())
		}
	case Waited:
		if l.Waited > 0 {
			return Span(l.Waited)
		}
	}
	return none
}
