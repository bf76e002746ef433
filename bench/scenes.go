package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// part is scenes that share servers, and are measured together: results.json says for each part when
// that was, and of which commit.
type part struct {
	name   string
	kind   string // of the deployment
	nodes  int
	scenes func(d *deployment, f form) []scene
}

// form is how long and how often, and whether in short.
type form struct {
	quick  bool
	rounds int
	span   time.Duration
}

// parts is all there is, in the order of the page.
var parts = []part{
	{"users", oneServer, 1, userScenes},
	{"few", oneServer, 1, fewScenes},
	{"bare", oneServer, 1, bareScenes},
	{"linger", oneServer, 1, lingerScenes},
	{"contended", oneServer, 1, contendedScenes},
	{"cluster", inCluster, 3, clusterScenes},
	{"quorum", quorum, 5, quorumScenes},
	{"holding", oneServer, 1, holdingScenes},
	{"slots", oneServer, 1, slotScenes},
	{"killed", oneServer, 1, killedScenes},
}

// scene is a workload and the systems that are put to it.
type scene struct {
	group   string // what it belongs to, and its place there: the heading of a table, and what tells its rows apart
	name    string
	columns []column
	rounds  int
	procs   int // GOMAXPROCS; 0 for the default
	entries []entry
	check   func(m sample) error // of redlatch's figures that do not depend on the machine; nil if there are none
}

type entry struct {
	system string
	run    func() (sample, error)
}

// put puts each of these systems to a workload.
func put(systems []system, to func(system) (sample, error)) (all []entry) {
	for _, s := range systems {
		all = append(all, entry{s.name, func() (sample, error) { return to(s) }})
	}
	return all
}

// column is a figure as tables show it.
type column struct {
	key, title, format string
	better             int  // more or less, if redlatch and the others are compared by it
	spread             bool // whether the lowest and the highest stand beside it, as beside the first
}

// What is better.
const (
	more = 1
	less = -1
)

var (
	userColumns = []column{
		{"p50", "wait p50 ms", "%.3f", less, false},
		{"p99", "p99 ms", "%.1f", less, true},
		{"p999", "p99.9 ms", "%.1f", less, true},
		{"cycles", "cycles/s", "%.0f", more, false},
		{"wire", "requests", "%.2f", 0, false},
		{"client", "client CPU µs", "%.0f", 0, false},
		{"redis", "Redis CPU µs", "%.0f", 0, false},
		{"cpu", "CPU of both µs", "%.0f", less, false},
		{"waiting", "waiting at the end", "%.0f", 0, false},
		{"errors", "errors", "%.0f", 0, false},
	}
	uncontendedColumns = []column{
		{"cycles", "cycles/s", "%.0f", more, false},
		{"p50", "p50 µs", "%.1f", 0, false},
		{"p99", "p99 µs", "%.0f", less, false},
		{"wire", "commands", "%.2f", 0, false},
		{"client", "client CPU µs", "%.1f", 0, false},
		{"redis", "Redis CPU µs", "%.1f", 0, false},
		{"cpu", "CPU of both µs", "%.1f", less, false},
		{"allocs", "allocations", "%.0f", 0, false},
		{"switches", "switches", "%.1f", 0, false},
	}
	farColumns = []column{
		{"trips", "p50 of an operation in round trips", "%.3f", less, false},
		{"cycles", "cycles/s", "%.0f", more, false},
		{"p50", "p50 µs", "%.0f", 0, false},
		{"p99", "p99 µs", "%.0f", less, false},
		{"ping", "PING p50 µs", "%.0f", 0, false},
		{"wire", "commands", "%.2f", 0, false},
	}
	contendedColumns = []column{
		{"cycles", "cycles/s", "%.0f", more, false},
		{"handoffs", "handoffs/s", "%.0f", more, false},
		{"gap", "gap p50 µs", "%.0f", 0, false},
		{"ping", "PING p50 µs", "%.0f", 0, false},
		{"p50", "wait p50 µs", "%.0f", 0, false},
		{"p99", "wait p99 µs", "%.0f", less, false},
		{"wire", "commands", "%.2f", 0, false},
		{"fairness", "fewest/most", "%.2f", 0, false},
		{"client", "client CPU µs", "%.0f", 0, false},
		{"redis", "Redis CPU µs", "%.1f", 0, false},
		{"cpu", "CPU of both µs", "%.0f", less, false},
	}
	manyNamesColumns = []column{
		{"cycles", "cycles/s", "%.0f", more, false},
		{"p50", "wait p50 µs", "%.0f", less, false},
		{"p99", "wait p99 µs", "%.0f", less, false},
		{"wire", "commands", "%.2f", 0, false},
		{"client", "client CPU µs", "%.0f", 0, false},
		{"redis", "Redis CPU µs", "%.1f", 0, false},
		{"cpu", "CPU of both µs", "%.0f", less, false},
		{"connections", "connections per client", "%.1f", less, false},
	}
	idlingColumns = []column{
		{"commands", "commands/s", "%.0f", less, false},
		{"reads", "reads/s of Redis", "%.0f", 0, false},
		{"connections", "connections per client", "%.1f", less, false},
		{"client", "client CPU %", "%.1f", less, false},
		{"redis", "Redis CPU %", "%.1f", less, false},
		{"memory", "bytes per waiter", "%.0f", less, false},
	}
	holdingColumns = []column{
		{"kept", "kept", "%.0f", 0, false},
		{"heap", "bytes per lease", "%.0f", less, false},
		{"goroutines", "goroutines", "%.0f", 0, false},
		{"commands", "commands/s", "%.0f", 0, false},
		{"reads", "reads/s of Redis", "%.0f", 0, false},
		{"client", "client CPU %", "%.1f", less, false},
		{"redis", "Redis CPU %", "%.1f", less, false},
	}
	slotColumns     = []column{{"p50", "p50 µs", "%.0f", less, false}, {"p99", "p99 µs", "%.0f", less, false}}
	failoverColumns = []column{
		{"without", "without a holder, ms", "%.0f", less, false}, {"late", "after the end of the lease, ms", "%.1f", less, false},
	}
)

