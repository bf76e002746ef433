package redlatch

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
)

// longWaits has the waits of a client noted in the journal while they go on: each once, when it has
// lasted for JournalOptions.Waited. They come due in the order in which they began, so all of them
// take one entry of the schedule.
type longWaits struct {
	recorder *recorder
	entry    schedule.Entry
	n        atomic.Int64 // that are not noted yet: for those that end and never waited

	mu   sync.Mutex // guards what is below
	line list.List  // of *longWait, the oldest first
	byID map[uint64]*list.Element
}

// longWait is an attempt that waits.
type longWait struct {
	ctx   context.Context
	latch *latch
	event Event         // that told of the wait
	since clock.Reading // when that was
}

func newLongWaits(r *recorder) *longWaits {
	w := &longWaits{recorder: r, byID: make(map[uint64]*list.Element)}
	w.entry.Owner = w
	return w
}

// begin notes, later, an attempt that now waits.
func (w *longWaits) begin(ctx context.Context, l *latch, e Event) {
	now := w.recorder.client.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byID[e.ID] = w.line.PushBack(&longWait{ctx, l, e, now})
	w.n.Add(1)
	if w.line.Len() == 1 {
		w.rescheduleLocked(now)
	}
}

// end forgets an attempt that has ended, if it waited.
func (w *longWaits) end(id uint64) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.byID[id]; at != nil {
		w.dropLocked(at)
	}
}

func (w *longWaits) dropLocked(at *list.Element) {
	delete(w.byID, w.line.Remove(at).(*longWait).event.ID)
	w.n.Add(-1)
}

// rescheduleLocked has Due called when the oldest wait is long. If that one ends before, Due finds
// the next.
func (w *longWaits) rescheduleLocked(now clock.Reading) {
	if first := w.line.Front(); first != nil {
		left := w.recorder.client.options.Journal.Waited - now.Since(first.Value.(*longWait).since)
		w.recorder.client.schedule.Set(&w.entry, now.Time().Add(max(left, time.Millisecond)), 0)
	}
}

// Due implements [schedule.Owner]: it notes the waits that are long by now.
func (w *longWaits) Due(now clock.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for first := w.line.Front(); first != nil; first = w.line.Front() {
		wait := first.Value.(*longWait)
		waited := now.Since(wait.since)
		if waited < w.recorder.client.options.Journal.Waited {
			break
		}
		wait.event.Waited += waited
		w.recorder.journal.Add(w.recorder.entry(wait.ctx, wait.latch, JournalWaiting, wait.event))
		w.dropLocked(first)
	}
	w.rescheduleLocked(now)
}
