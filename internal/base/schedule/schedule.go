// Package schedule wakes one goroutine for many deadlines, so that a client that holds 100,000
// leases has one timer.
//
// An [Entry] has a time at which it is due, and a slack: how much earlier it may be taken along with
// another that has a slack. Entries that are taken together are handed over together: the owner of
// each is called, and then a function for what they have in common, which is how extends of many
// leases become one batch.
//
// Go's timers stand still while a machine is suspended. So the schedule never sleeps longer than
// [Tick] while something is on it, and when it finds that the wall clock went ahead of the
// monotonic one, it hands over everything: an owner that is called early looks at its own clock and
// schedules its entry again.
package schedule

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
)

// Tick is the longest sleep while something is scheduled.
const Tick = time.Second

// jump is how far the clocks may drift apart in one sleep before everything is handed over.
const jump = 50 * time.Millisecond

// Owner is called when its entry is due.
type Owner interface {
	// Due is called when the entry is handed over, early or not, on the goroutine of the schedule.
	// It must not block for long.
	Due(now clock.Reading)
}

// Entry is one thing to be woken for. The zero value is not scheduled. It belongs to one Schedule,
// whose lock guards its fields.
type Entry struct {
	Owner Owner // set before the entry is scheduled

	slack time.Duration
	index int // in the heap, from 1; 0 when not scheduled
}

// Schedule is a set of entries and the goroutine that waits for them.
type Schedule struct {
	clock clock.Clock
	begun time.Time
	after func()
	stop  chan struct{}
	wake  chan struct{} // there is an entry that is due before the goroutine would wake
	done  chan struct{}

	mu     sync.Mutex // guards what is below
	heap   entries
	wakeAt time.Time // when the goroutine wakes by itself; zero while it sleeps without end
}

// Start returns a schedule that calls the owners of the entries that are due, on its own goroutine,
// and then after, which must not block for long either. It calls after whenever it wakes, so at least
// once in each [Tick] while something is scheduled.
func Start(now clock.Clock, after func()) *Schedule {
	s := &Schedule{clock: now, begun: now().Time(), after: after, stop: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Stop ends the goroutine and returns when it is gone. Nothing is handed over any more.
func (s *Schedule) Stop() {
	close(s.stop)
	<-s.done
}

// Set schedules the entry, or moves it.
func (s *Schedule) Set(e *Entry, due time.Time, slack time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(e, due, slack)
}

// Advance schedules the entry for that time, unless it is due earlier already.
func (s *Schedule) Advance(e *Entry, due time.Time) { s.AdvanceWithin(e, due, 0) }

// AdvanceWithin is Advance for an entry with a slack.
func (s *Schedule) AdvanceWithin(e *Entry, due time.Time, slack time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index == 0 || due.Sub(s.begun) < s.heap[e.index-1].due {
		s.set(e, due, slack)
	}
}

func (s *Schedule) set(e *Entry, due time.Time, slack time.Duration) {
	e.slack = slack
	if e.index == 0 {
		// Not heap.Push, whose argument would be allocated.
		s.heap = append(s.heap, place{due.Sub(s.begun), e})
		e.index = len(s.heap)
		heap.Fix(&s.heap, e.index-1)
	} else {
		s.heap[e.index-1].due = due.Sub(s.begun)
		heap.Fix(&s.heap, e.index-1)
	}
	if s.wakeAt.IsZero() || due.Before(s.wakeAt) {
		s.wakeAt = due
		select {
		case s.wake <- struct{}{}:
		default: // it is being woken already
		}
	}
}

// Remove takes the entry off. One that was handed over before stays handed over.
func (s *Schedule) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index > 0 {
		heap.Remove(&s.heap, e.index-1)
	}
}

func (s *Schedule) run() {
	defer close(s.done)
	stopped := false
	defer func() {
		if !stopped { // by a hook that calls t.FailNow, say; else leases would silently not be extended any more
			panic("redlatch: a hook has ended the goroutine that extends the leases of its client: it panicked, or called runtime.Goexit")
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := s.clock()
	for {
		select {
		case <-s.stop:
			stopped = true
			return
		case <-s.wake:
		case <-timer.C:
		}
		now := s.clock()
		due := s.take(now.Time(), now.Gap(last) > jump)
		last = now
		for _, e := range due {
			e.Owner.Due(now)
		}
		s.after()
		s.sleep(timer)
	}
}

// take removes and returns the entries that are due, or all. It takes an entry early only along
// with one that is due and has a slack, too: otherwise, each other wakeup would take some of the
// entries that go together, and leave the others for later.
func (s *Schedule) take(now time.Time, all bool) []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*Entry
	early := false
	for len(s.heap) > 0 {
		e, left := s.heap[0].entry, s.heap[0].due-now.Sub(s.begun)
		if !all && left > 0 && (!early || left > e.slack) {
			break
		}
		early = early || e.slack > 0
		due = append(due, e)
		heap.Remove(&s.heap, 0)
	}
	return due
}

// sleep sets the timer for the next entry.
func (s *Schedule) sleep(timer *time.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heap) == 0 {
		s.wakeAt = time.Time{}
		timer.Stop()
		return
	}
	now := time.Now()
	s.wakeAt = s.begun.Add(s.heap[0].due)
	if tick := now.Add(Tick); tick.Before(s.wakeAt) {
		s.wakeAt = tick
	}
	timer.Reset(s.wakeAt.Sub(now))
}

// place is where an entry stands in the heap. The time is here and not in the entry, since it is
// compared often, and entries are scattered in memory.
type place struct {
	due   time.Duration // since the schedule began
	entry *Entry
}

type entries []place

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].due < h[j].due }
func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].entry.index, h[j].entry.index = i+1, j+1
}

// Push implements [heap.Interface]. Entries are added by set.
func (h *entries) Push(any) {}

func (h *entries) Pop() any {
	last := len(*h) - 1
	(*h)[last].entry.index = 0
	(*h)[last] = place{}
	*h = (*h)[:last]
	return nil
}
