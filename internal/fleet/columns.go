package fleet

import "strconv"

// The columns of a list of locks, and what a page about one calls the same. docs/glossary.md says
// what each word means.
const (
	Name    = "name"
	Kind    = "kind"
	Holder  = "holder"
	Held    = "held for"
	Lease   = "lease"
	Token   = "token"
	Waiting = "waiting"
	Waited  = "longest wait"
)

// Columns are those that a list of locks has on every screen.
var Columns = []string{Name, Kind, Holder, Held, Waiting, Waited}

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
		if l.Waited() > 0 {
			return Span(l.Waited())
		}
	}
	return none
}
