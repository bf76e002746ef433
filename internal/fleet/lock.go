package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The columns of a list of locks, and what a page about one calls the same.
const (
	Name    = "name"
	Kind    = "kind"
	Holder  = "holder"
	Held    = "held for"
	Expires = "expires in"
	Token   = "token"
	Waiting = "waiting"
	Waited  = "first waits"
)

// Columns are those that a list of locks has on every screen.
var Columns = []string{Name, Holder, Held, Expires, Waiting, Waited}

// Cell returns what a lock has in a column; "-" if it has nothing there.
func (l *Lock) Cell(column string) string {
	switch column {
	case Name:
		return Visible(l.Name)
	case Kind:
		return l.KindText()
	case Holder:
		return l.HolderText()
	case Token:
		return strconv.FormatInt(l.Token, 10)
	case Waiting:
		return Count(l.Waiting)
	case Held:
		if l.Held() > 0 {
			return Span(l.Held())
		}
	case Expires:
		if len(l.Holders) > 0 || l.ToGo() != "" {
			return Expiry(l.Remaining)
		}
	case Waited:
		if l.Waited() > 0 {
			return Span(l.Waited())
		}
	}
	return none
}

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

// HolderText returns the first holder in words, and how many there are beside it; or why there is
// none.
func (l *Lock) HolderText() string {
	switch {
	case l.RedisType != "":
		return l.KindText()
	case l.ToGo() != "":
		return l.ToGo()
	case l.Abandoned():
		return "nobody: only the dead wait"
	case len(l.Holders) == 0:
		return "nobody"
	}
	first := l.Holders[0]
	all := []string{HolderText(first)}
	if first.Dead { // before what may have no room in a column
		all = append(all, believedDead)
	}
	if len(first.Labels) > 0 {
		all = append(all, LabelText(first.Labels))
	}
	text := strings.Join(all, ", ")
	if n := len(l.Holders) - 1; n > 0 {
		text += fmt.Sprintf(" and %s more", Count(n))
	}
	return text
}

// WaitingText returns how many wait, how many of them are believed dead, and for how many callers
// the living ones wait, if for more than themselves.
func (l *Lock) WaitingText() string {
	var more []string
	if l.Deaf > 0 {
		more = append(more, Count(l.Deaf)+" "+believedDead)
	}
	if l.Calls > l.Waiting-l.Deaf {
		more = append(more, Count(l.Calls)+" callers")
	}
	if len(more) == 0 {
		return Count(l.Waiting)
	}
	return fmt.Sprintf("%s (%s)", Count(l.Waiting), strings.Join(more, ", "))
}

// Facts returns what is known of a lock beside its holders and waiters. alone says that it is on
// one server, and not on a quorum. Moments are in that time zone.
func (l *Lock) Facts(alone bool, zone *time.Location) []Fact {
	all := []Fact{
		{Label: "key", Text: Visible(l.Key)},
		{Label: Kind, Text: l.KindText()},
		{Label: Token, Text: l.lastToken(alone, zone)},
	}
	if f := l.Forced; f != nil {
		from, by := ProcessText(f.From, f.Owner), ProcessText(f.By, "")
		text := fmt.Sprintf("%s ago, from %s by %s", Ago(l.At, f.At), from, by)
		if f.Reason != "" {
			text += fmt.Sprintf(": %q", f.Reason)
		}
		all = append(all, Fact{Label: "last forced", Text: text})
	}
	switch {
	case l.ToGo() != "":
		all = append(all, Fact{Label: "count", Text: l.ToGo()})
		all = append(all, Fact{Label: Expires, Text: Expiry(l.Remaining)})
	case l.RedisType != "":
		const text = "nobody: the key is no lock, and no lock can have this name"
		all = append(all, Fact{Holder, text, true})
	case l.Abandoned():
		const text = "nobody, it is free: only the dead wait for it, " +
			"and the next acquisition forgets them"
		all = append(all, Fact{Holder, text, true})
	case len(l.Holders) == 0:
		all = append(all, Fact{Label: Holder, Text: "nobody, it is free"})
	}
	return all
}

// maxRemembered is how long a name that is not used is remembered, at most.
const maxRemembered = 366 * 24 * time.Hour

// lastToken returns the last token, and of a free lock on one server also when that was given. The
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
