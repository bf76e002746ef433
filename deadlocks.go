package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Deadlock is a cycle of waiters, of which each waits for a lock that the next one keeps, and the
// last one for a lock that the first one keeps. None of them gets its lock unless one gives up,
// loses its lease, or has it taken by force.
type Deadlock struct {
	Waiters []Blocked // two or more, or one that waits for itself
}

// Blocked is a waiter in a [Deadlock]. Its Holds are the leases that it keeps.
type Blocked struct {
	Waiter
	Lock string // the name that it waits for
	Kind string // of that lock
}

// String tells the cycle on one line: which process waits for what, and what it keeps.
func (d Deadlock) String() string {
	all := make([]string, len(d.Waiters))
	for i, w := range d.Waiters {
		kept := make([]string, len(w.Holds))
		for j, h := range w.Holds {
			kept[j] = fmt.Sprintf("%q", h.Name)
		}
		all[i] = fmt.Sprintf("%s holds %s and waits for %q", w.describe(), strings.Join(kept, ", "), w.Lock)
	}
	return strings.Join(all, "; ")
}

// describe names the process of a waiter.
func (w Waiter) describe() string {
	if w.Process.Host == "" {
		return fmt.Sprintf("client %q", w.Client)
	}
	return fmt.Sprintf("%q (pid %d on %q)", w.Process.Program, w.Process.PID, w.Process.Host)
}

// settle is how long Deadlocks waits between its two looks: longer than a client takes to note that
// it waits no more.
const settle = 3 * notes.Delay

// Deadlocks returns the cycles of waiters under the prefix, over all processes, as they stood
// twice within half a second. It finds a waiter that called Lock under the context of a lease, and
// no other: a program that does not pass the context on does not tell what it holds. A cycle
// counts only if every holder of each lock in it is one of the waiters that cannot go on. So a
// semaphore with a free permit, a reader that does not wait, a foreign holder, one believed dead
// and a slot at rest each break it.
//
// The waiters of a cycle may have bounds on their waits, and then it ends with the first of them.
// Within one client Lock refuses most of them at once: see [ErrDeadlock].
//
// It costs one SCAN for a thousand keys of the server and a script for each client that has
// something noted; a cycle costs two scripts for each name in it. The error is as that of
// [Client.List].
func (c *Client) Deadlocks(ctx context.Context) ([]Deadlock, error) {
	clients, err := c.notedClients(ctx)
	if err != nil {
		return nil, err
	}
	first, err := c.lookForCycles(ctx, clients)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	retry.Sleep(ctx, settle)
	clients = nil
	for _, d := range first {
		for _, w := range d.Waiters {
			clients = append(clients, w.Client)
		}
	}
	slices.Sort(clients)
	second, err := c.lookForCycles(ctx, slices.Compact(clients))
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, d := range first {
		seen[d.identity()] = true
	}
	return slices.DeleteFunc(second, func(d Deadlock) bool { return !seen[d.identity()] }), nil
}

