// Package linger decides for which names it pays to keep a lock that the program has released, and
// how many tokens to take for that. It asks Redis nothing. Package acquire asks it before an acquisition
// (wishToKeep in its kept.go); package lease decides whether one release is kept (keep in its kept.go).
//
//	         Take: a block of tokens          all used: the next block is twice as large
//	calm ----------------------------> kept ----------------------------------> kept
//	  ^                                  |
//	  |                                  | Asked: another wanted the name, and it was taken up
//	  |                                  v        fewer than three times
//	  '----- so many acquisitions ---- backs off: 1, 2, 4 ... 64 acquisitions, none of them kept
//
// Two processes that take turns would ask each other for each turn. So a name that was asked for is
// left alone for a while, twice as long each time. That does not apply if keeping it was worth the
// question: the process that makes most acquisitions of a name keeps it, and a visitor does not.
package linger

import "sync"

const (
	// MinBlock is how many tokens a client takes with a lock that it may keep. They are
	// microseconds of the server's clock. An acquisition takes no less, so the clock stays ahead.
	MinBlock = 128
	// MaxBlock bounds what is taken and perhaps not used. It stays below 1<<15, which leases count to.
	MaxBlock = 16384
	// maxRest is how many acquisitions at most are not kept, after one that was asked for.
	maxRest = 64
	// worth is how often a lock must have been taken up to be worth a question. Each time saves two
	// requests.
	worth = 3
	// maxNames is how many names are remembered.
	maxNames = 1024
)

// Habits is what one client has found out about names. The zero value is ready for use, and safe
// for concurrent use.
type Habits struct {
	mu    sync.Mutex // guards what is below; a leaf
	names map[string]*habit
	older map[string]*habit // those before the last maxNames
}

// habit is what is known of a name.
type habit struct {
	block int // tokens in the next block
	taken int // tokens taken by the last acquisition that may be kept
	rest  int // acquisitions that will not be kept
	tired int // the next rest
}

// Take returns how many tokens to take with an acquisition of the name that may be kept, or 0 if it
// should not be kept.
func (h *Habits) Take(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.ofLocked(name)
	if n.rest > 0 {
		n.rest--
		return 0
	}
	n.taken = n.block
	return n.block
}

// Asked notes that another client wanted the name while this client may only have kept it, with
// left tokens unused.
func (h *Habits) Asked(name string, left int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.ofLocked(name)
	n.block = MinBlock
	if n.taken-1-left >= worth {
		n.tired = 1
		return
	}
	n.rest, n.tired = n.tired, min(2*n.tired, maxRest)
}

// Spent notes that all tokens of a block were used, and no other client has asked for the name.
func (h *Habits) Spent(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.ofLocked(name)
	n.block, n.tired = min(2*n.block, MaxBlock), 1
}

// Calm notes that a lock was kept for all of its time, and no other client asked for it.
func (h *Habits) Calm(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.ofLocked(name)
	n.block, n.tired = MinBlock, max(n.tired/2, 1)
}

// ofLocked returns what is known of a name. Names that were not used lately are forgotten.
func (h *Habits) ofLocked(name string) *habit {
	n := h.names[name]
	if n != nil {
		return n
	}
	if n = h.older[name]; n == nil {
		n = &habit{block: MinBlock, tired: 1}
	}
	if len(h.names) >= maxNames {
		h.names, h.older = nil, h.names
	}
	if h.names == nil {
		h.names = make(map[string]*habit)
	}
	h.names[name] = n
	return n
}
