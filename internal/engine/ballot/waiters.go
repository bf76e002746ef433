package ballot

import "sync"

// Waiters are the waiters for locks of a quorum, in this process.
type Waiters struct {
	mu  sync.Mutex
	all map[string]chan struct{} // by waiter
}

// Add returns a new waiter: the channel on which it is told to try.
func (h *Waiters) Add(waiter string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[string]chan struct{})
	}
	try := make(chan struct{}, 1)
	h.all[waiter] = try
	return try
}

// Remove forgets a waiter.
func (h *Waiters) Remove(waiter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, waiter)
}

// WakeAll tells all waiters to try: what they hear by, or do not hear by any more, has changed.
func (h *Waiters) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, try := range h.all {
		tell(try)
	}
}

// Wake tells a waiter that a node has room for it. Each node says so.
func (h *Waiters) Wake(waiter string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tell(h.all[waiter])
}

// tell has a waiter try, unless it was told already or, without a channel, has left.
func tell(try chan<- struct{}) {
	select {
	case try <- struct{}{}:
	default:
	}
}