// The limits of what does not depend on the machine.
const (
	maxWire        = 2.1 // commands for a contended cycle
	maxUserWire    = 3.5 // requests for a cycle of users, tries and waits that are called off included
	maxGoroutines  = 50  // that 1,000 leases and more may cost
	maxConnections = 90  // of a client that waits for many names of a cluster
	maxIdle        = 1.5 // commands in a heartbeat for each name and client that waits
)

// heartbeat is redlatch's.
const heartbeat = 5 * time.Second

// single makes a scene of a workload of locking and unlocking.
func single(d *deployment, f form, group, name string, columns []column, w locking, all []system) scene {
	s := scene{group: group, name: name, columns: columns, rounds: f.rounds}
	if w.names == 1 && d.of() != quorum {
		s.check = func(m sample) error {
			places := float64(w.workers) / max(m["count"], 1) // each waiter may ask for its place once more than it gets the lock
			return atMost("commands for a cycle", m["wire"]-places, maxWire)
		}
	}
	span := f.span
	if !f.quick && w.names > 0 { // some turns for each waiter, else the fewest and the most differ by one that was not over
		span = min(max(span, 20*time.Duration(w.workers/w.names)*w.hold), 3*time.Second)
	}
	s.entries = put(all, func(sys system) (sample, error) { return w.run(d, sys, span) })
	return s
}

// userScenes is the workload of users, without and with time to think, and by a clock.
func userScenes(d *deployment, f form) []scene {
	w := users{Processes: 4, Names: 2000, Zipf: 0.8, Work: 2 * time.Millisecond, Workers: 200}
	thinking, busy, clocked := w, w, w
	thinking.Think = 40 * time.Millisecond
	busy.Zipf = 1
	clocked.Rate = 2500
	var all []scene
	for _, c := range []struct {
		name string
		users
	}{
		{"closed loop, with time to think: 200 goroutines, thinking for 40 ms", thinking},
		{"open loop: 2,500 arrivals a second, by the clock", clocked},
		{"closed loop, without a pause: 200 goroutines, and more of them at the same names", busy},
	} {
		s := scene{
			group: "The work of users", name: c.name, columns: userColumns, rounds: f.rounds,
			check: func(m sample) error { return atMost("requests for a cycle", m["wire"], maxUserWire) },
		}
		span := pick(f.quick, f.span, 2*f.span)
		systems := named("floor rueidis", "redlatch", "redlatch, strict order", "redsync rueidis, 5 ms", "bsm/redislock, 5 ms", "rueidislock")
		s.entries = put(systems, func(sys system) (sample, error) { return c.run(d, sys, span) })
		all = append(all, s)
	}
	return all
}

// fewScenes is few goroutines and many, each with its own name, with all cores and with one; and
// over a network.
func fewScenes(d *deployment, f form) (all []scene) {
	systems := named("floor rueidis", "redlatch", "redlatch go-redis", "redsync rueidis", "redsync go-redis", "bsm/redislock", "rueidislock")
	f.span = pick(f.quick, f.span, f.span*3/10)
	for _, procs := range []int{0, 1} {
		group := "Uncontended"
		if procs > 0 {
			group += ", GOMAXPROCS 1"
		}
		for _, n := range pick(f.quick, []int{1, 256}, []int{1, 2, 4, 8, 16, 64, 256}) {
			s := single(d, f, group, plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}, systems)
			s.procs = procs
			all = append(all, s)
		}
	}
	for _, n := range pick(f.quick, []int{16}, []int{1, 16, 256}) {
		w := locking{clients: 1, workers: n, delay: time.Millisecond}
		s := single(d, f, "Uncontended, 1 ms away", plural(n, "goroutine"), farColumns, w, systems)
		s.rounds = min(f.rounds, 3)
		all = append(all, s)
	}
	return all
}

