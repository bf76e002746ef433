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

// history is all that the workers believed, by one clock.
type history struct {
	refused  atomic.Int64 // late writes
	takeover atomic.Int64 // in milliseconds; 0 if there was none

	mu    sync.Mutex // guards holds
	holds []*hold
}

// hold is the time for which one worker believed that it held the lock, or a slot.
type hold struct {
	worker     int
	slot       int
	token      int64
	begin, end time.Time // end is zero while it lasts
}

// before reports whether a hold had ended when another began.
func (h *hold) before(next *hold) bool { return !h.end.IsZero() && !h.end.After(next.begin) }

// begin notes that a worker holds a lease, and returns what notes that it stopped. It also stops
// when the lease is lost.
func (h *history) begin(worker, slot int, lease *redlatch.Lease) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &hold{worker: worker, slot: slot, token: lease.Token(), begin: time.Now()}
	h.holds = append(h.holds, one)
	end = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !one.end.IsZero() {
			return
		}
		// On a busy machine, what waits for the lease's context may run much later than it ended.
		if one.end = time.Now(); lease.Deadline().Before(one.end) {
			one.end = lease.Deadline()
		}
	}
	context.AfterFunc(lease.Context(), end)
	return end
}

// Verdict is what came of a demo.
type Verdict struct {
	Acquisitions       int   `json:"acquisitions"`
	Overlaps           int   `json:"overlaps"`
	StaleWritesRefused int   `json:"stale_writes_refused"`
	TokensMonotonic    bool  `json:"tokens_monotonic"`
	TakeoverMS         int64 `json:"takeover_ms"`
	MinPerWorker       int   `json:"min_per_worker"`
	MaxPerWorker       int   `json:"max_per_worker"`
	WritesAccepted     int   `json:"writes_accepted"`

	Broken []string `json:"broken"` // the invariants that did not hold
}

func (h *history) verdict(c *counter, workers int) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := Verdict{
		Acquisitions: len(h.holds), StaleWritesRefused: int(h.refused.Load()), TokensMonotonic: true,
		TakeoverMS: h.takeover.Load(), WritesAccepted: int(c.value.Load()), Broken: []string{},
	}
	each := make([]int, workers+1)
	for i, one := range h.holds {
		each[one.worker]++
		if i == 0 {
			continue
		}
		last := h.holds[i-1]
		if one.token <= last.token {
			v.TokensMonotonic = false
		}
		if !last.before(one) {
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
	wants(v.TakeoverMS > 0, "the lock of a crashed worker is taken over")
	wants(v.StaleWritesRefused > 0, "the write of a stalled worker is refused")
	return v
}

// count returns how many holds there were, how many at most at the same time, and how many pairs of
// them that were of one slot.
func (h *history) count() (all, most, overlaps int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, b := range h.holds {
		at := 1
		for _, a := range h.holds[:i] {
			if a.before(b) {
				continue
			}
			at++
			if a.slot == b.slot {
				overlaps++
			}
		}
		most = max(most, at)
	}
	return len(h.holds), most, overlaps
}

// counter is a resource that checks fencing tokens, as a row with a fence column would. The zero
// value is ready.
type counter struct {
	mu     sync.Mutex // held by writers
	value  atomic.Int64
	newest atomic.Int64 // token
}

// add adds one, unless a newer token than this was here before.
func (c *counter) add(token int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if newest := c.newest.Load(); token < newest {
		late := time.Duration(newest-token) * time.Microsecond
		return fmt.Errorf("its token is %v older than the newest", late)
	}
	c.newest.Store(token)
	c.value.Add(1)
	return nil
}

// passes returns when a newer token was here, or ctx is done.
func (c *counter) passes(ctx context.Context, token int64) {
	for ctx.Err() == nil && c.newest.Load() <= token {
		time.Sleep(time.Millisecond)
	}
}
