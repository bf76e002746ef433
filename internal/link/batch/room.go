package batch

import (
	"context"
	"sync/atomic"
	"time"
)

// Room bounds how many requests to the nodes of a quorum are under way, and lets them begin in
// order. Requests share a time limit. Without a bound, a burst would exceed it even at healthy
// nodes: no answer would count then, and all requests would be sent again. Rounds of votes have one
// Room (ballot.MaxUnderWay, attempt.enter), and other requests another (package ask).
type Room struct {
	underWay chan struct{} // one for each request
	answered atomic.Uint64 // how many requests were answered
}

// NewRoom returns a Room for that many requests.
func NewRoom(most int) *Room { return &Room{underWay: make(chan struct{}, most)} }

// Enter waits until a request may begin, and reports whether it may; if so, the caller calls Leave
// later. It waits for at most within. If waits is set, it goes on as long as others are answered in
// each such period, and reports whether any were. Enter returns early when ctx or closing is done.
func (r *Room) Enter(ctx, closing context.Context, within time.Duration, waits bool) (begins, answered bool) {
	select {
	case r.underWay <- struct{}{}:
		return true, false
	default:
	}
	late := time.NewTimer(within)
	defer late.Stop()
	first := r.answered.Load()
	for last := first; ; {
		select {
		case r.underWay <- struct{}{}:
			return true, r.answered.Load() != first
		case <-late.C:
			now := r.answered.Load()
			if !waits || now == last {
				return false, false
			}
			last = now
			late.Reset(within)
		case <-ctx.Done():
			return false, false
		case <-closing.Done():
			return false, false
		}
	}
}

// Leave ends a request, which was answered or not.
func (r *Room) Leave(answered bool) {
	if answered {
		r.answered.Add(1)
	}
	<-r.underWay
}
