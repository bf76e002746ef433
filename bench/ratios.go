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
	for _, p := range parts {
		for _, s := range p.scenes(form{}) {
			all = append(all, r.ratiosOf(s)...)
		}
	}
	return all
}

// ratiosOf returns those of a scene. What goes on with the one before begins with dots.
func (r *report) ratiosOf(s scene) (all []ratio) {
	add := func(what string, value, by float64, format, aim string) {
		if value > 0 && by > 0 {
			all = append(all, ratio{what, fmt.Sprintf(format, value/by), aim, met(value/by, aim)})
		}
	}
	of := func(system, key string) float64 { return r.figure(s.group, s.name, system, key) }
	own := func(key string) float64 { return of("redlatch", key) }
	strict := func(key string) float64 { return of("redlatch, strict order", key) }
	most := func(key string) float64 { return r.best(s, key, more) }
	least := func(key string) float64 { return r.best(s, key, less) }
	cpu := func(aim string) {
		add("... CPU of client and Redis for a cycle", own("cpu"), least("cpu"), "%.2f", aim)
	}
	const best = " relative to the best other library's"

	switch s.group {
	case "The work of users":
		name, _, _ := strings.Cut(s.name, ":")
		add(name+": wait p50"+best, own("p50"), least("p50"), "%.2f", "1.15 at most")
		add("... p99", own("p99"), least("p99"), "%.2f", "1 at most")
		add("... p99.9", own("p999"), least("p999"), "%.2f", "1 at most")
		if strings.Contains(name, "without a pause") {
			add("... cycles/s", own("cycles"), most("cycles"), "%.2f", "1.5 at least")
		}
		cpu("")
	case "Uncontended", "Uncontended, GOMAXPROCS 1":
		aims := map[int][3]string{ // of cycles/s, CPU and allocations
			1:   {"0.9 at least", "1.1 at most", "20 at most"},
			2:   {"0.9 at least", "1.1 at most", ""},
			4:   {"0.9 at least", "1.1 at most", ""},
			8:   {"1 at least", "1.1 at most", ""},
			16:  {"1 at least", "1.1 at most", ""},
			64:  {"1.2 at least", "", "15 at most"},
			256: {"1.4 at least", "", "15 at most"},
		}[s.size]
		add(small(s.group)+", "+s.name+": cycles/s"+best, own("cycles"), most("cycles"), "%.2f", aims[0])
		add("... relative to the floor's", own("cycles"), of("floor rueidis", "cycles"), "%.2f", "")
		cpu(aims[1])
		add("... allocations", own("allocs"), 1, "%.0f", aims[2])
	case "Uncontended, 1 ms away":
		aim := "1.02 at most"
		if s.size == 256 { // where cores are the limit
			aim = ""
		}
		add("1 ms away, "+s.name+": p50 of an operation in round trips", own("trips"), 1, "%.3f", aim)
	case "Contended", "Contended, GOMAXPROCS 1", "Contended, critical section 1ms":
		what := fmt.Sprintf("%s, %d waiters: ", small(s.group), s.size)
		add(what+"handoffs/s"+best, own("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
		add("... with strict order", strict("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
		if s.size <= 16 {
			break
		}
		add(what+"gap p50 relative to the p50 of PING", own("gap"), own("ping"), "%.2f", "1.3 at most")
		add("... with strict order", strict("gap"), strict("ping"), "%.2f", "1.3 at most")
		add(what+"commands", own("wire"), 1, "%.2f", "2.1 at most")
		add("... with strict order", strict("wire"), 1, "%.2f", "2.1 at most")
		add(what+"fewest/most", own("fairness"), 1, "%.2f", "0.9 at least")
		add(what+"wait p99 relative to waiters times the time of a cycle",
			own("p99"), 1e6*float64(s.size)/own("cycles"), "%.2f", "1.3 at most")
	case "Contended in one process":
		if s.size == 128 {
			add("one process, 128 waiters: cycles/s"+best, own("cycles"), most("cycles"), "%.0f", "20 at least")
		}
	case "Cluster of 3, uncontended":
		aim := "1 at least"
		if s.size > 16 {
			aim = "1.2 at least"
		}
		add("cluster, uncontended, "+s.name+": cycles/s"+best, own("cycles"), most("cycles"), "%.2f", aim)
		cpu("")
	case "Cluster of 3, one hot key":
		add("cluster, one hot key: handoffs/s"+best, own("handoffs"), most("handoffs"), "%.1f", "1.6 at least")
		alone := r.figure("Contended", s.name, "redlatch", "handoffs")
		add("... relative to one server's", own("handoffs"), alone, "%.2f", "0.8 at least")
	case "Cluster of 3, many names":
		add("cluster, many names: cycles/s"+best, own("cycles"), most("cycles"), "%.2f", "")
		add("... wait p99", own("p99"), least("p99"), "%.2f", "1 at most")
		add("... connections of a client", own("connections"), 1, "%.0f", "9 at most") // three to each node
	case "Cluster of 3, many names that stay held":
		add("cluster, many names that stay held: connections of a client", own("connections"), 1, "%.0f", "9 at most")
		add("... requests/s: pipelines, as Redis reads them", own("reads"), 1, "%.0f", "300 at most")
		add("... commands/s in them", own("commands"), 1, "%.0f", "")
	case "Quorum of 5, uncontended":
		add("quorum, uncontended, "+s.name+": cycles/s relative to redsync's", own("cycles"), most("cycles"), "%.2f", "")
		cpu("1.2 at most")
	case "Quorum of 5, contended":
		add("quorum, 50 clients: fewest/most", own("fairness"), 1, "%.2f", "0.5 at least")
		add("... time to lock p50, relative to redsync's", own("p50"), least("p50"), "%.2f", "")
		add("... p99", own("p99"), least("p99"), "%.2f", "1 at most")
	case "Holding past the TTL":
		if s.size <= 1000 {
			break
		}
		add("holding "+s.name+": bytes per lease", own("heap"), 1, "%.0f", "1024 at most")
		client, by := own("client"), of("rueidislock", "client")
		add("... client CPU relative to rueidislock's", client, by, "%.2f", "0.6 at most")
		add("... for each extend: every third of the TTL, and every half", client/3, by/2, "%.2f", "0.5 at most")
		add("... Redis CPU relative to that with rueidislock", own("redis"), of("rueidislock", "redis"), "%.2f", "")
	case "Slots, one of n is free":
		if s.size == 65536 {
			few := r.figure(s.group, "n = 3", "redlatch", "p50")
			add("slots: p50 with n = 65536 relative to that with n = 3", own("p50"), few, "%.2f", "1.5 at most")
		}
	}
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

// best returns the best median of a figure among the other libraries; 0 if there is none.
func (r *report) best(s scene, key string, better int) float64 {
	var medians []float64
	for _, one := range r.of(s.group, s.name) {
		other := !strings.HasPrefix(one.System, "redlatch") && !strings.HasPrefix(one.System, "floor")
		if f, ok := one.Figures[key]; ok && other {
			medians = append(medians, f.Median)
		}
	}
	switch {
	case len(medians) == 0:
		return 0
	case better == less:
		return slices.Min(medians)
	default:
		return slices.Max(medians)
	}
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
