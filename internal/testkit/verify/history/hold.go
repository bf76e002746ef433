package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Never is the time of anything that has not happened when a history ends.
const Never = math.MaxInt64

// Hold is one acquisition, as its worker saw it.
type Hold struct {
	Worker string
	Actor  int
	Op     int64
	Kind   string
	Name   string
	Mode   string
	N      int64
	Slot   int
	Owner  string
	Token  int64
	TTL    time.Duration
	Waited bool // the acquisition was allowed to wait

	Called, Granted int64 // Redis let it in between these; Granted is Never if it was not granted
	Ended           int64 // when it was granted or refused; Never if it was neither
	First, Last     int64 // it was believed held from First to Last; see Believed
	Sure            int64 // until when Redis kept it at least, unless it was released; 0 if not known
	Release         int64 // when its release began; Never if none did
	Released        int64 // when its release was confirmed; Never if it was not
}

// Believed reports whether there is a time at which the lease was believed held for sure. One "yes"
// is not enough: the worker may have been suspended before it noted the answer. Between two it was
// held, since a lease that was lost never comes back.
func (h *Hold) Believed() bool { return h.First != 0 && h.Last >= h.First }

// sameOwner reports whether two holds are entries of one owner.
func sameOwner(a, b *Hold) bool { return a.Kind == Reentrant && a.Owner != "" && a.Owner == b.Owner }

// Begun is an acquisition that was asked for.
type Begun struct {
	Name string
	At   int64
}

// Access is one call of a register.
type Access struct {
	Worker           string
	Op               int64
	Name             string
	Write            bool
	Token            int64
	Value, Bare      int64 // that was written, or read
	Called, Returned int64 // Never if there was no answer
	OK               bool
}

// History is all that is known of a run.
type History struct {
	Holds   []*Hold            // that were granted
	Waits   []*Hold            // that were allowed to wait, granted or not
	Begun   map[string][]Begun // every acquisition that was asked for, by worker
	Access  []*Access
	Faults  []Event // and what else the supervisor noted, by their types below
	Left    []Event
	Finals  []Event
	Sent    map[string][]Event // by worker, in the order of time
	Calm    int64              // when the last fault was over; 0 if it never was
	Begin   int64              // of the first line
	End     int64              // of the last line
	Refused map[string]int     // acquisitions that were refused, by reason
	Crashes []string           // of workers that ended by themselves, in words

	killed map[string]bool // workers that are owed nothing that they waited for
}

// New returns an empty history.
func New() *History {
	return &History{
		Begun: make(map[string][]Begun), Sent: make(map[string][]Event),
		Refused: make(map[string]int), killed: make(map[string]bool),
	}
}

// Worker collects the lines of one worker.
type Worker struct {
	*History
	name   string
	asked  map[int64]*Hold // acquisitions that are open
	holds  map[int64]*Hold
	ends   map[int64]*Hold // by the releases that are open
	access map[int64]*Access
}

// Worker returns a collector for the lines of a worker, in their order.
func (h *History) Worker(name string) *Worker {
	return &Worker{
		History: h, name: name, asked: make(map[int64]*Hold), holds: make(map[int64]*Hold),
		ends: make(map[int64]*Hold), access: make(map[int64]*Access),
	}
}

// Add adds one line.
func (w *Worker) Add(e Event) {
	w.End = max(w.End, e.At)
	if w.Begin == 0 || e.At < w.Begin {
		w.Begin = e.At
	}
	switch e.Type {
	case Acquire:
		hold := &Hold{
			Worker: w.name, Actor: e.Actor, Op: e.Op, Kind: e.Kind, Name: e.Name, Mode: e.Mode, N: e.N, TTL: time.Duration(e.TTL), Waited: e.Wait,
			Called: e.At, Granted: Never, Ended: Never, Release: Never, Released: Never,
		}
		w.asked[e.Op] = hold
		w.Begun[w.name] = append(w.Begun[w.name], Begun{e.Name, e.At})
		if e.Wait {
			w.Waits = append(w.Waits, hold)
		}
	case Granted:
		w.granted(e)
	case Refused:
		w.Refused[e.Why]++
		if hold := w.asked[e.Op]; hold != nil {
			hold.Ended = e.At
			delete(w.asked, e.Op)
		}
	case Held:
		w.held(e)
	case Release:
		if hold := w.holds[e.Of]; hold != nil {
			hold.Release = e.At
			w.ends[e.Op] = hold
		}
	case Released:
		if hold := w.ends[e.Op]; hold != nil && e.Why == "" {
			hold.Released = e.At
		}
		delete(w.ends, e.Op)
	case Read, Write:
		a := &Access{
			Worker: w.name, Op: e.Op, Name: e.Name, Write: e.Type == Write, Token: e.Token, Value: e.Value, Bare: e.Bare,
			Called: e.At, Returned: Never,
		}
		w.access[e.Op] = a
		w.Access = append(w.Access, a)
	case Answer:
		if a := w.access[e.Op]; a != nil {
			a.Returned, a.OK = e.At, e.OK
			if !a.Write {
				a.Value, a.Bare = e.Value, e.Bare
			}
		}
	case Fault:
		w.Faults = append(w.Faults, e)
	case Calm:
		w.Calm = e.At
	case Life:
		if why, crashed := strings.CutPrefix(e.Why, "crashed: "); crashed {
			w.Crashes = append(w.Crashes, why)
		} else if e.Why != "" {
			w.killed[e.Target] = true
		}
	case Left:
		w.History.Left = append(w.History.Left, e)
	case Final:
		w.Finals = append(w.Finals, e)
	case Sent:
		w.Sent[w.name] = append(w.Sent[w.name], e)
	}
}

