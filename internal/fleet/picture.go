package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
)

// Line is how many waiters of a lock are kept; the others are only counted.
const Line = 100

// Lock is one name in a picture.
type Lock struct {
	redlatch.LockInfo               // Holders has the live ones first; Waiters has the first Line of them
	Waiting           int           // waiters that are not believed dead
	Deaf              int           // waiters that are believed dead
	Calls             int           // callers behind the waiters that are not believed dead
	Looked            time.Time     // by this machine's clock
	Waited            time.Duration // the longest wait of the waiters that are not believed dead

	leases map[string]lease // that were seen to be extended, by their owners
}

// lease is what successive looks show about the lease of a holder.
type lease struct {
	most     time.Duration // the most that was left of it
	least    time.Duration // the least that was left of it at a look that saw an extend
	extended time.Time     // by the server's clock; the zero time if no extend was seen
	often    bool          // several extends were seen
}

// NewLock returns what is kept of a name.
func NewLock(info redlatch.LockInfo, looked time.Time) *Lock {
	l := &Lock{LockInfo: info, Looked: looked}
	for _, w := range info.Waiters {
		if w.Dead {
			l.Deaf++
			continue
		}
		l.Waiting++
		l.Calls += max(1, w.Callers)
		if !w.Since.IsZero() {
			l.Waited = max(l.Waited, l.At.Sub(w.Since))
		}
	}
	if len(l.Waiters) > Line {
		l.Waiters = slices.Clone(l.Waiters[:Line])
	}
	if slices.ContainsFunc(l.Holders, idle) {
		l.Holders = slices.Clone(l.Holders)
		slices.SortStableFunc(l.Holders, LiveFirst)
	}
	return l
}

// LiveFirst puts locks that clients only keep, and places that are kept free, behind holders.
func LiveFirst(a, b redlatch.Holder) int {
	switch {
	case idle(a) == idle(b):
		return 0
	case idle(a):
		return 1
	}
	return -1
}

// follow takes over what the look before this one showed about the leases.
func (l *Lock) follow(old *Lock) {
	then := make(map[string]redlatch.Holder, len(old.Holders))
	for _, h := range old.Holders {
		then[h.Owner] = h
	}
	for _, h := range l.Holders {
		before, there := then[h.Owner]
		if !there || idle(h) || h.Foreign || h.Remaining < 0 || before.Resting {
			continue
		}
		known := old.leases[h.Owner]
		known.most = max(known.most, before.Remaining, h.Remaining)
		if l.At.Add(h.Remaining).Sub(old.At.Add(before.Remaining)) > jitter {
			known.often = !known.extended.IsZero()
			known.extended = l.At.Add(-min(known.most-h.Remaining, l.At.Sub(old.At)))
			if known.least == 0 || h.Remaining < known.least { // a program may have made it longer once
				known.least = h.Remaining
			}
		}
		if l.leases == nil {
			l.leases = make(map[string]lease)
		}
		l.leases[h.Owner] = known
	}
}

// jitter is how far the end of a lease may seem to move: Redis counts milliseconds.
const jitter = 20 * time.Millisecond

// Extended returns how long ago a holder extended its lease, if two looks at the lock have shown
// that it does.
func (l *Lock) Extended(h redlatch.Holder) (ago time.Duration, seen bool) {
	known := l.leases[h.Owner]
	if known.extended.IsZero() {
		return 0, false
	}
	return max(0, l.At.Sub(known.extended)), true
}

// Overdue reports whether a holder that extends its lease again and again should have done so: it
// has less than half of the least that was seen to be left just after an extend. A client extends
// with two thirds left. One extend tells nothing: a program may have made the lease longer.
func (l *Lock) Overdue(h redlatch.Holder) bool {
	known := l.leases[h.Owner]
	return known.often && !h.Detached && h.Remaining < known.least/2
}

// Held returns how long the oldest holder has held the lock; 0 if that is unknown, and for a place
// that is kept free or a lock that its client only keeps.
func (l *Lock) Held() time.Duration {
	var held time.Duration
	for _, h := range l.Holders {
		if !idle(h) && !h.Since.IsZero() {
			held = max(held, l.At.Sub(h.Since))
		}
	}
	return held
}

// idle reports whether a holder is not at work: its place is kept free, or its client only keeps
// the lock.
func idle(h redlatch.Holder) bool { return h.Resting || !h.Kept.IsZero() }

