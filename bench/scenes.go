package main

import (
	"fmt"
	"math"
	"time"
)

// part is scenes that share servers, and are measured together: results.json says for each part when
// that was, and of which commit.
type part struct {
	name   string
	kind   string // of the deployment
	nodes  int
	rounds int // at most: fewer if they differ little
	scenes func(f form) []scene
}

// form says how long and how often to measure, and whether in short.
type form struct {
	quick  bool
	rounds int
	span   time.Duration
}

// always is for parts that are measured in all rounds.
const always = math.MaxInt

// parts has all parts, in the order of the page.
var parts = []part{
	{"users", oneServer, 1, always, userScenes},
	{"few", oneServer, 1, always, fewScenes},
	{"bare", oneServer, 1, always, bareScenes},
	{"linger", oneServer, 1, always, lingerScenes},
	{"contended", oneServer, 1, 3, contendedScenes},
	{"cluster", inCluster, 3, 3, clusterScenes},
	{"quorum", quorum, 5, 3, quorumScenes},
	{"holding", oneServer, 1, 3, holdingScenes},
	{"slots", oneServer, 1, 3, slotScenes},
	{"killed", oneServer, 1, 3, killedScenes},
}

// scene is a workload and the systems that are put to it.
type scene struct {
	group   string // what it belongs to, and its place there: the heading of a table, and what tells its rows apart
	name    string
	size    int // on the axis of a plot
	columns []column
	rounds  int
	procs   int // GOMAXPROCS; 0 for the default
	systems []system
	run     workload
	check   func(m sample) error // of redlatch's figures that do not depend on the machine; nil if there are none
}

// workload puts a system to some work.
type workload func(d *deployment, sys system) (sample, error)

// column is a figure as tables show it.
type column struct {
	key, title, format string
	better             int // more or less, if redlatch and the others are compared by it
}

// What is better.
const (
	more = 1
	less = -1
)