// identity is a text that is the same for the same waiters that keep the same leases.
func (d Deadlock) identity() string {
	var all []string
	for _, w := range d.Waiters {
		all = append(all, fmt.Sprintf("%s %q %v", w.Owner, w.Lock, w.Holds))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// notedClients returns the clients that have notes.
func (c *Client) notedClients(ctx context.Context) ([]string, error) {
	prefix := c.options.Prefix
	found := make(map[string]bool)
	err := c.engine.Conn.Scan(ctx, "*"+escapeGlob(prefix)+"*"+keys.NotesSuffix, func(key string) error {
		state, ok := keys.StateOf(key, keys.NotesSuffix)
		if client, ours := strings.CutPrefix(state, prefix); ok && ours && client != "" {
			found[client] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("redlatch: look for deadlocks on %s: %w", c.engine.Conn.Target().Addr, fault.Unreached(err))
	}
	clients := make([]string, 0, len(found))
	for client := range found {
		clients = append(clients, client)
	}
	slices.Sort(clients)
	return clients, nil
}

// lookForCycles returns the cycles among the waiters of these clients, as they seem at one look.
func (c *Client) lookForCycles(ctx context.Context, clients []string) ([]Deadlock, error) {
	waits, err := c.notedWaits(ctx, clients)
	if err != nil || len(waits) == 0 {
		return nil, err
	}
	kept := make(map[string]bool) // names that a waiter keeps; of other names all holders are outside
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
	locks := make(map[string]LockInfo)
	for some := range slices.Chunk(slices.Compact(names), listed) {
		for _, v := range c.survey.lookAll(ctx, some, nil) {
			if v.err != nil {
				return nil, v.err
			}
			locks[v.info.Name] = v.info
		}
	}
	return cycles(waits, locks), nil
}

// notedWaits returns what these clients have noted of waiters under leases.
func (c *Client) notedWaits(ctx context.Context, clients []string) ([]Blocked, error) {
	var waits []Blocked
	known := make(map[string]bool) // owners that another node told
	var failed error
	answered := 0
	for _, node := range c.engine.Asker.Nodes() {
		some, err := c.notedWaitsAt(ctx, node, clients)
		if err != nil {
			failed = err
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
	if c.engine.Quorum != nil && answered >= c.engine.Quorum.Majority() {
		failed = nil
	}
	return waits, failed
}

// notedWaitsAt is notedWaits at one node.
func (c *Client) notedWaitsAt(ctx context.Context, node conn.Conn, clients []string) (waits []Blocked, err error) {
	for some := range slices.Chunk(clients, listed) {
		calls := make([]conn.Call, len(some))
		asked := make([]presence.Key, len(some))
		for i, client := range some {
			calls[i] = script.Waits(keys.Notes(c.options.Prefix, client))
			asked[i] = presenceKey(c.options.Prefix, client)
		}
		limited, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
		signs, err := presence.Read(limited, node, asked)
		results := node.Eval(limited, calls...)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("redlatch: look for deadlocks on %s: %w", node.Target().Addr, fault.Unreached(err))
		}
		for i, r := range results {
			if r.Err != nil {
				return nil, fmt.Errorf("redlatch: look for deadlocks on %s: %w", node.Target().Addr, fault.Unreached(r.Err))
			}
			noted, err := script.ParseWaits(r.Reply)
			if err != nil {
				return nil, err
			}
			for _, owner := range slices.Sorted(maps.Keys(noted)) {
				if n, ok := notes.Parse(noted[owner]); ok {
					w := blockedBy(some[i], owner, n)
					w.Process = newProcess(signs[i].Process)
					w.Labels = merged(signs[i].Process.Labels, n.Labels)
					waits = append(waits, w)
				}
			}
		}
	}
	return waits, nil
}

// cycles returns the cycles of waiters that can never go on, given what Redis knows of the locks
// that they wait for.
func cycles(waits []Blocked, locks map[string]LockInfo) []Deadlock {
	stuck := make([]Blocked, 0, len(waits))
	for _, w := range waits {
		if b, ok := w.confirmed(locks[w.Lock]); ok {
			stuck = append(stuck, b)
		}
	}
	for before := -1; before != len(stuck); { // until only those are left that keep each other
		before = len(stuck)
		kept := make(map[string]bool) // owners of leases
		for _, w := range stuck {
			for _, h := range w.Holds {
				kept[h.Owner] = true
			}
		}
		stuck = slices.DeleteFunc(stuck, func(w Blocked) bool {
			return !shutBy(locks[w.Lock], func(h Holder) bool { return kept[h.Owner] })
		})
	}
	return separate(stuck, locks)
}

// confirmed returns a waiter with what the lock says of it. It returns false if the lock knows
// nothing of it: then the note is older than the end of the wait. A waiter that stands behind
// another one of its client is not in line itself.
func (w Blocked) confirmed(info LockInfo) (Blocked, bool) {
	here := slices.ContainsFunc(info.Holders, func(h Holder) bool { return h.Client == w.Client })
	for _, in := range info.Waiters {
		if in.Owner == w.Owner {
			in.Holds = w.Holds
			w.Waiter = in
			return w, !in.Dead
		}
		here = here || in.Client == w.Client
	}
	here = here && !slices.ContainsFunc(info.Holders, func(h Holder) bool { return h.Owner == w.Owner })
	return w, here
}

// shutBy reports whether the lock has holders, inside is true of all of them, and there is no room
// beside them.
func shutBy(info LockInfo, inside func(Holder) bool) bool {
	var taken int64
	for _, h := range info.Holders {
		if h.Foreign || h.Resting || h.Dead || !inside(h) {
			return false
		}
		taken += max(h.Permits, 1)
	}
	switch info.Kind {
	case script.Semaphore.Name:
		// A waiter for several permits waits also while some are free. Whether those suffice is
		// not known here of all waiters, so any that is free breaks the cycle.
		return taken >= info.Size
	case script.SlotPool.Name:
		return taken >= info.Size
	}
	return len(info.Holders) > 0
}

// separate returns the cycles among waiters that all are stuck: the strongly connected parts of
// the graph from each to those that keep it waiting.
func separate(stuck []Blocked, locks map[string]LockInfo) []Deadlock {
	next := make([][]int, len(stuck))
	for i, w := range stuck {
		for j, other := range stuck {
			if other.keeps(locks[w.Lock]) {
				next[i] = append(next[i], j)
			}
		}
	}
	reached := make([][]bool, len(stuck)) // from each, along one step or more
	for i := range stuck {
		reached[i] = make([]bool, len(stuck))
		todo := slices.Clone(next[i])
		for k := 0; k < len(todo); k++ {
			if j := todo[k]; !reached[i][j] {
				reached[i][j] = true
				todo = append(todo, next[j]...)
			}
		}
	}
	var all []Deadlock
	told := make([]bool, len(stuck))
	for i := range stuck {
		if told[i] || !reached[i][i] {
			continue
		}
		var d Deadlock
		together := func(j int) bool { return !told[j] && reached[i][j] && reached[j][i] }
		tell := func(j int) {
			told[j] = true
			d.Waiters = append(d.Waiters, stuck[j])
		}
		for at := i; at >= 0; { // from each to one that keeps it waiting
			tell(at)
			if k := slices.IndexFunc(next[at], together); k >= 0 {
				at = next[at][k]
			} else {
				at = -1
			}
		}
		for j := range stuck { // and what that has left out
			if together(j) {
				tell(j)
			}
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b Deadlock) int { return cmp.Compare(a.Waiters[0].Lock, b.Waiters[0].Lock) })
	return all
}

// keeps reports whether a waiter has a lease on the lock.
func (w Blocked) keeps(info LockInfo) bool {
	return slices.ContainsFunc(w.Holds, func(h Held) bool {
		return slices.ContainsFunc(info.Holders, func(in Holder) bool { return in.Owner == h.Owner })
	})
}

// blockedBy is what a note tells of a waiter.
func blockedBy(client, owner string, n notes.Note) Blocked {
	return Blocked{
		Waiter: Waiter{
			Owner: owner, Client: client, Since: time.UnixMilli(n.Since), Labels: n.Labels, Holds: heldIn(n),
		},
		Lock: n.Name, Kind: n.Kind,
	}
}

// WithHeld returns a context that says under which leases of other processes a caller works, beside
// those that it has by the contexts of its own: those of a parent process, which keeps them until
// this one ends. If an acquisition under the context waits, [Waiter].Holds tells them, and
// [Client.Deadlocks] finds cycles through them. Lock itself looks at leases of its own client
// alone. `redlatch run` passes on what it holds in this way. At most 64 leases are told.
func WithHeld(ctx context.Context, held ...Held) context.Context {
	before, _ := ctx.Value(elsewhereKey{}).([]Held)
	return context.WithValue(ctx, elsewhereKey{}, slices.Concat(before, held))
}

type elsewhereKey struct{}

// Held implements [lease.Under].
func (c *multiContext) Held() ([]*lease.Lease, context.Context) { return c.lease.cores(), c.Context }

// shut reports whether Redis says that none of these names has room, and that every owner inside is
// one of these.
func (s *survey) shut(ctx context.Context, names []string, inside map[string]bool) bool {
	for _, v := range s.lookAll(ctx, names, nil) {
		if v.err != nil || !shutBy(v.info, func(h Holder) bool { return inside[h.Owner] }) {
			return false
		}
	}
	return true
}
