package help

import (
	"sync"
)

// HighWater is a resource that checks tokens: it refuses those that are not the largest that it has
// seen.
type HighWater struct {
	mu   sync.Mutex // guards mark
	mark int64
}

// Admit reports whether a holder with this token may still write; 0 is no holder's.
func (w *HighWater) Admit(token int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token == 0 || token < w.mark {
		return false
	}
	w.mark = token
	return true
}
