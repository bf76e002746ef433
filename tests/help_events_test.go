package tests

import (
	"context"
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