// Holding returns how many hold the lock, without those that are idle.
func (l *Lock) Holding() int {
	n := 0
	for _, h := range l.Holders {
		if !idle(h) {
			n++
		}
	}
	return n
}

// Troubled reports whether the lock needs a look: a holder or waiter is believed dead, an extend is
// overdue, a holder may be missing, or the key is no lock.
func (l *Lock) Troubled() bool {
	return l.Deaf > 0 || l.Doubt != nil || l.RedisType != "" || slices.ContainsFunc(l.Holders, func(h redlatch.Holder) bool {
		return h.Dead || l.Overdue(h)
	})
}

// Lasting reports whether the lock is of a kind that is held for long by design: an election or a
// pool of slots.
func (l *Lock) Lasting() bool { return l.Kind == "election" || l.Kind == "slotpool" }

// Standby reports whether the lock is of a kind that is waited for by design: an election, whose
// candidates stand by.
func (l *Lock) Standby() bool { return l.Kind == "election" }

// What totals leave out of their longest times, as screens say it.
const (
	NoLasting = "without leaders and slots"
	NoStandby = "without candidates"
)

// Totals are the sums and maxima of the rows of a list of locks.
type Totals struct {
	At            time.Time // by this machine's clock
	Names         int
	Holders       int           // without those that are idle
	Doubtful      int           // names for which too few nodes report all holders
	Waiters       int           // without those that are believed dead
	Kept          int           // locks that clients only keep
	DeadHolders   int           // of the holders and of those that only keep a lock, the ones that are believed dead
	DeadWaiters   int           // waiters that are believed dead
	LongestHeld   time.Duration // of the locks that are not Lasting
	LongestWaited time.Duration // of the locks that are not Standby
	OldestHeld    string        // the name of that lock
	OldestWaited  string        // the name of that lock
}

