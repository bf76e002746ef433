package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// AboutSlots is what happens in the scene of the slots, for people.
const AboutSlots = "five workers share three numbered slots; one crashes, one leaves, and those who wait take over"

const (
	slots       = 3
	slotWorkers = 5
)

// Report is what came of the slots: what was counted, and the promises that were kept and broken.
type Report struct {
	Scene  string         `json:"scene"`
	Counts map[string]int `json:"counts"`
	Kept   []string       `json:"kept"`
	Broken []string       `json:"broken"`
}

// wants notes whether a promise was kept.
func (p *Report) wants(kept bool, format string, args ...any) {
	list := &p.Broken
	if kept {
		list = &p.Kept
	}
	*list = append(*list, fmt.Sprintf(format, args...))
}

// slotScene is the slots scene under way.
type slotScene struct {
	*run
	mu    sync.Mutex // guards what is below
	held  int        // slots held now
	most  int        // and at most
	taken int        // acquisitions
}

// playSlots has the first two holders crash and leave. It returns what came of it, also when ctx ends
// it early. The error tells of what kept it from running.
func playSlots(ctx context.Context, c Config) (Report, error) {
	c.Workers = slotWorkers
	s := &slotScene{run: newRun(c)}
	defer s.dismiss()
	if err := s.hire(); err != nil {
		return Report{}, err
	}
	ctx, cancel := s.lasting(ctx, func() bool { return s.acquisitions() == slotWorkers })
	defer cancel()
	crash, leave := make(chan struct{}), make(chan struct{})
	go func() {
		s.order(ctx, 0.2, crash)
		s.order(ctx, 0.45, leave)
	}()
	errs := make([]error, slotWorkers)
	var wg sync.WaitGroup
	for i, w := range s.workers {
		wg.Go(func() {
			if err := s.work(ctx, w, crash, leave); err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("worker %d: %w", w.number, err)
			}
		})
	}
	wg.Wait()
	overlaps := s.overlaps()
	report := Report{
		Scene: "slots", Kept: []string{}, Broken: []string{}, // and no null in JSON
		Counts: map[string]int{"acquisitions": s.taken, "most_at_once": s.most, "overlaps": overlaps},
	}
	report.wants(s.most == slots, "all %d slots are held at once (%d were)", slots, s.most)
	report.wants(overlaps == 0, "no slot has two holders at once")
	report.wants(s.taken == slotWorkers, "waiters take over from a worker that crashes and from one that leaves (%d acquisitions, want %d)", s.taken, slotWorkers)
	left, err := s.left()
	report.Counts["keys_left"] = len(left)
	report.wants(len(left) == 0, "no key is left behind (%d are) %s", len(left), strings.Join(left, ", "))
	return report, errors.Join(append(errs, err)...)
}

// order has the worker that listens first do something, after that part of the demo's duration.
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

// work takes a slot and holds it until the end, or until it is this worker that is to crash or to
// leave.
func (s *slotScene) work(ctx context.Context, w *worker, crash, leave <-chan struct{}) error {
	slot, err := w.client.SlotPool("slots", slots, redlatch.SlotOptions{}).Acquire(ctx)
	if err != nil {
		return err
	}
	id, err := slot.ID()
	if err != nil {
		return err
	}
	end := s.history.begin(w.number, id, slot.Lease)
	s.note(1)
	w.tell(Event{Worker: w.number, Kind: Acquired, Token: slot.Token(), Text: fmt.Sprintf("takes slot %d", id)})
	crashes := false
	select {
	case <-crash:
		crashes = true
	case <-leave:
	case <-ctx.Done():
	}
	s.note(-1)
	switch {
	case crashes:
		w.tell(Event{Worker: w.number, Kind: Crashed, Text: fmt.Sprintf("crashes with slot %d, which rests when its lease is over", id)})
		w.link.cut()
		<-slot.Context().Done()
		return nil
	case ctx.Err() == nil:
		w.tell(Event{Worker: w.number, Kind: Released, Text: fmt.Sprintf("leaves slot %d, which is free at once", id)})
	}
	end()
	return slot.Release(ctx)
}

func (s *slotScene) note(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held += n
	s.most = max(s.most, s.held)
	s.taken += max(n, 0)
}

// acquisitions returns how many there were.
func (s *slotScene) acquisitions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// overlaps counts the pairs of holds of one slot that were at the same time.
func (s *slotScene) overlaps() (n int) {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	for i, b := range s.history.holds {
		for _, a := range s.history.holds[:i] {
			if a.slot == b.slot && !a.before(b) {
				n++
			}
		}
	}
	return n
}

// left is the keys of the demo that are still there, but for those that expire by themselves: fences,
// the records of clients and the journal.
func (r *run) left() (left []string, err error) {
	r.dismiss()
	l, err := dial(r.URL)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	err = l.Scan(context.Background(), "*"+r.prefix+"*", func(key string) error {
		expires := func(suffix string) bool { return strings.HasSuffix(key, suffix) }
		if !slices.ContainsFunc([]string{":fence", ":client", "journal}:log"}, expires) {
			left = append(left, key)
		}
		return nil
	})
	return left, err
}