// bareScenes is redlatch beside a program that sends the same scripts and does no more.
func bareScenes(d *deployment, f form) (all []scene) {
	systems := named("redlatch", "redlatch's scripts, bare")
	for _, n := range pick(f.quick, []int{16}, []int{1, 4, 16, 64}) {
		all = append(all, single(d, f, "Beside the bare scripts", plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}, systems))
	}
	return all
}

// lingerScenes is locks that a client keeps: names that one process takes again and again, one that
// two processes take by turns, and the work of users in which nine of ten acquisitions come from the
// process that had the name last.
func lingerScenes(d *deployment, f form) (all []scene) {
	systems := named("redlatch", "redlatch, linger", "redsync rueidis", "bsm/redislock", "rueidislock")
	for _, n := range pick(f.quick, []int{16}, []int{1, 16, 256}) {
		all = append(all, single(d, f, "Kept by the client", plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}, systems))
	}
	w := locking{clients: 2, workers: 2, names: 1}
	s := single(d, f, "Kept, and wanted by another", "2 processes by turns", contendedColumns, w, named("redlatch", "redlatch, linger"))
	s.check = nil // each turn may ask for the lock
	mix := users{Processes: 4, Names: 2000, Zipf: 0.8, Work: 2 * time.Millisecond, Workers: 200, Think: 40 * time.Millisecond, Affinity: 0.93}
	affine := scene{group: "Kept, the work of users", name: "the closed loop with time to think, 90 % from the process that had the name last", columns: userColumns, rounds: f.rounds}
	affine.entries = put(systems, func(sys system) (sample, error) { return mix.run(d, sys, pick(f.quick, f.span, 2*f.span)) })
	return append(all, s, affine)
}

// contendedScenes is one name that all want.
func contendedScenes(d *deployment, f form) (all []scene) {
	whole := named("floor rueidis", "redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "redsync go-redis, 5 ms", "bsm/redislock", "rueidislock")
	fewer := named("redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")
	busy := f // where nothing is done under the lock there are many cycles in little time
	busy.span = pick(f.quick, f.span, f.span*7/10)
	for _, c := range []struct {
		form
		group   string
		hold    time.Duration
		procs   int
		systems []system
		waiters []int
	}{
		{busy, "Contended", 0, 0, whole, pick(f.quick, []int{128}, []int{2, 16, 128, 1024})},
		{busy, "Contended, GOMAXPROCS 1", 0, 1, fewer, pick(f.quick, nil, []int{2, 16, 128, 1024})},
		{f, "Contended, critical section 1ms", time.Millisecond, 0, fewer, pick(f.quick, nil, []int{2, 16, 128, 1024})},
	} {
		for _, n := range c.waiters {
			w := locking{clients: min(8, n), workers: n, names: 1, hold: c.hold}
			s := single(d, c.form, c.group, fmt.Sprintf("%d waiters over %d clients", n, min(8, n)), contendedColumns, w, c.systems)
			s.procs, s.rounds = c.procs, min(f.rounds, 3)
			all = append(all, s)
		}
	}
	for _, n := range pick(f.quick, []int{128}, []int{16, 128, 1024}) {
		w := locking{clients: 1, workers: n, names: 1}
		s := single(d, busy, "Contended in one process", plural(n, "waiter"), contendedColumns, w, fewer)
		s.rounds = min(f.rounds, 3)
		all = append(all, s)
	}
	return all
}

// clusterScenes is what there is on one server as well, and many names that are waited for.
func clusterScenes(d *deployment, f form) (all []scene) {
	systems := named("floor rueidis", "redlatch", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")
	f.rounds = min(f.rounds, 3)
	short := f
	short.span = pick(f.quick, f.span, f.span/2)
	for _, n := range pick(f.quick, []int{16}, []int{1, 16, 64, 256}) {
		all = append(all, single(d, short, "Cluster of 3, uncontended", plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}, systems))
	}
	all = append(all, single(d, f, "Cluster of 3, one hot key", "128 waiters over 8 clients", contendedColumns, locking{clients: 8, workers: 128, names: 1},
		named("floor rueidis", "redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")))
	names := pick(f.quick, 100, 1000)
	longer := f
	longer.span, longer.rounds = pick(f.quick, f.span, 3*f.span), min(f.rounds, 2)
	all = append(all, single(d, longer, "Cluster of 3, many names", fmt.Sprintf("%d names, 4 goroutines over 4 clients for each, work 100 ms", names), manyNamesColumns,
		locking{clients: 4, workers: 4 * names, names: names, hold: 100 * time.Millisecond}, systems))
	w := idling{4, names, pick(f.quick, time.Second, heartbeat)}
	s := scene{
		group: "Cluster of 3, many names that stay held", name: fmt.Sprintf("%d names, 4 waiters over 4 clients for each", names), columns: idlingColumns, rounds: min(f.rounds, pick(f.quick, 1, 2)),
		check: func(m sample) error {
			if err := atMost("connections of a client", m["connections"], maxConnections); err != nil || f.quick { // which is shorter than a heartbeat
				return err
			}
			return atMost("commands in a heartbeat for each name and client", m["commands"]*heartbeat.Seconds()/float64(names*w.clients), maxIdle)
		},
	}
	systems = slices.DeleteFunc(systems, func(sys system) bool { return sys.name == "redlatch go-redis" }) // each connection of it costs a second, where there are so many
	s.entries = put(systems, func(sys system) (sample, error) { return w.run(d, sys) })
	return append(all, s)
}

// quorumScenes is a majority of five masters that know nothing of each other.
func quorumScenes(d *deployment, f form) (all []scene) {
	systems := named("redlatch", "redsync rueidis", "redsync rueidis, 5 ms", "redsync go-redis")
	f.rounds = min(f.rounds, 3)
	for _, n := range pick(f.quick, []int{16}, []int{1, 16, 64}) {
		s := single(d, f, "Quorum of 5, uncontended", plural(n, "goroutine"), uncontendedColumns, locking{clients: 1, workers: n}, systems)
		s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return strings.HasSuffix(e.system, "5 ms") })
		all = append(all, s)
	}
	longer := f
	longer.span = pick(f.quick, f.span, 3*f.span)
	s := single(d, longer, "Quorum of 5, contended", "50 waiters over 50 clients, work 1 ms", contendedColumns, locking{clients: 50, workers: 50, names: 1, hold: time.Millisecond}, systems)
	return append(all, s)
}

