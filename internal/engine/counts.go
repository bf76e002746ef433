package engine

import "sync"

// Counts is the waits for counts of a client.
type Counts struct {
	mu  sync.Mutex // guards all; a leaf
	all map[*Count]struct{}
}

// Count is one wait for the count of a round. Both channels have room for one.
type Count struct {
	key   string
	round int64
	Zero  chan struct{} // a message says that the count is zero
	News  chan struct{} // something happened: ask
}

// Add begins a wait for the count of a round. It ends with Remove.
func (cs *Counts) Add(key string, round int64) *Count {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	w := &Count{key: key, round: round, Zero: make(chan struct{}, 1), News: make(chan struct{}, 1)}
	if cs.all == nil {
		cs.all = make(map[*Count]struct{})
	}
	cs.all[w] = struct{}{}
	return w
}

// Remove ends a wait.
func (cs *Counts) Remove(w *Count) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.all, w)
}

// waits reports whether there is a wait for the count with this key.
func (cs *Counts) waits(key string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for w := range cs.all {
		if w.key == key {
			return true
		}
	}
	return false
}

// hear takes a message that the count of a round is zero. Those that wait for another round of it
// ask.
func (cs *Counts) hear(key string, round int64) {
	cs.wake(func(w *Count) chan struct{} {
		switch {
		case w.key != key:
			return nil
		case w.round == round:
			return w.Zero
		}
		return w.News
	})
}

// askAll has all ask: messages may have been missed.
func (cs *Counts) askAll() { cs.wake(func(w *Count) chan struct{} { return w.News }) }

// wake sends to the channel of each wait that choose returns.
func (cs *Counts) wake(choose func(*Count) chan struct{}) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for w := range cs.all {
		select {
		case choose(w) <- struct{}{}:
		default: // none, or it is told already
		}
	}
}
