package redlatch

import "sync"

// leases is the leases of a client that are held, by owner: those that a message or Close has to
// find.
type leases struct {
	mu      sync.Mutex // guards what is below
	byOwner map[string]*Lease
	stacks  map[uint64][]uintptr // of acquisitions, by id, with Options.TraceLeases
	taken   map[string]*Force    // by force, by owner: what messages told of leases that are held still
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
	delete(ls.stacks, l.id)
	if ls.byOwner[l.owner] == l {
		delete(ls.byOwner, l.owner)
		delete(ls.taken, l.owner)
	}
}

// noteStack remembers where a lease was acquired, unless it has ended already.
func (ls *leases) noteStack(l *Lease, callers []uintptr) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byOwner[l.owner] != l {
		return
	}
	if ls.stacks == nil {
		ls.stacks = make(map[uint64][]uintptr)
	}
	ls.stacks[l.id] = callers
}

// stack returns where a lease was acquired, "" if that is not known.
func (ls *leases) stack(id uint64) string {
	ls.mu.Lock()
	callers := ls.stacks[id]
	ls.mu.Unlock()
	return stackText(callers)
}

// noteForced remembers what a message told of an owner, if it has a lease, and returns the lease.
func (ls *leases) noteForced(owner string, f *Force) *Lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byOwner[owner]
	if l != nil && f != nil {
		if ls.taken == nil {
			ls.taken = make(map[string]*Force)
		}
		ls.taken[owner] = f
	}
	return l
}

// forced returns what a message told of an owner that has a lease still, or nil.
func (ls *leases) forced(owner string) *Force {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.taken[owner]
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
