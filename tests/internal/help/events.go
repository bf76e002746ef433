package help

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// Events remembers what a client's hook is told.
type Events struct {
	mu  sync.Mutex // guards all
	All []redlatch.Event
}

// Hook is for redlatch.Options.
func (e *Events) Hook(_ context.Context, event redlatch.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.All = append(e.All, event)
}

// Of returns the events of a kind about a name so far.
func (e *Events) Of(kind redlatch.EventType, name string) []redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []redlatch.Event
	for _, event := range e.All {
		if event.Type == kind && event.Name == name {
			found = append(found, event)
		}
	}
	return found
}

// Await waits until there are more than n events of a kind about a name.
func (e *Events) Await(t locktest.Reporter, kind redlatch.EventType, name string, n int) {
	t.Helper()
	locktest.Eventually(t, "event "+string(kind)+" for "+name, func() bool { return len(e.Of(kind, name)) > n })
}

// Count returns how many events of a kind there were.
func (e *Events) Count(kind redlatch.EventType) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, event := range e.All {
		if event.Type == kind {
			n++
		}
	}
	return n
}

// ByAttempt returns the events so far by the attempt that they belong to, in their order.
func (e *Events) ByAttempt() map[uint64][]redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	lives := make(map[uint64][]redlatch.Event)
	for _, event := range e.All {
		lives[event.ID] = append(lives[event.ID], event)
	}
	return lives
}

// WantEnds checks that each attempt ended once, and each lease, and that their events say what they
// promise. The client is closed.
func (e *Events) WantEnds(t locktest.Reporter) {
	t.Helper()
	for id, life := range e.ByAttempt() {
		if problem := inLife(life); problem != "" || id == 0 {
			t.Errorf("attempt %d: %s: %v", id, problem, life)
		}
	}
}

// inLife returns what is wrong with the events of an attempt, and "" if nothing is.
func inLife(life []redlatch.Event) string {
	n := make(map[redlatch.EventType]int)
	begin, token, kept := life[0], int64(0), 0
	for i, e := range life {
		n[e.Type]++
		if e.Kept {
			kept++
		}
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
	case n[redlatch.EventUnkept] != kept:
		return "a lock that is kept has to be unkept once"
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

// Ends returns the ends of attempts so far.
func (e *Events) Ends() []redlatch.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.All), func(event redlatch.Event) bool {
		return event.Type != redlatch.EventGranted && event.Type != redlatch.EventFailed
	})
}

// Watched returns options whose events are remembered.
func Watched(o redlatch.Options) (redlatch.Options, *Events) {
	seen := new(Events)
	o.Hook = seen.Hook
	return o, seen
}

// GoLocks makes n goroutines of a client wait for a mutex, and returns when they do.
func GoLocks(t *testing.T, ctx context.Context, m *redlatch.Mutex, seen *Events, n int) (results []<-chan Outcome) {
	t.Helper()
	for range n {
		before := len(seen.Of(redlatch.EventWait, m.Name()))
		results = append(results, GoLock(ctx, m))
		seen.Await(t, redlatch.EventWait, m.Name(), before)
	}
	return results
}
