package redlatch

import "sync"

// leases is the leases of a client that are held, by owner: those that a message or Close has to
// find.
type leases struct {
	mu      sync.Mutex // guards byOwner
	byOwner map[string]*Lease
}

// add remembers a lease. One that was passed on within a handoff takes the place of the one before
// it, whose owner it has.
func (ls *leases) add(l *Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byOwner == nil {
		ls.byOwner = make(map[string]*Lease)
	}
	ls.byOwner[l.owner] = l
}

// remove forgets a lease, unless another one has its owner by now.
func (ls *leases) remove(l *Lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byOwner[l.owner] == l {
		delete(ls.byOwner, l.owner)
	}
}

// of returns the lease of an owner, or nil.
func (ls *leases) of(owner string) *Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.byOwner[owner]
}

// all returns every lease, in no order.
func (ls *leases) all() []*Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	all := make([]*Lease, 0, len(ls.byOwner))
	for _, l := range ls.byOwner {
		all = append(all, l)
	}
	return all
}
