package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// Scene is a demo of another kind of lock than the mutex, which [Run] shows.
type Scene struct {
	Name    string
	About   string // what happens, for people
	Workers int
	play    func(ctx context.Context, r *run, workers []*worker) (Report, error)
}

// Scenes is all of them.
func Scenes() []Scene {
	return []Scene{
		{"slots", "five workers share three numbered slots; one crashes, one leaves, and those who wait take over", 5, playSlots},
	}
}

// Report is what came of a scene: what was counted, and the promises that were kept and broken.
type Report struct {
	Scene  string         `json:"scene"`
	Counts map[string]int `json:"counts"`
	Kept   []string       `json:"kept"`
	Broken []string       `json:"broken"`
}

// wants notes whether a promise was kept. The same words are noted once.
func (p *Report) wants(kept bool, format string, args ...any) {
	list, words := &p.Broken, fmt.Sprintf(format, args...)
	if kept {
		list = &p.Kept
	}
	if !slices.Contains(*list, words) {
		*list = append(*list, words)
	}
}

// Play runs the scene and returns what came of it, also when ctx ends it early. The error tells of
// what kept it from running.
func (s Scene) Play(ctx context.Context, c Config) (Report, error) {
	c.Workers = s.Workers
	r := newRun(c, TTL(c.Duration))
	workers, err := r.hire()
	defer func() {
		for _, w := range workers {
			w.client.Close()
		}
	}()
	if err != nil {
		return Report{}, err
	}
	report, err := s.play(ctx, r, workers)
	report.Scene = s.Name
	for _, list := range []*[]string{&report.Kept, &report.Broken} {
		if *list == nil {
			*list = []string{} // and no null in JSON
		}
	}
	return report, err
}

// spans is who believed to hold something when, by one clock.
type spans struct {
	mu  sync.Mutex // guards all
	all []*span
}

type span struct {
	what       string // a slot; "r" or "w"
	begin, end time.Time
}

// begin notes that a lease is held, until it is over or end is called.
func (s *spans) begin(what string, lease *redlatch.Lease) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := &span{what: what, begin: time.Now()}
	s.all = append(s.all, one)
	end = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.end.IsZero() {
			one.end = heldUntil(lease)
		}
	}
	context.AfterFunc(lease.Context(), end)
	return end
}

// overlaps counts the pairs that were held at the same time and of which clash says that they must
// not.
func (s *spans) overlaps(clash func(a, b *span) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.all {
		for _, a := range s.all[:i] {
			if (a.end.IsZero() || a.end.After(b.begin)) && clash(a, b) {
				n++
			}
		}
	}
	return n
}

// join runs f for each worker at once and returns their errors, but for those of ctx being done.
func join(ctx context.Context, workers []*worker, f func(*worker) error) error {
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() {
			if err := f(w); err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("worker %d: %w", w.number, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// order has whoever listens first do something, after that part of the demo's duration.
func (r *run) order(ctx context.Context, part float64, to chan<- struct{}) {
	select {
	case <-time.After(time.Duration(part * float64(r.Duration))):
	case <-ctx.Done():
	}
	select {
	case to <- struct{}{}:
	case <-ctx.Done():
	}
}
