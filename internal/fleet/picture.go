package fleet

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// Line is how many waiters of a lock are kept; the others are only counted.
const Line = 100

// Lock is one name in a picture.
type Lock struct {
	redlatch.LockInfo           // Waiters has the first Line of them
	Waiting           int       // all waiters
	Deaf              int       // waiters that are believed dead
	Calls             int       // callers for which the other waiters stand in line
	Looked            time.Time // by this machine's clock
}

// NewLock returns what is kept of a name.
func NewLock(info redlatch.LockInfo, looked time.Time) *Lock {
	l := &Lock{LockInfo: info, Waiting: len(info.Waiters), Looked: looked}
	for _, w := range info.Waiters {
		if w.Dead {
			l.Deaf++
		} else {
			l.Calls += max(1, w.Callers)
		}
	}
	if len(l.Waiters) > Line {
		l.Waiters = slices.Clone(l.Waiters[:Line])
	}
	return l
}

// Held returns for how long the oldest holder has held the lock; 0 if that is unknown, and for a
// place that is kept free.
func (l *Lock) Held() time.Duration {
	var held time.Duration
	for _, h := range l.Holders {
		if !h.Resting && !h.Since.IsZero() {
			held = max(held, l.At.Sub(h.Since))
		}
	}
	return held
}

// Waited returns for how long the first in line has waited.
func (l *Lock) Waited() time.Duration {
	if len(l.Waiters) == 0 || l.Waiters[0].Since.IsZero() {
		return 0
	}
	return max(0, l.At.Sub(l.Waiters[0].Since))
}

// Holding returns how many hold the lock. A place that is kept free has no holder.
func (l *Lock) Holding() int {
	n := 0
	for _, h := range l.Holders {
		if !h.Resting {
			n++
		}
	}
	return n
}

// ToGo says how a countdown stands, which has no holders; "" for a lock.
func (l *Lock) ToGo() string {
	if l.Kind != "countdown" {
		return ""
	}
	return Count(l.Count) + " of " + Count(l.Size) + " to go"
}

// Troubled reports whether the lock needs a look: a holder or waiter is believed dead, or the key
// is no lock.
func (l *Lock) Troubled() bool {
	return l.Deaf > 0 || l.RedisType != "" || slices.ContainsFunc(l.Holders, func(h redlatch.Holder) bool { return h.Dead })
}

// Totals are what a picture comes to.
type Totals struct {
	At            time.Time // by this machine's clock
	Names         int
	Holders       int
	Waiters       int
	Dead          int           // holders and waiters that are believed dead
	LongestHeld   time.Duration // without leaders and slots, which are held for long
	LongestWaited time.Duration // without candidates, which wait for long
	OldestHeld    string
	OldestWaited  string
}

// Add counts one more lock.
func (t *Totals) Add(l *Lock) {
	t.Names++
	t.Holders += l.Holding()
	t.Waiters += l.Waiting
	t.Dead += l.Deaf
	for _, h := range l.Holders {
		if h.Dead {
			t.Dead++
		}
	}
	if d := l.Held(); d > t.LongestHeld && l.Kind != "election" && l.Kind != "slotpool" {
		t.LongestHeld, t.OldestHeld = d, l.Name
	}
	if d := l.Waited(); d > t.LongestWaited && l.Kind != "election" {
		t.LongestWaited, t.OldestWaited = d, l.Name
	}
}

// Picture is what is known of all locks at one moment.
type Picture struct {
	Number  uint64    // counts pictures
	Made    time.Time // by this machine's clock
	Locks   []*Lock   // in use, by name
	Totals  Totals
	History []Totals // of earlier pictures, oldest first

	Taken time.Time     // when the last look at all names ended; zero if none did
	Took  time.Duration // of that look, without the pauses
	Pause time.Duration // until the next
	Found int           // names that the first look has found so far; 0 once it has ended

	Err   error     // of the last look at all names; nil if it succeeded
	Since time.Time // of the first of the looks that failed in a row

	Nodes   []redlatch.NodeInfo // of a quorum
	details map[string]*detail  // of the names that a viewer has open
	records map[string]*Record  // of these, and "" for all, as far as viewers look at them

	Deadlocks    []redlatch.Deadlock // as of the last look for them, some seconds ago
	DeadlocksErr error               // of that look

	once      sync.Once
	processes []*Process
}

