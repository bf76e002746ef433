package main

import (
	"fmt"
	"slices"
	"strings"
)

// ratio is a figure that compares systems within the run, what is aimed at, and whether that was
// reached.
type ratio struct{ what, value, aim, met string }

// ratios returns those that were measured.
func (r *report) ratios() (all []ratio) {
	// add tells a figure relative to another; what goes on with the one before begins with dots.
	add := func(what string, value, by float64, format, aim string) {
		if value > 0 && by > 0 {
			all = append(all, ratio{what, fmt.Sprintf(format, value/by), aim, met(value/by, aim)})
		}
	}
	// The figures of one scene: those of redlatch, and of the best other library.
	group, scene := "", ""
	own := func(key string) float64 { return r.figure(group, scene, "redlatch", key) }
	strict := func(key string) float64 { return r.figure(group, scene, "redlatch, strict order", key) }
	most := func(key string) float64 { return r.best(group, scene, key) }
	least := func(key string) float64 { return r.least(group, scene, key) }
	const cpu = "... CPU of client and Redis for a cycle"

	for _, s := range userScenes(nil, form{}) {
		group, scene = s.group, s.name
		name, _, _ := strings.Cut(s.name, ":")
		add(name+": wait p50 relative to the best other library's", own("p50"), least("p50"), "%.2f", "1.15 at most")
		add("... p99", own("p99"), least("p99"), "%.2f", "1 at most")
		add("... p99.9", own("p999"), least("p999"), "%.2f", "1 at most")
		if strings.Contains(name, "without a pause") {
			add("... cycles/s", own("cycles"), most("cycles"), "%.2f", "1.5 at least")
		}
		add(cpu, own("cpu"), least("cpu"), "%.2f", "")
	}

	for _, group = range []string{"Uncontended", "Uncontended, GOMAXPROCS 1"} {
		for _, n := range []struct{ goroutines, cycles, cpu, allocs string }{
			{"1 goroutine", "0.9 at least", "1.1 at most", "20 at most"},
			{"2 goroutines", "0.9 at least", "1.1 at most", ""},
			{"4 goroutines", "0.9 at least", "1.1 at most", ""},
			{"8 goroutines", "1 at least", "1.1 at most", ""},
			{"16 goroutines", "1 at least", "1.1 at most", ""},
			{"64 goroutines", "1.2 at least", "", "15 at most"},
			{"256 goroutines", "1.4 at least", "", "15 at most"},
		} {
			scene = n.goroutines
			add(small(group)+", "+scene+": cycles/s relative to the best other library's", own("cycles"), most("cycles"), "%.2f", n.cycles)
			add("... relative to the floor's", own("cycles"), r.figure(group, scene, "floor rueidis", "cycles"), "%.2f", "")
			add(cpu, own("cpu"), least("cpu"), "%.2f", n.cpu)
			add("... allocations", own("allocs"), 1, "%.0f", n.allocs)
		}
	}
	group = "Uncontended, 1 ms away"
	for _, n := range [][2]string{{"1 goroutine", "1.02 at most"}, {"16 goroutines", "1.02 at most"}, {"256 goroutines", ""}} { // where cores are the limit
		scene = n[0]
		add("1 ms away, "+scene+": p50 of an operation in round trips", own("trips"), 1, "%.3f", n[1])
	}

	for _, group = range []string{"Contended", "Contended, GOMAXPROCS 1", "Contended, critical section 1ms"} {
		for _, waiters := range []int{2, 16, 128, 1024} {
			scene = fmt.Sprintf("%d waiters over %d clients", waiters, min(waiters, 8))
			what := fmt.Sprintf("%s, %d waiters: ", small(group), waiters)
			add(what+"handoffs/s relative to the best other library's", own("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
			add("... with strict order", strict("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
			if waiters <= 16 {
				continue
			}
			add(what+"gap p50 relative to the p50 of PING", own("gap"), own("ping"), "%.2f", "1.3 at most")
			add("... with strict order", strict("gap"), strict("ping"), "%.2f", "1.3 at most")
			add(what+"commands", own("wire"), 1, "%.2f", "2.1 at most")
			add("... with strict order", strict("wire"), 1, "%.2f", "2.1 at most")
			add(what+"fewest/most", own("fairness"), 1, "%.2f", "0.9 at least")
			add(what+"wait p99 relative to waiters times the time of a cycle", own("p99"), 1e6*float64(waiters)/own("cycles"), "%.2f", "1.3 at most")
		}
	}
	group, scene = "Contended in one process", "128 waiters"
	add("one process, 128 waiters: cycles/s relative to the best other library's", own("cycles"), most("cycles"), "%.0f", "20 at least")

	group = "Cluster of 3, uncontended"
	for _, n := range [][2]string{{"1 goroutine", "1 at least"}, {"16 goroutines", "1 at least"}, {"64 goroutines", "1.2 at least"}, {"256 goroutines", "1.2 at least"}} {
		scene = n[0]
		add("cluster, uncontended, "+scene+": cycles/s relative to the best other library's", own("cycles"), most("cycles"), "%.2f", n[1])
		add(cpu, own("cpu"), least("cpu"), "%.2f", "")
	}
	group, scene = "Cluster of 3, one hot key", "128 waiters over 8 clients"
	add("cluster, one hot key: handoffs/s relative to the best other library's", own("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
	add("... relative to one server's", own("handoffs"), r.figure("Contended", scene, "redlatch", "handoffs"), "%.2f", "0.8 at least")
	for _, s := range clusterScenes(nil, form{}) {
		switch group, scene = s.group, s.name; group {
		case "Cluster of 3, many names":
			add("cluster, many names: cycles/s relative to the best other library's", own("cycles"), most("cycles"), "%.2f", "")
			add("... wait p99", own("p99"), least("p99"), "%.2f", "1 at most")
			add("... connections of a client", own("connections"), 1, "%.0f", "9 at most") // three to each node
		case "Cluster of 3, many names that stay held":
			add("cluster, many names that stay held: connections of a client", own("connections"), 1, "%.0f", "9 at most")
			add("... requests/s: pipelines, as Redis reads them", own("reads"), 1, "%.0f", "300 at most")
			add("... commands/s in them", own("commands"), 1, "%.0f", "")
		}
	}

	group = "Quorum of 5, uncontended"
	for _, scene = range []string{"1 goroutine", "16 goroutines", "64 goroutines"} {
		add("quorum, uncontended, "+scene+": cycles/s relative to redsync's", own("cycles"), most("cycles"), "%.2f", "")
		add(cpu, own("cpu"), least("cpu"), "%.2f", "1.2 at most")
	}
	group, scene = "Quorum of 5, contended", "50 waiters over 50 clients, work 1 ms"
	add("quorum, 50 clients: fewest/most", own("fairness"), 1, "%.2f", "0.5 at least")
	add("... time to lock p50, relative to redsync's", own("p50"), least("p50"), "%.2f", "")
	add("... p99", own("p99"), least("p99"), "%.2f", "1 at most")

	group = "Holding past the TTL"
	for _, scene = range []string{"10000 leases", "100000 leases"} {
		add("holding "+scene+": bytes per lease", own("heap"), 1, "%.0f", "1024 at most")
		client, by := own("client"), r.figure(group, scene, "rueidislock", "client")
		add("... client CPU relative to rueidislock's", client, by, "%.2f", "0.6 at most")
		add("... for each extend: every third of the TTL, and every half", client/3, by/2, "%.2f", "0.5 at most")
		add("... Redis CPU relative to that with rueidislock", own("redis"), r.figure(group, scene, "rueidislock", "redis"), "%.2f", "")
	}

	group, scene = "Slots, one of n is free", "n = 3"
	add("slots: p50 with n = 65536 relative to that with n = 3", r.figure(group, "n = 65536", "redlatch", "p50"), own("p50"), "%.2f", "1.5 at most")
	return all
}

// small returns a heading as it stands within a sentence.
func small(heading string) string { return strings.ToLower(heading[:1]) + heading[1:] }

// met returns whether a value is as an aim says: "1.2 at most" or "0.9 at least".
func met(value float64, aim string) string {
	var limit float64
	var at, side string
	if n, _ := fmt.Sscan(aim, &limit, &at, &side); n < 3 {
		return ""
	}
	if side == "most" && value <= limit || side == "least" && value >= limit {
		return "yes"
	}
	return "no"
}

// best returns the largest median of a figure among the other libraries; 0 if there is none.
func (r *report) best(group, scene, key string) float64 {
	return slices.Max(append(r.others(group, scene, key), 0))
}

// least returns the smallest; 0 if there is none.
func (r *report) least(group, scene, key string) float64 {
	if all := r.others(group, scene, key); len(all) > 0 {
		return slices.Min(all)
	}
	return 0
}

// others returns the medians of a figure of the other libraries.
func (r *report) others(group, scene, key string) (all []float64) {
	for _, one := range r.of(group, scene) {
		other := !strings.HasPrefix(one.System, "redlatch") && !strings.HasPrefix(one.System, "floor")
		if f, ok := one.Figures[key]; ok && other {
			all = append(all, f.Median)
		}
	}
	return all
}

// figure returns a figure of a system; 0 if it was not measured.
func (r *report) figure(group, scene, system, key string) float64 {
	for _, one := range r.of(group, scene) {
		if one.System == system {
			return one.Figures[key].Median
		}
	}
	return 0
}
