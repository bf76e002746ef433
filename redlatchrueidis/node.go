package redlatchrueidis

import "sync/atomic"

// node is the server that requests go to. It knows whether a request may go direct, which waits for
// no connection: the connection answered a request, and none has ended since.
type node struct {
	troubles atomic.Uint64 // connections that ended, and requests that got no answer
	steadyAt atomic.Uint64 // troubles when a request began that was answered, plus 1
}

// steady reports whether the connection is up and answered the request before.
func (n *node) steady() bool { return n != nil && n.steadyAt.Load() == n.troubles.Load()+1 }

// trouble notes that a connection ended, or that a request got no answer.
func (n *node) trouble() {
	if n != nil {
		n.troubles.Add(1)
	}
}

// mark returns what proved wants of a request that begins now.
func (n *node) mark() uint64 {
	if n == nil {
		return 0
	}
	return n.troubles.Load() + 1
}

// proved notes that a request was answered. No connection has ended since its mark if troubles is
// still the same, so the one that it used is open.
func (n *node) proved(mark uint64) {
	if n != nil {
		n.steadyAt.Store(mark)
	}
}
