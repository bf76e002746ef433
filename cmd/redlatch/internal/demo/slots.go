package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// playSlots has the first two holders crash and leave. It returns what came of it, also when ctx ends
// it early. The error tells of what kept it from running.
func playSlots(ctx context.Context, c Config) (Report, error) {
	r := newRun(c)
	everyOne := func() bool {
		taken, _, _ := r.history.count()
		return taken == slotWorkers
	}
	take := func(w *worker, ctx context.Context) error {
		if err := w.takeSlot(ctx); ctx.Err() == nil {
			return err
		}
		return nil // an error at the end of the demo is that of its end
	}
	if err := r.play(ctx, [2]float64{0.2, 0.65}, everyOne, take); err != nil {
		return Report{}, err
	}
	taken, most, overlaps := r.history.count()
	report := Report{
		Scene: "slots", Kept: []string{}, Broken: []string{}, // and no null in JSON
		Counts: map[string]int{"acquisitions": taken, "most_at_once": most, "overlaps": overlaps},
	}
	report.wants(most == slots, "all %d slots are held at once (%d were)", slots, most)
	report.wants(overlaps == 0, "no slot has two holders at once")
	report.wants(taken == slotWorkers,
		"waiters take over from a worker that crashes and from one that leaves (%d acquisitions, want %d)",
		taken, slotWorkers)
	left, err := r.left()
	report.Counts["keys_left"] = len(left)
	report.wants(len(left) == 0, "no key is left behind (%d are) %s", len(left), strings.Join(left, ", "))
	return report, err
}

// takeSlot takes a slot and holds it until the end, or until it is this worker that is to crash or
// to leave.
func (w *worker) takeSlot(ctx context.Context) error {
	slot, err := w.client.SlotPool("slots", slots, redlatch.SlotOptions{}).Acquire(ctx)
	if err != nil {
		return err
	}
	id, err := slot.ID()
	if err != nil {
		return err
	}
	end := w.history.begin(w.number, id, slot.Lease)
	w.tell(Acquired, "takes slot %d", id)
	select {
	case <-w.crash:
		w.tell(Crashed, "crashes with slot %d, which rests when its lease is over", id)
		w.link.cut()
		<-slot.Context().Done()
		return nil
	case <-w.stall:
		w.tell(Released, "leaves slot %d, which is free at once", id)
	case <-slot.Context().Done(): // also when this machine stands still for longer than the lease lasts
	}
	end()
	if err := slot.Release(ctx); !errors.Is(err, redlatch.ErrNotHeld) {
		return err
	}
	return nil
}

// left is the keys of the demo that are still there, but for those that expire by themselves: fences,
// the records of clients and the journal.
func (r *run) left() (left []string, err error) {
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