// fresh is the age up to which a picture is as good as live.
const fresh = 5 * time.Second

// Age returns how old the list of locks is, or 0 if that is not worth telling: there is none, or it
// is fresh. With many names, or a slow Redis, a look takes long.
func (p *Picture) Age(now time.Time) time.Duration {
	age := now.Sub(p.Taken)
	if p.Taken.IsZero() || age <= fresh {
		return 0
	}
	return age
}

// Record is what happened to one lock or to all, as far as clients noted it.
type Record struct {
	Entries []redlatch.JournalEntry // newest first
	Err     error                   // of the last look; Entries are those of the last that succeeded
	Read    time.Time
}

// Record returns what happened to a name that a viewer has open, or to all if it is "". It is nil if
// that has not been looked at yet.
func (p *Picture) Record(name string) *Record { return p.records[name] }

type detail struct {
	lock *Lock
	err  error
}

// Detail returns the name that a viewer has open, also if it is free. Both are nil if it has not
// been looked at yet.
func (p *Picture) Detail(name string) (*Lock, error) {
	if d := p.details[name]; d != nil {
		return d.lock, d.err
	}
	return p.find(name), nil
}

// find returns a name that is in use, or nil.
func (p *Picture) find(name string) *Lock {
	i, ok := slices.BinarySearchFunc(p.Locks, name, func(l *Lock, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return p.Locks[i]
}

// Process is a client and what it holds and waits for.
type Process struct {
	redlatch.Process
	Client  string
	Holds   []*Lock
	Waits   []*Lock
	Dead    bool
	Seen    time.Time     // the last sign of life, by the server's clock
	Ago     time.Duration // since that, when the picture was taken
	Longest time.Duration // that it has waited
}

// Processes returns the clients that hold or wait, by host, program and process id. Of a long line,
// only those in its first part are known.
func (p *Picture) Processes() []*Process {
	p.once.Do(func() { p.processes = processes(p.Locks) })
	return p.processes
}

func processes(locks []*Lock) []*Process {
	byClient := make(map[string]*Process)
	meet := func(l *Lock, client string, at redlatch.Process, seen time.Time, dead bool) *Process {
		if client == "" {
			return nil
		}
		q := byClient[client]
		if q == nil {
			q = &Process{Client: client}
			byClient[client] = q
		}
		if at.Host != "" {
			q.Process = at
		}
		if seen.After(q.Seen) {
			q.Seen, q.Ago = seen, max(0, l.At.Sub(seen))
		}
		q.Dead = q.Dead || dead
		return q
	}
	for _, l := range locks {
		for _, h := range l.Holders {
			if h.Resting {
				continue
			}
			if q := meet(l, h.Client, h.Process, h.LastSeen, h.Dead); q != nil {
				if n := len(q.Holds); n == 0 || q.Holds[n-1] != l {
					q.Holds = append(q.Holds, l)
				}
			}
		}
		for _, w := range l.Waiters {
			if q := meet(l, w.Client, w.Process, w.LastSeen, w.Dead); q != nil {
				if n := len(q.Waits); n == 0 || q.Waits[n-1] != l {
					q.Waits = append(q.Waits, l)
				}
				q.Longest = max(q.Longest, l.At.Sub(w.Since))
			}
		}
	}
	all := make([]*Process, 0, len(byClient))
	for _, q := range byClient {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *Process) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Program, b.Program), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Client, b.Client))
	})
	return all
}
