package main

import (
	"fmt"
	"math"
	"strings"
)

// ratio is a figure that compares systems within the run, what is aimed at, and whether that was
// reached.
type ratio struct{ part, what, value, aim, met string }

// ratios returns those of a part that were measured; of all parts, if the name is empty.
func (r *report) ratios(part string) []ratio {
	var all []ratio
	in := ""
	add := func(what string, value, by float64, format, aim string) {
		if value > 0 && by > 0 && (part == "" || part == in) {
			all = append(all, ratio{in, what, fmt.Sprintf(format, value/by), aim, met(value/by, aim)})
		}
	}

	in = "users"
	for _, s := range userScenes(nil, form{}) {
		name, _, _ := strings.Cut(s.name, ":")
		u := s.group
		add(name+": wait p50 relative to the best other library's", r.figure(u, s.name, "redlatch", "p50"), r.least(u, s.name, "p50"), "%.2f", "1.15 at most")
		add("... p99", r.figure(u, s.name, "redlatch", "p99"), r.least(u, s.name, "p99"), "%.2f", "1 at most")
		add("... p99.9", r.figure(u, s.name, "redlatch", "p999"), r.least(u, s.name, "p999"), "%.2f", "1 at most")
		if strings.Contains(name, "without a pause") {
			add("... cycles/s", r.figure(u, s.name, "redlatch", "cycles"), r.best(u, s.name, "cycles"), "%.2f", "1.5 at least")
		}
		add("... CPU of client and Redis for a cycle", r.figure(u, s.name, "redlatch", "cpu"), r.least(u, s.name, "cpu"), "%.2f", "")
	}

	in = "few"
	for _, u := range []string{"Uncontended", "Uncontended, GOMAXPROCS 1"} {
		what := strings.ToLower(u[:1]) + u[1:] + ", "
		for _, n := range []struct {
			goroutines string
			cycles     string
			cpu        string
		}{
			{"1 goroutine", "0.9 at least", "1.1 at most"},
			{"2 goroutines", "0.9 at least", "1.1 at most"},
			{"4 goroutines", "0.9 at least", "1.1 at most"},
			{"8 goroutines", "1 at least", "1.1 at most"},
			{"16 goroutines", "1 at least", "1.1 at most"},
			{"64 goroutines", "1.2 at least", ""},
			{"256 goroutines", "1.4 at least", ""},
		} {
			at := n.goroutines
			add(what+at+": cycles/s relative to the best other library's", r.figure(u, at, "redlatch", "cycles"), r.best(u, at, "cycles"), "%.2f", n.cycles)
			add("... relative to the floor's", r.figure(u, at, "redlatch", "cycles"), r.figure(u, at, "floor rueidis", "cycles"), "%.2f", "")
			add("... CPU of client and Redis for a cycle", r.figure(u, at, "redlatch", "cpu"), r.least(u, at, "cpu"), "%.2f", n.cpu)
			limit := ""
			switch at {
			case "1 goroutine":
				limit = "20 at most"
			case "64 goroutines", "256 goroutines":
				limit = "15 at most"
			}
			add("... allocations", r.figure(u, at, "redlatch", "allocs"), 1, "%.0f", limit)
		}
	}
	for _, n := range []string{"1 goroutine", "16 goroutines", "256 goroutines"} {
		limit := "1.02 at most"
		if n == "256 goroutines" { // where cores are the limit
			limit = ""
		}
		add("1 ms away, "+n+": p50 of an operation in round trips", r.figure("Uncontended, 1 ms away", n, "redlatch", "trips"), 1, "%.3f", limit)
	}

	in = "contended"
	for _, c := range []string{"Contended", "Contended, GOMAXPROCS 1", "Contended, critical section 1ms"} {
		for _, scene := range []string{"2 waiters over 2 clients", "16 waiters over 8 clients", "128 waiters over 8 clients", "1024 waiters over 8 clients"} {
			waiters, _, _ := strings.Cut(scene, " ")
			what := strings.ToLower(c[:1]) + c[1:] + ", " + waiters + " waiters: "
			add(what+"handoffs/s relative to the best other library's", r.figure(c, scene, "redlatch", "handoffs"), r.best(c, scene, "handoffs"), "%.1f", "1.6 at least")
			add("... with strict order", r.figure(c, scene, "redlatch, strict order", "handoffs"), r.best(c, scene, "handoffs"), "%.1f", "1.6 at least")
			if waiters == "2" || waiters == "16" {
				continue
			}
			add(what+"gap p50 relative to the p50 of PING", r.figure(c, scene, "redlatch", "gap"), r.figure(c, scene, "redlatch", "ping"), "%.2f", "1.3 at most")
			add("... with strict order", r.figure(c, scene, "redlatch, strict order", "gap"), r.figure(c, scene, "redlatch, strict order", "ping"), "%.2f", "1.3 at most")
			add(what+"commands", r.figure(c, scene, "redlatch", "wire"), 1, "%.2f", "2.1 at most")
			add("... with strict order", r.figure(c, scene, "redlatch, strict order", "wire"), 1, "%.2f", "2.1 at most")
			add(what+"fewest/most", r.figure(c, scene, "redlatch", "fairness"), 1, "%.2f", "0.9 at least")
			add(what+"wait p99 relative to waiters times the time of a cycle", r.figure(c, scene, "redlatch", "p99"), 1e6*count(waiters)/r.figure(c, scene, "redlatch", "cycles"), "%.2f", "1.3 at most")
		}
	}
	p := "Contended in one process"
	add("one process, 128 waiters: cycles/s relative to the best other library's", r.figure(p, "128 waiters", "redlatch", "cycles"), r.best(p, "128 waiters", "cycles"), "%.0f", "20 at least")

	in = "cluster"
	u := "Cluster of 3, uncontended"
	for _, n := range []struct{ goroutines, aim string }{
		{"1 goroutine", "1 at least"}, {"16 goroutines", "1 at least"}, {"64 goroutines", "1.2 at least"}, {"256 goroutines", "1.2 at least"},
	} {
		add("cluster, uncontended, "+n.goroutines+": cycles/s relative to the best other library's", r.figure(u, n.goroutines, "redlatch", "cycles"), r.best(u, n.goroutines, "cycles"), "%.2f", n.aim)
		add("... CPU of client and Redis for a cycle", r.figure(u, n.goroutines, "redlatch", "cpu"), r.least(u, n.goroutines, "cpu"), "%.2f", "")
	}
	const hot = "128 waiters over 8 clients"
	add("cluster, one hot key: handoffs/s relative to the best other library's", r.figure("Cluster of 3, one hot key", hot, "redlatch", "handoffs"), r.best("Cluster of 3, one hot key", hot, "handoffs"), "%.1f", "1.6 at least")
	add("... relative to one server's", r.figure("Cluster of 3, one hot key", hot, "redlatch", "handoffs"), r.figure("Contended", hot, "redlatch", "handoffs"), "%.2f", "0.8 at least")
	for _, s := range clusterScenes(nil, form{}) {
		switch s.group {
		case "Cluster of 3, many names":
			add("cluster, many names: cycles/s relative to the best other library's", r.figure(s.group, s.name, "redlatch", "cycles"), r.best(s.group, s.name, "cycles"), "%.2f", "")
			add("... wait p99", r.figure(s.group, s.name, "redlatch", "p99"), r.least(s.group, s.name, "p99"), "%.2f", "1 at most")
			add("... connections of a client", r.figure(s.group, s.name, "redlatch", "connections"), 1, "%.0f", "8 at most")
		case "Cluster of 3, many names that stay held":
			add("cluster, many names that stay held: connections of a client", r.figure(s.group, s.name, "redlatch", "connections"), 1, "%.0f", "8 at most")
			add("... requests/s: pipelines, as Redis reads them", r.figure(s.group, s.name, "redlatch", "reads"), 1, "%.0f", "300 at most")
			add("... commands/s in them", r.figure(s.group, s.name, "redlatch", "commands"), 1, "%.0f", "")
		}
	}

	in = "quorum"
	q := "Quorum of 5, uncontended"
	for _, n := range []string{"1 goroutine", "16 goroutines", "64 goroutines"} {
		add("quorum, uncontended, "+n+": cycles/s relative to redsync's", r.figure(q, n, "redlatch", "cycles"), r.best(q, n, "cycles"), "%.2f", "")
		add("... CPU of client and Redis for a cycle", r.figure(q, n, "redlatch", "cpu"), r.least(q, n, "cpu"), "%.2f", "1.2 at most")
	}
	q = "Quorum of 5, contended"
	add("quorum, 50 clients: fewest/most", r.figure(q, "50 waiters over 50 clients, work 1 ms", "redlatch", "fairness"), 1, "%.2f", "0.5 at least")
	add("... time to lock p50, relative to redsync's", r.figure(q, "50 waiters over 50 clients, work 1 ms", "redlatch", "p50"), r.least(q, "50 waiters over 50 clients, work 1 ms", "p50"), "%.2f", "")
	add("... p99", r.figure(q, "50 waiters over 50 clients, work 1 ms", "redlatch", "p99"), r.least(q, "50 waiters over 50 clients, work 1 ms", "p99"), "%.2f", "1 at most")

	in = "holding"
	h := "Holding past the TTL"
	for _, n := range []string{"10000 leases", "100000 leases"} {
		add("holding "+n+": bytes per lease", r.figure(h, n, "redlatch", "heap"), 1, "%.0f", "1024 at most")
		client, by := r.figure(h, n, "redlatch", "client"), r.figure(h, n, "rueidislock", "client")
		add("... client CPU relative to rueidislock's", client, by, "%.2f", "0.6 at most")
		add("... for each extend: every third of the TTL, and every half", client/3, by/2, "%.2f", "0.5 at most")
		add("... Redis CPU relative to that with rueidislock", r.figure(h, n, "redlatch", "redis"), r.figure(h, n, "rueidislock", "redis"), "%.2f", "")
	}

	in = "slots"
	s := "Slots, one of n is free"
	add("slots: p50 with n = 65536 relative to that with n = 3", r.figure(s, "n = 65536", "redlatch", "p50"), r.figure(s, "n = 3", "redlatch", "p50"), "%.2f", "1.5 at most")
	return all
}

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

func count(text string) (n float64) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// best returns the largest median of a figure among the other libraries; 0 if there is none.
func (r *report) best(group, scene, key string) (most float64) {
	for _, one := range r.of(group, scene) {
		if other(one.System) {
			most = max(most, one.Figures[key].Median)
		}
	}
	return most
}

// least returns the smallest; 0 if there is none.
func (r *report) least(group, scene, key string) float64 {
	least := math.Inf(1)
	for _, one := range r.of(group, scene) {
		if f, ok := one.Figures[key]; ok && other(one.System) {
			least = min(least, f.Median)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
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

// other reports whether a system is another library.
func other(system string) bool {
	return !strings.HasPrefix(system, "redlatch") && !strings.HasPrefix(system, "floor")
}
