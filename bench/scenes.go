package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// scene is a workload and the systems that are put to it.
type scene struct {
	group   string // what it belongs to, and its place there: the heading of a table, and what tells its rows apart
	name    string
	columns []column
	rounds  int
	entries []entry
	check   func(m sample) error // of redlatch's figures that do not depend on the machine; nil if there are none
}

type entry struct {
	system string
	run    func() (sample, error)
}

// column is a figure as tables show it.
type column struct{ key, title, format string }

var (
	uncontendedColumns = []column{
		{"cycles", "cycles/s", "%.0f"},
		{"p50", "p50 µs", "%.1f"},
		{"p99", "p99 µs", "%.0f"},
		{"wire", "commands", "%.2f"},
		{"client", "client CPU µs", "%.1f"},
		{"redis", "Redis CPU µs", "%.1f"},
		{"allocs", "allocations", "%.0f"},
	}
	contendedColumns = []column{
		{"cycles", "cycles/s", "%.0f"},
		{"handoffs", "handoffs/s", "%.0f"},
		{"gap", "gap p50 µs", "%.0f"},
		{"ping", "PING p50 µs", "%.0f"},
		{"p99", "wait p99 µs", "%.0f"},
		{"wire", "commands", "%.2f"},
		{"fairness", "fewest/most", "%.2f"},
		{"client", "client CPU µs", "%.0f"},
		{"redis", "Redis CPU µs", "%.1f"},
	}
	holdingColumns = []column{
		{"kept", "kept", "%.0f"},
		{"heap", "bytes per lease", "%.0f"},
		{"goroutines", "goroutines", "%.0f"},
		{"commands", "commands/s", "%.0f"},
		{"reads", "reads/s of Redis", "%.0f"},
		{"client", "client CPU %", "%.1f"},
		{"redis", "Redis CPU %", "%.1f"},
	}
	slotColumns     = []column{{"p50", "p50 µs", "%.0f"}, {"p99", "p99 µs", "%.0f"}}
	failoverColumns = []column{{"without", "without a holder, ms", "%.0f"}, {"late", "after the end of the lease, ms", "%.1f"}}
)

// The limits of what does not depend on the machine.
const (
	maxWire       = 2.1 // commands for a contended cycle. The quick form has some at the beginning that a longer one hardly notices
	maxGoroutines = 50  // that 1,000 leases and more may cost
)

// scenes is all there is, or a short form of each of its kinds.
func scenes(server *redistest.Server, quick bool, rounds int, span time.Duration) []scene {
	lock := func(group, name string, columns []column, w locking) scene {
		s := scene{group: group, name: name, columns: columns, rounds: rounds}
		if w.one {
			s.check = func(m sample) error { return atMost("commands for a cycle", m["wire"], maxWire) }
		}
		span := span
		if !quick { // some turns for each waiter, else the fewest and the most differ by one that was not over
			span = min(max(span, 20*time.Duration(w.workers)*w.hold), 3*time.Second)
		}
		for _, sys := range systems {
			s.entries = append(s.entries, entry{sys.name, func() (sample, error) { return w.run(server, sys, span) }})
		}
		return s
	}
	var all []scene
	for _, n := range pick(quick, []int{1, 256}, []int{1, 16, 256}) {
		all = append(all, lock("Uncontended", plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}))
	}
	for _, hold := range pick(quick, []time.Duration{0}, []time.Duration{0, time.Millisecond}) {
		for _, n := range pick(quick, []int{128}, []int{2, 16, 128, 1024}) {
			all = append(all, lock("Contended, critical section "+hold.String(), fmt.Sprintf("%d waiters over %d clients", n, min(8, n)), contendedColumns,
				locking{clients: min(8, n), workers: n, one: true, hold: hold}))
		}
	}
	for _, n := range pick(quick, []int{128}, []int{16, 128, 1024}) {
		all = append(all, lock("Contended in one process", fmt.Sprintf("%d waiters", n), contendedColumns, locking{clients: 1, workers: n, one: true}))
	}
	for _, n := range pick(quick, []int{1000}, []int{1000, 10_000, 100_000}) {
		w := holding{n, pick(quick, 3*time.Second, 6*time.Second)}
		s := scene{
			group: "Holding past the TTL", name: plural(n, "lease"), columns: holdingColumns, rounds: min(rounds, 3),
			check: func(m sample) error {
				if m["kept"] != float64(n) {
					return fmt.Errorf("%.0f of %d leases were kept", m["kept"], n)
				}
				return atMost("goroutines more", m["goroutines"], maxGoroutines)
			},
		}
		for _, sys := range systems {
			if sys.keeps() && !strings.Contains(sys.name, "strict") {
				s.entries = append(s.entries, entry{sys.name, func() (sample, error) { return w.run(server, sys) }})
			}
		}
		all = append(all, s)
	}
	for _, n := range pick(quick, []int{3, 1000}, []int{3, 100, 10_000, 65_536}) {
		w := slots{n, pick(quick, 10, 300)}
		all = append(all, scene{
			group: "Slots, one of n is free", name: fmt.Sprintf("n = %d", n), columns: slotColumns, rounds: min(rounds, 3),
			entries: []entry{
				{"redlatch", func() (sample, error) { return w.redlatch(server) }},
				{"scan of SET NX", func() (sample, error) { return w.scan(server) }},
			},
		})
	}
	w := failover{pick(quick, 500*time.Millisecond, 2*time.Second)}
	s := scene{group: "The holder is killed", name: "TTL " + w.ttl.String(), columns: failoverColumns, rounds: rounds}
	for _, sys := range systems {
		s.entries = append(s.entries, entry{sys.name, func() (sample, error) { return w.run(server, sys) }})
	}
	return append(all, s)
}

func pick[T any](quick bool, short, long T) T {
	if quick {
		return short
	}
	return long
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func atMost(what string, got, most float64) error {
	if got > most {
		return fmt.Errorf("%.2f %s, want %.2f at most", got, what, most)
	}
	return nil
}