// Add counts one more lock.
func (t *Totals) Add(l *Lock) {
	t.Names++
	t.Holders += l.Holding()
	if l.Doubt != nil {
		t.Doubtful++
	}
	t.Waiters += l.Waiting
	t.DeadWaiters += l.Deaf
	for _, h := range l.Holders {
		if h.Resting {
			continue
		}
		if !h.Kept.IsZero() {
			t.Kept++
		}
		if h.Dead {
			t.DeadHolders++
		}
	}
	if d := l.Held(); d > t.LongestHeld && !l.Lasting() {
		t.LongestHeld, t.OldestHeld = d, l.Name
	}
	if d := l.Waited; d > t.LongestWaited && !l.Standby() {
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
	Begun time.Time     // when that look began: what it found can be that old
	Took  time.Duration // of that look, without the pauses
	Pause time.Duration // until the next
	Found int           // names that are known, until a look at all names has succeeded; then 0

	Err   error     // of the last look at all names; nil if it succeeded
	Since time.Time // of the first of the looks that failed in a row

	Nodes   []redlatch.NodeInfo // of a quorum
	Asked   time.Time           // when they were
	details map[string]*detail  // of the names that a viewer has open
	records map[string]*Record  // of these, and "" for all, as far as viewers look at them
	hours   map[string][]Minute // of the names that a viewer has open

	Deadlocks    []redlatch.Deadlock // as of the last look for them that succeeded, some seconds ago
	DeadlocksErr error               // of the last look
}

// Fresh is the age up to which a picture is as good as live.
const Fresh = 5 * time.Second

// Live is what Status returns if what is shown is fresh.
const Live = "live"

// Status says how fresh what is shown of a lock is, or the list of all if name is "". failing says
// that the last look failed. A lock that a viewer has open is looked at more often than the list.
func (p *Picture) Status(name string, now time.Time) (text string, failing bool) {
	seen, none := p.Begun, p.Taken.IsZero()
	err := p.Err
	if name != "" {
		l, failed := p.Detail(name)
		if none, err = l == nil, failed; l != nil {
			seen = l.Looked
		}
	}
	old := now.Sub(seen)
	switch listed := name == "" && p.Found > 0; {
	case err != nil && listed:
		return "names may be missing", true
	case err != nil && none:
		return "no data yet", true
	case err != nil:
		return Span(old) + " old", true
	case listed:
		return "looking: " + Count(p.Found) + " names", false
	case none:
		return "looking", false
	}
	return Age(old), false // with many names, or a slow Redis, a look takes long
}

// Age says how fresh what is shown is, by its age.
func Age(old time.Duration) string {
	if old > Fresh {
		return Span(old) + " old"
	}
	return Live
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

// Hour returns the waits for a name that a viewer has open, in each minute of the last hour, oldest
// first. It is nil if that has not been looked at yet.
func (p *Picture) Hour(name string) []Minute { return p.hours[name] }

type detail struct {
	lock *Lock
	err  error
	at   time.Time // of the look
}

// Detail returns the name that a viewer has open, even if it is free. Both are nil if it has not
// been looked at yet.
func (p *Picture) Detail(name string) (l *Lock, err error) {
	if d := p.details[name]; d != nil {
		l, err = d.lock, d.err
	}
	if l == nil {
		l = p.find(name)
	}
	return l, err
}

// find returns a name that is in use, or nil.
func (p *Picture) find(name string) *Lock {
	i, ok := slices.BinarySearchFunc(p.Locks, name, func(l *Lock, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return p.Locks[i]
}

// show puts locks into a picture that is being made. It keeps those that it has from a later look.
func (p *Picture) show(locks []*Lock) {
	for i, l := range locks {
		switch old := p.find(l.Name); {
		case old == nil || old == l:
		case old.Looked.After(l.Looked):
			locks[i] = old
		default:
			l.follow(old)
		}
	}
	p.Locks, p.Totals = locks, Totals{At: time.Now()}
	for _, l := range locks {
		p.Totals.Add(l)
	}
}

// replace puts the locks that were looked at again in place of those known before. Names that have
// appeared or gone since then are left to the next look at all names.
func (p *Picture) replace(again map[string]*Lock) {
	if len(again) == 0 || len(p.Locks) == 0 {
		return
	}
	locks := slices.Clone(p.Locks)
	for i, l := range locks {
		if newer := again[l.Name]; newer != nil {
			locks[i] = newer
		}
	}
	p.show(locks)
}

// Cut reports whether a line is longer than what is kept of it, so that a search does not find all.
func (p *Picture) Cut() bool {
	return slices.ContainsFunc(p.Locks, func(l *Lock) bool { return l.Waiting+l.Deaf > len(l.Waiters) })
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
	for _, l := range p.Locks {
		for _, h := range l.Holders {
			if idle(h) {
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
	all := slices.AppendSeq(make([]*Process, 0, len(byClient)), maps.Values(byClient))
	slices.SortFunc(all, func(a, b *Process) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Program, b.Program), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Client, b.Client))
	})
	return all
}

// MuteText says what it means that too few nodes vote for these kinds.
func MuteText(kinds []string) string {
	return "too few nodes vote for: " + strings.Join(kinds, ", ") + ". " + Unvoted
}

// Unvoted is what holds for kinds of locks for which too few nodes vote.
const Unvoted = "Until more nodes answer, or have rested, no client can acquire such a lock, and lists may lack one that is held"

// Mute returns the kinds for which fewer than a majority of the nodes vote, though some client has
// used them.
func Mute(nodes []redlatch.NodeInfo) (kinds []string) {
	used := make(map[string]bool)
	for _, n := range nodes {
		for _, v := range n.Votes {
			used[v.Kind] = used[v.Kind] || v.State != redlatch.NodeNew
		}
	}
	voters := Voters(nodes)
	for _, kind := range slices.Sorted(maps.Keys(used)) {
		if used[kind] && voters[kind] <= len(nodes)/2 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Voters returns how many nodes vote for each kind, with those that have rested if the next
// acquisition gives them the right: a majority of the other nodes votes, or all of them answer
// (floor in link/quorum/epochs.go).
func Voters(nodes []redlatch.NodeInfo) map[string]int {
	voters, rested, answers := make(map[string]int), make(map[string]int), make(map[string]int)
	for _, n := range nodes {
		for _, v := range n.Votes {
			answers[v.Kind]++
			switch v.State {
			case redlatch.NodeVotes:
				voters[v.Kind]++
			case redlatch.NodeRested:
				rested[v.Kind]++
			}
		}
	}
	for kind, n := range rested {
		if answers[kind] == len(nodes) || voters[kind] > (len(nodes)-1)/2 {
			voters[kind] += n
		}
	}
	return voters
}
