package survey

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// settle is how long Deadlocks waits between its two looks: longer than a client takes to note that
// it no longer waits.
const settle = 3 * notes.Delay

// Blocked is a waiter that keeps leases, and what it waits for.
type Blocked struct {
	Waiter
	Lock, Kind string
}

// Deadlocks returns the cycles of waiters, across all processes, that it finds twice within half a
// second.
func (s *Survey) Deadlocks(ctx context.Context) ([][]Blocked, error) {
	clients, err := s.notedClients(ctx)
	if err != nil {
		return nil, err
	}
	first, err := s.lookForCycles(ctx, clients)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	retry.Sleep(ctx, settle)
	seen := make(map[string]bool)
	for _, cycle := range first {
		seen[identity(cycle)] = true
	}
	// It is tempting to ask only those in cycles. But what keeps a waiter stuck may be in none.
	second, err := s.lookForCycles(ctx, clients)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(second, func(cycle []Blocked) bool { return !seen[identity(cycle)] }), nil
}

// identity returns a text that is the same for the same waiters that keep the same leases.
func identity(cycle []Blocked) string {
	var all []string
	for _, w := range cycle {
		all = append(all, fmt.Sprintf("%s %q %v", w.Owner, w.Lock, w.Holds))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// notedClients returns the clients that have notes.
func (s *Survey) notedClients(ctx context.Context) ([]string, error) {
	found := make(map[string]bool)
	err := s.Conn.Scan(ctx, "*"+keys.Escape(s.Prefix)+"*"+keys.NotesSuffix, func(key string) error {
		state, ok := keys.StateOf(key, keys.NotesSuffix)
		if client, ours := strings.CutPrefix(state, s.Prefix); ok && ours && client != "" {
			found[client] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("redlatch: look for deadlocks on %s: %w", s.Conn.Target().Addr, s.unanswered(ctx, err))
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// lookForCycles returns the cycles among the waiters of these clients, as they seem at one look.
func (s *Survey) lookForCycles(ctx context.Context, clients []string) ([][]Blocked, error) {
	waits, err := s.notedWaits(ctx, clients)
	if err != nil || len(waits) == 0 {
		return nil, err
	}
	kept := make(map[string]bool) // names that a waiter keeps; holders of other names do not wait
	for _, w := range waits {
		for _, h := range w.Holds {
			kept[h.Name] = true
		}
	}
	waits = slices.DeleteFunc(waits, func(w Blocked) bool { return !kept[w.Lock] })
	var names []string
	for _, w := range waits {
		names = append(names, w.Lock)
	}
	slices.Sort(names)
	locks := make(map[string]Picture)
	for some := range slices.Chunk(slices.Compact(names), batchSize) {
		for _, p := range s.lookAll(ctx, some, nil) {
			switch {
			case retry.WrongType(p.err): // no waiter can be in line there
			case p.err != nil:
				return nil, p.err
			default:
				locks[p.Name] = p
			}
		}
	}
	return cycles(waits, locks), nil
}

// notedWaits returns what these clients have noted of waiters under leases.
func (s *Survey) notedWaits(ctx context.Context, clients []string) ([]Blocked, error) {
	var waits []Blocked
	known := make(map[string]bool) // owners that another node told
	var failed error
	answered := 0
	for _, node := range s.Asker.Nodes() {
		some, err := s.notedWaitsAt(ctx, node, clients)
		if err != nil {
			failed = fmt.Errorf("redlatch: look for deadlocks on %s: %w", node.Target().Addr, s.unanswered(ctx, err))
			continue
		}
		answered++
		for _, w := range some {
			if !known[w.Owner] {
				known[w.Owner] = true
				waits = append(waits, w)
			}
		}
	}
	if s.Quorum != nil && answered >= s.Quorum.Majority() {
		failed = nil
	}
	return waits, failed
}

// notedWaitsAt is notedWaits at one node.
func (s *Survey) notedWaitsAt(ctx context.Context, node conn.Conn, clients []string) (waits []Blocked, err error) {
	for some := range slices.Chunk(clients, batchSize) {
		calls := make([]conn.Call, len(some))
		asked := make([]presence.Key, len(some))
		for i, client := range some {
			calls[i], asked[i] = script.Waits(keys.Notes(s.Prefix, client)), s.presence(client)
		}
		limited, cancel := context.WithTimeout(ctx, s.Timeout)
		signs, err := presence.Read(limited, node, asked)
		results := node.Eval(limited, calls...)
		cancel()
		for i, r := range results {
			if err = cmp.Or(err, r.Err); err != nil {
				return nil, err
			}
			noted, err := script.ParseWaits(r.Reply)
			if err != nil {
				return nil, err
			}
			for _, owner := range slices.Sorted(maps.Keys(noted)) {
				if n, ok := notes.Parse(noted[owner]); ok {
					waits = append(waits, blocked(some[i], owner, n, signs[i].Process))
				}
			}
		}
	}
	return waits, nil
}

// blocked returns what a note says of a waiter.
func blocked(client, owner string, n notes.Note, p presence.Process) Blocked {
	party := Party{
		Owner: owner, Client: client, Process: p, Since: time.UnixMilli(n.Since), Labels: notes.Merged(p.Labels, n.Labels),
	}
	return Blocked{Waiter{Party: party, Holds: n.Holds}, n.Name, n.Kind}
}

// cycles returns the cycles of waiters that can never go on, given what Redis knows of the locks
// that they wait for.
func cycles(waits []Blocked, locks map[string]Picture) [][]Blocked {
	stuck := make([]Blocked, 0, len(waits))
	for _, w := range waits {
		if b, ok := w.confirmed(locks[w.Lock]); ok {
			stuck = append(stuck, b)
		}
	}
	inside := make(map[string][]string) // the locks that an owner is inside of
	for name, p := range locks {
		for _, h := range p.Holders {
			inside[h.Owner] = append(inside[h.Owner], name)
		}
	}
	return separate(entangled(stuck, locks, inside), inside)
}

// entangled returns the waiters that keep each other waiting: the lock of each is shut by others of
// them. It looks at a lock again only when one of its holders no longer waits.
func entangled(stuck []Blocked, locks map[string]Picture, inside map[string][]string) []Blocked {
	kept := make(map[string]int)      // owners of leases: how many waiters keep one
	waiting := make(map[string][]int) // for a lock: which of stuck
	for i, w := range stuck {
		waiting[w.Lock] = append(waiting[w.Lock], i)
		for _, h := range w.Holds {
			kept[h.Owner]++
		}
	}
	free := make([]bool, len(stuck))
	for todo := slices.Collect(maps.Keys(waiting)); len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if len(waiting[name]) == 0 || shutBy(locks[name], func(owner string) bool { return kept[owner] > 0 }) {
			continue
		}
		for _, i := range waiting[name] {
			free[i] = true
			for _, h := range stuck[i].Holds {
				if kept[h.Owner]--; kept[h.Owner] == 0 {
					todo = append(todo, inside[h.Owner]...)
				}
			}
		}
		delete(waiting, name)
	}
	var left []Blocked
	for i, w := range stuck {
		if !free[i] {
			left = append(left, w)
		}
	}
	return left
}

// confirmed returns a waiter with what the lock says of it. It returns false if the lock does not
// know the waiter: then the wait ended after the note. A waiter that stands behind another one of
// its client is not in line itself.
func (w Blocked) confirmed(p Picture) (Blocked, bool) {
	here := slices.ContainsFunc(p.Holders, func(h Holder) bool { return h.Client == w.Client })
	for _, in := range p.Waiters {
		if in.Owner == w.Owner {
			in.Holds = w.Holds
			w.Waiter = in
			return w, !in.Dead
		}
		here = here || in.Client == w.Client
	}
	here = here && !slices.ContainsFunc(p.Holders, func(h Holder) bool { return h.Owner == w.Owner })
	return w, here
}

// Shut looks at these names. by reports whether Redis said that a name has no room, and that all
// its owners are in inside.
func (s *Survey) Shut(ctx context.Context, names []string) (by func(name string, inside map[string]bool) bool) {
	locks := make(map[string]Picture)
	for _, p := range s.lookAll(ctx, names, nil) {
		if p.err == nil {
			locks[p.Name] = p
		}
	}
	return func(name string, inside map[string]bool) bool {
		return shutBy(locks[name], func(owner string) bool { return inside[owner] })
	}
}

// shutBy reports whether the lock has holders, inside holds for each of them, and there is no room
// beside them.
func shutBy(p Picture, inside func(owner string) bool) bool {
	var taken int64
	for _, h := range p.Holders {
		if h.Foreign || h.Resting || h.Dead || !inside(h.Owner) {
			return false
		}
		taken += h.permits(p.Use())
	}
	switch p.Use() {
	case script.Semaphore.Name, script.SlotPool.Name:
		// A waiter for several permits also waits while some are free. It is not known here whether
		// those are enough for each waiter, so any free permit breaks the cycle.
		return taken >= p.Size
	}
	return len(p.Holders) > 0
}

// separate returns the cycles among waiters that are all stuck: the strongly connected components
// of the graph from each waiter to the lock that it waits for, and from each lock to the waiters
// that keep it. With an edge from each waiter to each that keeps it waiting, a thousand waiters for
// one semaphore would be a million edges.
func separate(stuck []Blocked, inside map[string][]string) [][]Blocked {
	keepers := make(map[string][]int) // of a lock: which of stuck
	for i, w := range stuck {
		for _, h := range w.Holds {
			for _, name := range inside[h.Owner] {
				keepers[name] = append(keepers[name], i)
			}
		}
	}
	part := connected(stuck, keepers)
	size := make(map[int]int) // of a part: how many waiters
	for i := range stuck {
		size[part[i]]++
	}
	var all [][]Blocked
	told := make([]bool, len(stuck))
	for i, w := range stuck {
		if told[i] || size[part[i]] == 1 && !slices.Contains(keepers[w.Lock], i) {
			continue
		}
		var cycle []Blocked
		together := func(j int) bool { return !told[j] && part[j] == part[i] }
		tell := func(j int) {
			told[j] = true
			cycle = append(cycle, stuck[j])
		}
		for at := i; at >= 0; { // from each to one that keeps it waiting
			tell(at)
			next := keepers[stuck[at].Lock]
			if k := slices.IndexFunc(next, together); k >= 0 {
				at = next[k]
			} else {
				at = -1
			}
		}
		for j := range stuck { // and those that were left out
			if together(j) {
				tell(j)
			}
		}
		all = append(all, cycle)
	}
	slices.SortFunc(all, func(a, b []Blocked) int { return cmp.Compare(a[0].Lock, b[0].Lock) })
	return all
}

// connected returns the strongly connected component of each waiter, as a number, by Tarjan's
// algorithm ("Depth-first search and linear graph algorithms", 1972).
func connected(stuck []Blocked, keepers map[string][]int) (part []int) {
	part = make([]int, len(stuck))
	parts := 0
	number := make(map[any]int) // when a waiter or lock was met; the largest int once it has its part
	var path []any              // of those that have none yet
	var visit func(at any) (lowest int)
	visit = func(at any) int {
		if n, met := number[at]; met {
			return n
		}
		own, since := len(number), len(path)
		number[at], path = own, append(path, at)
		lowest := own
		if i, waits := at.(int); waits {
			lowest = min(lowest, visit(stuck[i].Lock))
		} else {
			for _, i := range keepers[at.(string)] {
				lowest = min(lowest, visit(i))
			}
		}
		if lowest < own {
			return lowest
		}
		for _, done := range path[since:] {
			number[done] = math.MaxInt
			if i, waits := done.(int); waits {
				part[i] = parts
			}
		}
		path, parts = path[:since], parts+1
		return math.MaxInt
	}
	for i := range stuck {
		visit(i)
	}
	return part
}
