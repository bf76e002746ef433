package fleet

import (
	"sync"
	"time"
)

// Minute is how many waiters a lock had in one minute, and how long they waited.
type Minute struct {
	Looked  bool          // the lock was looked at in it
	Waiting int           // the most waiters at one time
	Waited  time.Duration // the longest wait
}

const (
	minutes = 60   // that are remembered
	waited  = 1000 // names whose waits are remembered, at most
)

// hour is what is remembered about the waiters of locks.
type hour struct {
	mu     sync.Mutex         // guards all below
	looked [minutes]int64     // minutes in which all names were looked at, at index minute%minutes
	names  map[string][]dated // that had waiters, or that a viewer had open; oldest first
	full   [minutes]int64     // the minutes in which there was no room for a name
	swept  int64              // the minute in which names that are too old were last forgotten
}

type dated struct {
	at int64
	Minute
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// note remembers a look at these names; all says that there are no others.
func (h *hour) note(locks []*Lock, all bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := minuteOf(now)
	if h.sweepLocked(at); all {
		h.looked[at%minutes] = at
	}
	for _, l := range locks {
		if l.Waiting > 0 || !all {
			h.addLocked(l.Name, at, Minute{true, l.Waiting, l.Waited})
		}
	}
}

func (h *hour) addLocked(name string, at int64, m Minute) {
	past := h.names[name]
	if past == nil && len(h.names) >= waited {
		h.full[at%minutes] = at
		return
	}
	if n := len(past); n > 0 && past[n-1].at == at {
		last := &past[n-1]
		last.Waiting, last.Waited = max(last.Waiting, m.Waiting), max(last.Waited, m.Waited)
		return
	}
	if h.names == nil {
		h.names = make(map[string][]dated)
	}
	h.names[name] = append(past[max(0, len(past)-minutes+1):], dated{at, m})
}

// sweepLocked forgets the names that no client has waited for in an hour.
func (h *hour) sweepLocked(at int64) {
	if at == h.swept {
		return
	}
	h.swept = at
	for name, past := range h.names {
		if past[len(past)-1].at <= at-minutes {
			delete(h.names, name)
		}
	}
}

// of returns the last hour of a name, oldest first.
func (h *hour) of(name string, now time.Time) []Minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := minuteOf(now)
	all := make([]Minute, minutes)
	known := h.names[name] != nil // else clients may have waited for it
	for i := range all {
		at := last - minutes + 1 + int64(i)
		all[i].Looked = h.looked[at%minutes] == at && (known || h.full[at%minutes] != at)
	}
	for _, d := range h.names[name] {
		if i := d.at - (last - minutes + 1); i >= 0 && i < minutes {
			all[i] = d.Minute
		}
	}
	return all
}

// recall remembers minutes of a name, oldest first; the last one has just ended.
func (h *hour) recall(name string, past []Minute, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := minuteOf(now)
	for i, m := range past {
		if at := last - int64(len(past)-i); m.Looked {
			h.addLocked(name, at, m)
		}
	}
}