var (
	userColumns = []column{
		{"p50", "wait p50 ms", "%.3f", less},
		{"p99", "p99 ms", "%.1f", less},
		{"p999", "p99.9 ms", "%.1f", less},
		{"cycles", "cycles/s", "%.0f", more},
		{"wire", "requests", "%.2f", 0},
		{"client", "client CPU µs", "%.0f", 0},
		{"redis", "Redis CPU µs", "%.0f", 0},
		{"cpu", "CPU of both µs", "%.0f", less},
		{"waiting", "waiting at the end", "%.0f", 0},
		{"errors", "errors", "%.0f", 0},
	}
	uncontendedColumns = []column{
		{"cycles", "cycles/s", "%.0f", more},
		{"p50", "p50 µs", "%.1f", 0},
		{"p99", "p99 µs", "%.0f", less},
		{"wire", "commands", "%.2f", 0},
		{"client", "client CPU µs", "%.1f", 0},
		{"redis", "Redis CPU µs", "%.1f", 0},
		{"cpu", "CPU of both µs", "%.1f", less},
		{"allocs", "allocations", "%.0f", 0},
	}
	farColumns = []column{
		{"trips", "p50 of an operation in round trips", "%.3f", less},
		{"cycles", "cycles/s", "%.0f", more},
		{"p50", "p50 µs", "%.0f", 0},
		{"p99", "p99 µs", "%.0f", less},
		{"ping", "PING p50 µs", "%.0f", 0},
		{"wire", "commands", "%.2f", 0},
	}
	contendedColumns = []column{
		{"cycles", "cycles/s", "%.0f", more},
		{"handoffs", "handoffs/s", "%.0f", more},
		{"gap", "gap p50 µs", "%.0f", 0},
		{"ping", "PING p50 µs", "%.0f", 0},
		{"p50", "wait p50 µs", "%.0f", 0},
		{"p99", "wait p99 µs", "%.0f", less},
		{"wire", "commands", "%.2f", 0},
		{"fairness", "fewest/most", "%.2f", 0},
		{"client", "client CPU µs", "%.0f", 0},
		{"redis", "Redis CPU µs", "%.1f", 0},
		{"cpu", "CPU of both µs", "%.0f", less},
	}
	manyNamesColumns = []column{
		{"cycles", "cycles/s", "%.0f", more},
		{"p50", "wait p50 µs", "%.0f", less},
		{"p99", "wait p99 µs", "%.0f", less},
		{"wire", "commands", "%.2f", 0},
		{"client", "client CPU µs", "%.0f", 0},
		{"redis", "Redis CPU µs", "%.1f", 0},
		{"cpu", "CPU of both µs", "%.0f", less},
		{"connections", "connections per client", "%.1f", less},
	}
	idlingColumns = []column{
		{"commands", "commands/s", "%.0f", less},
		{"reads", "reads/s of Redis", "%.0f", 0},
		{"connections", "connections per client", "%.1f", less},
		{"client", "client CPU %", "%.1f", less},
		{"redis", "Redis CPU %", "%.1f", less},
		{"memory", "bytes per waiter", "%.0f", less},
	}
	holdingColumns = []column{
		{"kept", "kept", "%.0f", 0},
		{"heap", "bytes per lease", "%.0f", less},
		{"goroutines", "goroutines", "%.0f", 0},
		{"commands", "commands/s", "%.0f", 0},
		{"reads", "reads/s of Redis", "%.0f", 0},
		{"client", "client CPU %", "%.1f", less},
		{"redis", "Redis CPU %", "%.1f", less},
	}
	slotColumns     = []column{{"p50", "p50 µs", "%.0f", less}, {"p99", "p99 µs", "%.0f", less}}
	failoverColumns = []column{
		{"without", "without a holder, ms", "%.0f", less}, {"late", "after the end of the lease, ms", "%.1f", less},
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

// single returns a scene of a workload of locking and unlocking.
func single(f form, group, name string, columns []column, w locking, systems []system) scene {
	s := scene{group: group, name: name, size: w.workers, columns: columns, rounds: f.rounds, systems: systems}
	if w.names == 1 {
		s.check = func(m sample) error {
			places := float64(w.workers) / max(m["count"], 1) // each waiter may ask for its place once more than it gets the lock
			return atMost("commands for a cycle", m["wire"]-places, maxWire)
		}
	}
	span := f.span
	if !f.quick && w.names > 0 { // some turns for each waiter, else the fewest and the most differ by one that was not over
		span = min(max(span, 20*time.Duration(w.workers/w.names)*w.hold), 3*time.Second)
	}
	s.run = func(d *deployment, sys system) (sample, error) { return w.run(d, sys, span) }
	return s
}

// apart returns scenes with these numbers of goroutines, each with its own name.
func apart(f form, group string, columns []column, systems []system, goroutines ...int) (all []scene) {
	for _, n := range goroutines {
		w := locking{clients: 1, workers: n}
		all = append(all, single(f, group, plural(n, "goroutine"), columns, w, systems))
	}
	return all
}

// thinking is the workload of users in a closed loop with time to think.
var thinking = users{
	Processes: 4, Names: 2000, Zipf: 0.8, Work: 2 * time.Millisecond,
	Workers: 200, Think: 40 * time.Millisecond,
}

func (w users) scene(f form, group, name string, systems []system) scene {
	span := pick(f.quick, f.span, 2*f.span)
	if w.Affinity > 0 {
		span = pick(f.quick, f.span, 6*f.span) // until most names have been at home for a while
	}
	return scene{
		group: group, name: name, columns: userColumns, rounds: f.rounds, systems: systems,
		run: func(d *deployment, sys system) (sample, error) { return w.run(d, sys, span) },
	}
}

// userScenes returns the workload of users, without and with time to think, and by a clock.
func userScenes(f form) (all []scene) {
	clocked, busy := thinking, thinking
	clocked.Think, clocked.Rate = 0, 2500
	busy.Think, busy.Zipf = 0, 1
	systems := named("floor rueidis", "redlatch", "redlatch, strict order", "redsync rueidis, 5 ms", "bsm/redislock, 5 ms", "rueidislock")
	for i, c := range []struct {
		name string
		users
	}{
		{"closed loop, with time to think: 200 goroutines, thinking for 40 ms", thinking},
		{"open loop: 2,500 arrivals a second, by the clock", clocked},
		{"closed loop, without a pause: 200 goroutines, and more of them at the same names", busy},
	} {
		s := c.scene(f, "The work of users", c.name, systems)
		s.size = i + 1   // by which aims tell them apart
		if c.Rate == 0 { // else more come than a slow machine can serve, and each that gives up has asked
			s.check = func(m sample) error { return atMost("requests for a cycle", m["wire"], maxUserWire) }
		}
		all = append(all, s)
	}
	return all
}

// fewScenes returns scenes of few goroutines and of many, each with its own name, with all cores
// and with one; and over a network.
func fewScenes(f form) (all []scene) {
	systems := named("floor rueidis", "redlatch", "redlatch go-redis", "redsync rueidis", "redsync go-redis", "bsm/redislock", "rueidislock")
	f.span = pick(f.quick, f.span, f.span*3/10)
	goroutines := pick(f.quick, []int{1, 256}, []int{1, 2, 4, 8, 16, 64, 256})
	one := apart(f, "Uncontended, GOMAXPROCS 1", uncontendedColumns, systems, goroutines...)
	for i := range one {
		one[i].procs = 1
	}
	all = append(apart(f, "Uncontended", uncontendedColumns, systems, goroutines...), one...)
	f.rounds = min(f.rounds, 3)
	for _, n := range pick(f.quick, []int{16}, []int{1, 16, 256}) {
		w := locking{clients: 1, workers: n, delay: time.Millisecond}
		all = append(all, single(f, "Uncontended, 1 ms away", plural(n, "goroutine"), farColumns, w, systems))
	}
	return all
}

// bareScenes returns scenes of redlatch beside a program that only sends the same scripts.
func bareScenes(f form) []scene {
	systems := named("redlatch", "redlatch's scripts, bare")
	return apart(f, "Beside the bare scripts", uncontendedColumns, systems, pick(f.quick, []int{16}, []int{1, 4, 16, 64})...)
}

// lingerScenes returns scenes of locks that a client keeps. In some, one process takes its names
// repeatedly. In another, two processes take turns. In the last, users work, and the client that
// had a name last makes nine of ten acquisitions of it.
func lingerScenes(f form) []scene {
	systems := named("redlatch", "redlatch, linger", "redsync rueidis", "bsm/redislock", "rueidislock")
	all := apart(f, "Kept by the client", uncontendedColumns, systems, pick(f.quick, []int{16}, []int{1, 16, 256})...)
	w := locking{clients: 2, workers: 2, names: 1}
	turns := single(f, "Kept, and wanted by another", "2 processes by turns", contendedColumns, w, named("redlatch", "redlatch, linger"))
	turns.check = nil // each turn may ask for the lock
	affine := thinking
	affine.Affinity = 0.93
	const name = "the closed loop with time to think, 90 % from the process that had the name last"
	return append(all, turns, affine.scene(f, "Kept, the work of users", name, systems))
}

// waiting is the systems whose waiting is compared.
var waiting = []string{
	"floor rueidis", "redlatch", "redlatch, strict order", "redlatch go-redis",
	"redsync rueidis", "redsync go-redis, 5 ms", "bsm/redislock", "rueidislock",
}

// contendedScenes returns scenes of one name that all want.
func contendedScenes(f form) (all []scene) {
	fewer := named("redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")
	busy := f // if nothing is done under the lock, there are many cycles in little time
	busy.span = pick(f.quick, f.span, f.span*7/10)
	crowds := pick(f.quick, nil, []int{2, 16, 128, 1024})
	for _, c := range []struct {
		form
		group   string
		hold    time.Duration
		procs   int
		systems []system
		waiters []int
	}{
		{busy, "Contended", 0, 0, named(waiting...), pick(f.quick, []int{128}, crowds)},
		{busy, "Contended, GOMAXPROCS 1", 0, 1, fewer, crowds},
		{f, "Contended, critical section 1ms", time.Millisecond, 0, fewer, crowds},
	} {
		for _, n := range c.waiters {
			w := locking{clients: min(8, n), workers: n, names: 1, hold: c.hold}
			name := fmt.Sprintf("%d waiters over %d clients", n, w.clients)
			s := single(c.form, c.group, name, contendedColumns, w, c.systems)
			s.procs = c.procs
			all = append(all, s)
		}
	}
	for _, n := range pick(f.quick, []int{128}, []int{16, 128, 1024}) {
		w := locking{clients: 1, workers: n, names: 1}
		all = append(all, single(busy, "Contended in one process", plural(n, "waiter"), contendedColumns, w, fewer))
	}
	return all
}

// clusterScenes returns the scenes that one server has as well, and one of many names with waiters.
func clusterScenes(f form) (all []scene) {
	systems := named("floor rueidis", "redlatch", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")
	short, longer := f, f
	short.span = pick(f.quick, f.span, f.span/2)
	longer.span, longer.rounds = pick(f.quick, f.span, 3*f.span), min(f.rounds, 2)
	names := pick(f.quick, 100, 1000)
	hot := locking{clients: 8, workers: 128, names: 1}
	many := locking{clients: 4, workers: 4 * names, names: names, hold: 100 * time.Millisecond}
	all = append(
		apart(short, "Cluster of 3, uncontended", uncontendedColumns, systems, pick(f.quick, []int{16}, []int{1, 16, 64, 256})...),
		single(f, "Cluster of 3, one hot key", "128 waiters over 8 clients", contendedColumns, hot,
			named("floor rueidis", "redlatch", "redlatch, strict order", "redlatch go-redis", "redsync rueidis", "bsm/redislock", "rueidislock")),
		single(longer, "Cluster of 3, many names", fmt.Sprintf("%d names, 4 goroutines over 4 clients for each, work 100 ms", names), manyNamesColumns, many, systems),
	)
	w := holding{locks: names, ttl: idleTTL, span: pick(f.quick, time.Second, heartbeat), waiters: 4}
	return append(all, scene{
		group: "Cluster of 3, many names that stay held", name: fmt.Sprintf("%d names, 4 waiters over 4 clients for each", names),
		columns: idlingColumns, rounds: longer.rounds, run: w.run,
		// Not go-redis: each connection of it costs a second, where there are so many.
		systems: named("floor rueidis", "redlatch", "redsync rueidis", "bsm/redislock", "rueidislock"),
		check: func(m sample) error {
			if err := atMost("connections of a client", m["connections"], maxConnections); err != nil || f.quick { // which is shorter than a heartbeat
				return err
			}
			return atMost("commands in a heartbeat for each name and client", m["commands"]*heartbeat.Seconds()/float64(names*w.waiters), maxIdle)
		},
	})
}

// quorumScenes returns scenes of a majority of five masters that know nothing of each other.
func quorumScenes(f form) []scene {
	all := apart(f, "Quorum of 5, uncontended", uncontendedColumns, named("redlatch", "redsync rueidis", "redsync go-redis"),
		pick(f.quick, []int{16}, []int{1, 16, 64})...)
	f.span = pick(f.quick, f.span, 3*f.span)
	w := locking{clients: 50, workers: 50, names: 1, hold: time.Millisecond}
	s := single(f, "Quorum of 5, contended", "50 waiters over 50 clients, work 1 ms", contendedColumns, w,
		named("redlatch", "redsync rueidis", "redsync rueidis, 5 ms", "redsync go-redis"))
	s.check = nil // a waiter asks all nodes
	return append(all, s)
}

// holdingScenes returns scenes of leases that are kept.
func holdingScenes(f form) (all []scene) {
	for _, n := range pick(f.quick, []int{1000}, []int{1000, 10_000, 100_000}) {
		ttl := pick(f.quick, 3*time.Second, 6*time.Second)
		w := holding{locks: n, ttl: ttl, span: ttl * 3 / 2}
		all = append(all, scene{
			group: "Holding past the TTL", name: plural(n, "lease"), size: n, columns: holdingColumns,
			rounds: pick(n <= 1000, 1, f.rounds), systems: named("redlatch", "redlatch go-redis", "rueidislock"), run: w.run,
			check: func(m sample) error {
				if m["kept"] != float64(n) {
					return fmt.Errorf("%.0f of %d leases were kept", m["kept"], n)
				}
				return atMost("goroutines more", m["goroutines"], maxGoroutines)
			},
		})
	}
	return all
}

// slotScenes returns scenes of a pool of slots of which one is free.
func slotScenes(f form) (all []scene) {
	for _, n := range pick(f.quick, []int{3, 1000}, []int{3, 100, 10_000, 65_536}) {
		w := slots{n, pick(f.quick, 10, 300)}
		all = append(all, scene{
			group: "Slots, one of n is free", name: fmt.Sprintf("n = %d", n), size: n, columns: slotColumns,
			rounds: f.rounds, systems: append(named("redlatch"), scanning), run: w.run,
		})
	}
	return all
}

// killedScenes returns scenes of a holder that dies.
func killedScenes(f form) []scene {
	w := failover{pick(f.quick, 500*time.Millisecond, 2*time.Second)}
	return []scene{{
		group: "The holder is killed", name: "TTL " + w.ttl.String(), columns: failoverColumns, rounds: f.rounds, run: w.run,
		systems: named(waiting...),
	}}
}

// plural returns a number of things in words.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// atMost refuses a figure that is too high.
func atMost(what string, got, most float64) error {
	if got > most {
		return fmt.Errorf("%.2f %s, want %.2f at most", got, what, most)
	}
	return nil
}
