package ballot

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
)

// Waiters are the waiters for locks of a quorum, in this process.
type Waiters struct {
	mu  sync.Mutex
	try map[string]chan int // by waiter
}

// settles is about how long the other nodes have to tell a waiter to try, once one node has.
const settles = 5 * time.Millisecond

// all is more than the nodes of any quorum.
const all = 1 << 16

// Add returns the channel that tells a new waiter how many nodes said to try since its last look.
func (h *Waiters) Add(waiter string) <-chan int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.try == nil {
		h.try = make(map[string]chan int)
	}
	try := make(chan int, 1)
	h.try[waiter] = try
	return try
}

// Remove forgets a waiter.
func (h *Waiters) Remove(waiter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.try, waiter)
}

// WakeAll tells all waiters to try: the subscription on which they hear has come or gone.
func (h *Waiters) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, try := range h.try {
		tell(try, all)
	}
}

// Wake tells a waiter that one more node has room for it. It reports whether that waiter is there.
func (h *Waiters) Wake(waiter string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	try := h.try[waiter]
	if try != nil {
		tell(try, 1)
	}
	return try != nil
}

// tell adds to the number that a waiter has not looked at. The caller holds the mutex, and is the only
// one to send.
func tell(try chan int, nodes int) {
	select {
	case n := <-try:
		nodes += n
	default:
	}
	try <- nodes
}

// Rest returns when it is time to try again: after d, or when a majority of the nodes has told the
// waiter to, or when some have and the others have had time to. It returns as soon as a context is done.
//
// It is tempting to try when the first node says so. But the release is on its way to the others
// then, and the round is a tie. If nodes disagree on the first in line, several waiters collide.
func Rest(ctx, closing context.Context, try <-chan int, majority int, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	until := time.Now().Add(d)
	for told := 0; ; {
		select {
		case n := <-try:
			if told == 0 {
				timer.Reset(min(time.Until(until), retry.Jitter(settles, 0.5)))
			}
			if told += n; told >= majority {
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-closing.Done():
			return
		}
	}
}
