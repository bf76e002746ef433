package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redlatch/redlatch"
)

const slots = 3

// slotScene is the slots scene under way.
type slotScene struct {
	spans
	mu    sync.Mutex // guards what is below
	held  int        // slots held now
	most  int        // and at most
	taken int        // acquisitions
}

// playSlots has the first two holders crash and leave.
func playSlots(ctx context.Context, r *run, workers []*worker) (Report, error) {
	s := &slotScene{}
	ctx, cancel := r.lasting(ctx, func() bool { return s.acquisitions() == len(workers) })
	defer cancel()
	crash, leave := make(chan struct{}), make(chan struct{})
	go func() {
		r.order(ctx, 0.2, crash)
		r.order(ctx, 0.45, leave)
	}()
	err := join(ctx, workers, func(w *worker) error { return s.work(ctx, w, crash, leave) })
	report := Report{Counts: map[string]int{
		"acquisitions": s.taken, "most_at_once": s.most,
		"overlaps": s.overlaps(func(a, b *span) bool { return a.what == b.what }),
	}}
	report.wants(s.most == slots, "all %d slots are held at once (%d were)", slots, s.most)
	report.wants(report.Counts["overlaps"] == 0, "no slot has two holders at once")
	report.wants(s.taken == len(workers), "waiters take over from a worker that crashes and from one that leaves (%d acquisitions, want %d)", s.taken, len(workers))
	left, e := r.left(workers)
	report.Counts["keys_left"] = len(left)
	report.wants(len(left) == 0, "no key is left behind (%d are) %s", len(left), strings.Join(left, ", "))
	return report, errors.Join(err, e)
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
	end := s.begin(strconv.Itoa(id), slot.Lease)
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

// left is the keys of the demo that are still there, but for those that expire by themselves: fences,
// the records of clients and the journal.
func (r *run) left(workers []*worker) (left []string, err error) {
	for _, w := range workers {
		w.client.Close()
	}
	l, err := dial(r.URL)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	err = l.Scan(context.Background(), "*"+r.prefix+"*", func(key string) error {
		for _, expires := range []string{":fence", ":client", "journal}:log"} {
			if strings.HasSuffix(key, expires) {
				return nil
			}
		}
		left = append(left, key)
		return nil
	})
	return left, err
}