// holdingScenes is leases that are kept.
func holdingScenes(d *deployment, f form) (all []scene) {
	for _, n := range pick(f.quick, []int{1000}, []int{1000, 10_000, 100_000}) {
		w := holding{n, pick(f.quick, 3*time.Second, 6*time.Second)}
		s := scene{
			group: "Holding past the TTL", name: plural(n, "lease"), columns: holdingColumns, rounds: min(f.rounds, pick(n <= 1000, 1, 3)),
			check: func(m sample) error {
				if m["kept"] != float64(n) {
					return fmt.Errorf("%.0f of %d leases were kept", m["kept"], n)
				}
				return atMost("goroutines more", m["goroutines"], maxGoroutines)
			},
		}
		s.entries = put(named("redlatch", "redlatch go-redis", "rueidislock"), func(sys system) (sample, error) { return w.run(d, sys) })
		all = append(all, s)
	}
	return all
}

// slotScenes is a pool of slots of which one is free.
func slotScenes(d *deployment, f form) (all []scene) {
	for _, n := range pick(f.quick, []int{3, 1000}, []int{3, 100, 10_000, 65_536}) {
		w := slots{n, pick(f.quick, 10, 300)}
		all = append(all, scene{
			group: "Slots, one of n is free", name: fmt.Sprintf("n = %d", n), columns: slotColumns, rounds: min(f.rounds, 3),
			entries: []entry{
				{"redlatch", func() (sample, error) { return w.redlatch(d) }},
				{"scan of SET NX", func() (sample, error) { return w.scan(d) }},
			},
		})
	}
	return all
}

// killedScenes is a holder that dies.
func killedScenes(d *deployment, f form) []scene {
	w := failover{pick(f.quick, 500*time.Millisecond, 2*time.Second)}
	s := scene{group: "The holder is killed", name: "TTL " + w.ttl.String(), columns: failoverColumns, rounds: min(f.rounds, 3)}
	systems := named("floor rueidis", "redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "redsync go-redis, 5 ms", "bsm/redislock", "rueidislock")
	s.entries = put(systems, func(sys system) (sample, error) { return w.run(d, sys) })
	return []scene{s}
}

// defaultProcs is GOMAXPROCS as the program began.
var defaultProcs = runtime.GOMAXPROCS(0)

// begin sets GOMAXPROCS for the scene.
func (s scene) begin() {
	runtime.GOMAXPROCS(defaultProcs)
	if s.procs > 0 {
		runtime.GOMAXPROCS(s.procs)
	}
}
