package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
)

// history records when each worker believed that it held the lock, by one clock.
type history struct {
	refused  atomic.Int64 // late writes
	takeover atomic.Int64 // in milliseconds; 0 if there was none

	mu    sync.Mutex // guards holds
	holds []*hold
}

// hold is the time for which one worker believed that it held the lock.
type hold struct {
	worker     int
	token      int64
	begin, end time.Time // end is zero while it lasts
}

// begin notes that a worker holds a lease, and returns a function that notes the end. The hold also
// ends when the lease is lost.
func (h *history) begin(worker int, lease *redlatch.Lease) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &hold{worker: worker, token: lease.Token(), begin: time.Now()}
	h.holds = append(h.holds, one)
	end = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !one.end.IsZero() {
			return
		}
		// On a busy machine, this may run much later than the lease's context ended.
		if one.end = time.Now(); lease.Deadline().Before(one.end) {
			one.end = lease.Deadline()
		}
	}
	context.AfterFunc(lease.Context(), end)
	return end
}

// Verdict is the result of a demo.
type Verdict struct {
	Acquisitions       int    `json:"acquisitions"`
	Overlaps           int    `json:"overlaps"`
	StaleWritesRefused int    `json:"stale_writes_refused"`
	TokensMonotonic    bool   `json:"tokens_monotonic"`
	TakeoverMS         *int64 `json:"takeover_ms"` // nil if there was none
	MinPerWorker       int    `json:"min_per_worker"`
	MaxPerWorker       int    `json:"max_per_worker"`
	WritesAccepted     int    `json:"writes_accepted"`

	EndedEarly bool     `json:"ended_early"` // by a signal
	Broken     []string `json:"broken"`      // the invariants that did not hold, or were not shown
}

func (r *run) verdict() Verdict {
	h := &r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	v := Verdict{
		Acquisitions: len(h.holds), StaleWritesRefused: int(h.refused.Load()), TokensMonotonic: true,
		WritesAccepted: int(r.counter.Load()), Broken: []string{},
	}
	if ms := h.takeover.Load(); ms > 0 {
		v.TakeoverMS = &ms
	}
	each := make([]int, r.Workers+1)
	for i, one := range h.holds {
		each[one.worker]++
		if i == 0 {
			continue
		}
		last := h.holds[i-1]
		if one.token <= last.token {
			v.TokensMonotonic = false
		}
		if last.end.IsZero() || last.end.After(one.begin) {
			v.Overlaps++
		}
	}
	v.MinPerWorker, v.MaxPerWorker = slices.Min(each[1:]), slices.Max(each[1:])
	wants := func(holds bool, what string) {
		if !holds {
			v.Broken = append(v.Broken, what)
		}
	}
	wants(v.Acquisitions > 0 && v.MinPerWorker > 0, "every worker acquires")
	wants(v.Overlaps == 0, fmt.Sprintf("no two workers hold at once (they did %d times)", v.Overlaps))
	wants(v.TokensMonotonic, "tokens strictly increase")
	wants(v.TakeoverMS != nil, "the lock of a crashed worker is taken over")
	wants(v.StaleWritesRefused > 0, "the write of a stalled worker is refused")
	return v
}

// text returns the verdict for people.
func (v Verdict) text(ttl time.Duration) string {
	monotonic := "strictly increasing"
	if !v.TokensMonotonic {
		monotonic = "NOT increasing"
	}
	takeover := "none was needed"
	if v.TakeoverMS != nil {
		takeover = fmt.Sprintf("%dms after the crash; its lease lasted %v", *v.TakeoverMS, ttl)
	}
	return fmt.Sprintf(`  acquisitions           %d
  overlaps               %d: how often two workers held the lock at once
  fencing tokens         %s
  stale writes refused   %d: a worker that woke up too late could do no harm
  taken over             %s
  turns per worker       %d to %d: first come, first served
`, v.Acquisitions, v.Overlaps, monotonic, v.StaleWritesRefused, takeover, v.MinPerWorker, v.MaxPerWorker)
}
