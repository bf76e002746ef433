package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch"
)

// Query narrows and sorts the locks of a picture.
type Query struct {
	Search string // in the name, and in the host, program and labels of holders and waiters; upper and lower case are the same
	Kind   string // "" for all
	State  string // one of States; "" for all
	Sort   string // one of Sorts; "" for the first
}

// States are what a query can narrow to.
var States = []string{"contended", "trouble", "foreign"}

// Sorts are the orders that a query can have.
var Sorts = []string{"waiting", "waited", "held", "expires", "name"}

// Select returns the locks that the query asks for.
func (q Query) Select(locks []*Lock) []*Lock {
	found := make([]*Lock, 0, len(locks))
	search := strings.ToLower(q.Search)
	for _, l := range locks {
		if (q.Kind == "" || l.Kind == q.Kind) && q.inState(l) && matches(l, search) {
			found = append(found, l)
		}
	}
	order := func(_, _ *Lock) int { return 0 }
	switch cmp.Or(q.Sort, Sorts[0]) {
	case "waiting":
		order = func(a, b *Lock) int { return cmp.Compare(b.Waiting, a.Waiting) }
	case "waited":
		order = func(a, b *Lock) int { return cmp.Compare(b.Waited, a.Waited) }
	case "held":
		order = func(a, b *Lock) int { return cmp.Compare(b.Held(), a.Held()) }
	case "expires": // never is last
		order = func(a, b *Lock) int { return cmp.Compare(uint64(a.Remaining), uint64(b.Remaining)) }
	}
	slices.SortStableFunc(found, func(a, b *Lock) int {
		return cmp.Or(order(a, b), strings.Compare(a.Name, b.Name))
	})
	return found
}

func (q Query) inState(l *Lock) bool {
	switch q.State {
	case "contended":
		return l.Waiting > 0
	case "trouble":
		return l.Troubled()
	case "foreign":
		foreign := func(h redlatch.Holder) bool { return h.Foreign }
		return l.RedisType != "" || slices.ContainsFunc(l.Holders, foreign)
	}
	return true
}

func matches(l *Lock, search string) bool {
	if search == "" || strings.Contains(strings.ToLower(l.Name), search) {
		return true
	}
	for _, h := range l.Holders {
		if within(search, h.Process.Host, h.Process.Program, h.Value) || labelled(search, h.Labels) {
			return true
		}
	}
	return slices.ContainsFunc(l.Waiters, func(w redlatch.Waiter) bool {
		return within(search, w.Process.Host, w.Process.Program, w.Value) || labelled(search, w.Labels)
	})
}

func labelled(search string, labels map[string]string) bool {
	for key, value := range labels {
		if within(search, key+"="+value) {
			return true
		}
	}
	return false
}

func within(search string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), search) })
}
