package history

import (
	"slices"
	"time"
)

// Loss is a time in which Redis may have forgotten locks: what was acquired before its end may be
// held by others from its begin on, for as long as the old holders are not told.
type Loss struct {
	Fault       string // that may have made Redis forget
	Name        string // of the lock; "" for all
	From, Until int64
}

func (l Loss) hits(name string) bool { return l.Name == "" || l.Name == name }

// Rules are what the checks have to know of a run.
type Rules struct {
	Permits int64         // of each semaphore
	Rest    time.Duration // of a slot whose holder vanished
	Window  time.Duration // of each job
	Bound   time.Duration // within which a waiter is served after the last fault; 0 to not look
	Losses  []Loss

	// Shared says that two clients that acquire different slots of one pool at the same time may get the same
	// token, as over a quorum.
	Shared bool

	// Lingers says for which names a client may keep the lock when it releases it. It sends no
	// request when it takes the lock up again, so a loss that it was not told of still counts as a
	// loss for its token. nil means none.
	Lingers func(name string) bool

	Heartbeat time.Duration // of the waiters; 0 to not check how many requests they send and how they get a lock
	Settle    time.Duration // after the last fault, until all clients hear messages again
	Silent    bool          // no messages arrive here, so waiters poll
}

// lost reports whether Redis may have forgotten the name between these times.
func (r Rules) lost(name string, from, until int64) bool {
	return slices.ContainsFunc(r.Losses, func(l Loss) bool { return l.hits(name) && l.From <= until && l.Until >= from })
}

// unasked reports whether a hold may have begun without a request: its client had kept the lock, or its
// owner was inside already.
func (r Rules) unasked(k *Hold) bool {
	switch k.Kind {
	case Mutex, RWMutex, Multi:
		return r.Lingers != nil && r.Lingers(k.Name)
	case Reentrant:
		return true
	}
	return false
}
