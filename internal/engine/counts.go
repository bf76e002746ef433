package engine

import "sync"

// Counts is the waits of a client for counts.
type Counts struct {
	mu  sync.Mutex                     // guards all; a leaf
	all map[string]map[*Count]struct{} // by the key of the count
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
		cs.all = make(map[string]map[*Count]struct{})
	}
	if cs.all[key] == nil {
		cs.all[key] = make(map[*Count]struct{})
	}
	cs.all[key][w] = struct{}{}
	return w
}

// Remove ends a wait.
func (cs *Counts) Remove(w *Count) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if delete(cs.all[w.key], w); len(cs.all[w.key]) == 0 {
		delete(cs.all, w.key)
	}
}

// waits reports whether there is a wait for the count with this key.
func (cs *Counts) waits(key string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.all[key]) > 0
}

// hear handles a message that the count of a round is zero. Waits for another round of it ask
// Redis.
func (cs *Counts) hear(key string, round int64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for w := range cs.all[key] {
		if w.round == round {
			tell(w.Zero)
		} else {
			tell(w.News)
		}
	}
}

// askAll has all waits ask Redis: messages may have been missed.
func (cs *Counts) askAll() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, waits := range cs.all {
		for w := range waits {
			tell(w.News)
		}
	}
}

// tell sends to a channel that has room for one, unless it is told already.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
