package tests

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redlatch/redlatch"
)

// events remembers what a client's hook is told.
type events struct {
	mu  sync.Mutex // guards all
	all []redlatch.Event
}

// hook is for redlatch.Options.
func (e *events) hook(_ context.Context, event redlatch.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// of returns the events of a kind about a name so far.
func (e *events) of(kind redlatch.EventType, name string) []redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []redlatch.Event
	for _, event := range e.all {
		if event.Type == kind && event.Name == name {
			found = append(found, event)
		}
	}
	return found
}

// await waits until there are more than n events of a kind about a name.
func (e *events) await(t reporter, kind redlatch.EventType, name string, n int) {
	t.Helper()
	eventually(t, "event "+string(kind)+" for "+name, func() bool { return len(e.of(kind, name)) > n })
}

// count is how many events of a kind there were.
func (e *events) count(kind redlatch.EventType) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, event := range e.all {
		if event.Type == kind {
			n++
		}
	}
	return n
}

// byAttempt returns the events so far by the attempt that they tell of, in their order.
func (e *events) byAttempt() map[uint64][]redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	lives := make(map[uint64][]redlatch.Event)
	for _, event := range e.all {
		lives[event.ID] = append(lives[event.ID], event)
	}
	return lives
}

// wantEnds checks that each attempt ended once, and each lease, and that their events say what they
// promise. The client is closed.
func (e *events) wantEnds(t reporter) {
	t.Helper()
	for id, life := range e.byAttempt() {
		if problem := inLife(life); problem != "" || id == 0 {
			t.Errorf("attempt %d: %s: %v", id, problem, life)
		}
	}
}

// inLife returns what is wrong with the events of an attempt, and "" if nothing is.
func inLife(life []redlatch.Event) string {
	n := make(map[redlatch.EventType]int)
	begin, token := life[0], int64(0)
	for i, e := range life {
		n[e.Type]++
		if (i == 0) != (e.Type == redlatch.EventAttempt) {
			return "the first event, and no other, has to be the attempt"
		}
		if e.Kind != begin.Kind || e.Mode != begin.Mode || e.Name != begin.Name || e.TTL != begin.TTL {
			return "events of different locks"
		}
		if e.Kind == "" || (e.Mode != "") != (e.Kind == "rwmutex") || e.Name == "" || e.Owner == "" || e.TTL == 0 {
			return "an event does not say of which lock"
		}
		if e.Type == redlatch.EventGranted {
			token = e.Token
		}
		if e.Token != token || (e.Token != 0) != (n[redlatch.EventGranted] == 1) {
			return "a token that is not that of the grant, or comes before it"
		}
		if problem := inFields(e); problem != "" {
			return problem
		}
	}
	switch granted := n[redlatch.EventGranted]; {
	case granted+n[redlatch.EventFailed] != 1:
		return "the attempt has to end once, in granted or failed"
	case n[redlatch.EventReleased]+n[redlatch.EventLost]+n[redlatch.EventDetached] != granted:
		return "a lease has to end once, in released or lost"
	case n[redlatch.EventWait] > 1:
		return "one wait at most"
	}
	return ""
}

// inFields returns what is wrong with the fields that belong to the type of an event.
func inFields(e redlatch.Event) string {
	lost := (*redlatch.LostError)(nil)
	var right bool
	switch e.Type {
	case redlatch.EventGranted:
		right = e.Outcome == redlatch.OutcomeGranted && e.Remaining > 0 && e.Err == nil
	case redlatch.EventFailed:
		right = e.Outcome == redlatch.OutcomeOf(e.Err) && e.Err != nil
	case redlatch.EventLost:
		right = errors.As(e.Err, &lost) && e.Reason == lost.Reason && e.Reason != ""
	case redlatch.EventExtendFailed, redlatch.EventJeopardy:
		right = e.Err != nil
	default:
		right = e.Outcome == "" && e.Reason == ""
	}
	if !right {
		return string(e.Type) + " with fields that do not belong together"
	}
	return ""
}

// ends returns the ends of attempts so far.
func (e *events) ends() []redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.all), func(event redlatch.Event) bool {
		return event.Type != redlatch.EventGranted && event.Type != redlatch.EventFailed
	})
}