func (w *Worker) granted(e Event) {
	hold := w.asked[e.Op]
	if hold == nil {
		return
	}
	delete(w.asked, e.Op)
	hold.Granted, hold.Ended, hold.Owner, hold.Token, hold.Slot = e.At, e.At, e.Owner, e.Token, e.Slot
	hold.Mode, hold.N = cmp.Or(e.Mode, hold.Mode), max(e.N, hold.N, 1)
	w.holds[e.Op] = hold
	w.Holds = append(w.Holds, hold)
}

func (w *Worker) held(e Event) {
	hold := w.holds[e.Op]
	if hold == nil {
		return
	}
	if hold.First == 0 {
		hold.First = e.At
	}
	hold.Last = max(hold.Last, e.Asked)
	hold.Sure = max(hold.Sure, e.Asked+e.Left)
}

// Arrange sorts what was collected. Call it before the checks.
func (h *History) Arrange() {
	h.Holds = sorted(h.Holds, func(k *Hold) int64 { return k.Called })
	h.Waits = sorted(h.Waits, func(k *Hold) int64 { return k.Called })
	h.Access = sorted(h.Access, func(a *Access) int64 { return a.Called })
	h.Faults = sorted(h.Faults, func(e Event) int64 { return e.At })
}

// sorted returns a copy in the order of what by returns.
func sorted[T any](all []T, by func(T) int64) []T {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(by(a), by(b)) })
	return all
}

// grouped groups values by key, and keeps their order within a group.
func grouped[K comparable, T any](all []T, key func(T) K) map[K][]T {
	groups := make(map[K][]T)
	for _, one := range all {
		groups[key(one)] = append(groups[key(one)], one)
	}
	return groups
}

func byToken(k *Hold) int64   { return k.Token }
func byGranted(k *Hold) int64 { return k.Granted }

// single are the kinds of locks that have one holder.
var single = []string{Mutex, Multi, Reentrant, Election, Job}

// of returns the holds of these kinds.
func (h *History) of(kinds ...string) (holds []*Hold) {
	for _, k := range h.Holds {
		if slices.Contains(kinds, k.Kind) {
			holds = append(holds, k)
		}
	}
	return holds
}

// ByName groups the holds of these kinds by the name of the lock, in the order of their calls. Two
// kinds do not share a name.
func (h *History) ByName(kinds ...string) map[string][]*Hold {
	return grouped(h.of(kinds...), func(k *Hold) string { return k.Name })
}

// HandOvers counts how often a lock that has one holder went from one worker to another.
func (h *History) HandOvers() (n int) {
	for _, holds := range h.ByName(single...) {
		holds = sorted(holds, byToken)
		for i, next := range holds[1:] {
			if next.Worker != holds[i].Worker {
				n++
			}
		}
	}
	return n
}

// At writes a time as seconds since the history began.
func (h *History) At(t int64) string {
	if t == Never {
		return "never"
	}
	return fmt.Sprintf("%.6fs", float64(t-h.Begin)/1e9)
}

// tell names a hold in words.
func (h *History) tell(k *Hold) string {
	what := map[string]string{"w": ", writing", "r": ", reading"}[k.Mode]
	if k.Kind == Semaphore {
		what = fmt.Sprintf(", %d permits", k.N)
	}
	return fmt.Sprintf("worker %s, goroutine %d, call %d, token %d%s", k.Worker, k.Actor, k.Op, k.Token, what)
}
