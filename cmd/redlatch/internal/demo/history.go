package demo

import (
	"context"
	"fmt"
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
		if one.end.IsZero() {
			one.end = heldUntil(lease)
		}
	}
	context.AfterFunc(lease.Context(), end)
	return end
}

// heldUntil returns now, or the end of the lease if that has passed: on a busy machine, what waits
// for the lease's context may run much later than the lease ended.
func heldUntil(lease *redlatch.Lease) time.Time {
	now, deadline := time.Now(), lease.Deadline()
	if deadline.Before(now) {
		return deadline
	}
	return now
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

func (h *history) verdict(c *Counter, workers int) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := Verdict{
		Acquisitions: len(h.holds), StaleWritesRefused: int(h.refused.Load()), TokensMonotonic: true,
		TakeoverMS: h.takeover.Load(), WritesAccepted: c.Value(), Broken: []string{},
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
	v.MinPerWorker, v.MaxPerWorker = each[1], each[1]
	for _, n := range each[1:] {
		v.MinPerWorker, v.MaxPerWorker = min(v.MinPerWorker, n), max(v.MaxPerWorker, n)
	}
	v.judge()
	return v
}

// judge lists the invariants that did not hold.
func (v *Verdict) judge() {
	for _, rule := range []struct {
		holds bool
		what  string
	}{
		{v.Acquisitions > 0 && v.MinPerWorker > 0, "every worker acquires"},
		{v.Overlaps == 0, fmt.Sprintf("no two workers hold at once (they did %d times)", v.Overlaps)},
		{v.TokensMonotonic, "tokens strictly increase"},
		{v.TakeoverMS > 0, "the lock of a crashed worker is taken over"},
		{v.StaleWritesRefused > 0, "the write of a stalled worker is refused"},
	} {
		if !rule.holds {
			v.Broken = append(v.Broken, rule.what)
		}
	}
}

// Counter is a resource that checks fencing tokens, as a row with a fence column would. The zero
// value is ready.
type Counter struct {
	mu     sync.Mutex // guards what is below
	value  int
	newest int64 // token
}

// Add adds one, unless a newer token than this was here before.
func (c *Counter) Add(token int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < c.newest {
		return fmt.Errorf("its token is %v older than the newest", time.Duration(c.newest-token)*time.Microsecond)
	}
	c.newest = token
	c.value++
	return nil
}

// passes returns when a newer token was here, or ctx is done.
func (c *Counter) passes(ctx context.Context, token int64) {
	for ctx.Err() == nil && c.newestToken() <= token {
		time.Sleep(time.Millisecond)
	}
}

func (c *Counter) newestToken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// Value is the number of writes that were accepted.
func (c *Counter) Value() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}
