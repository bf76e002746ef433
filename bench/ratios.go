package main

import (
	"fmt"
	"slices"
	"strings"
)

// ratio is a figure that compares systems within the run, and what is aimed at.
type ratio struct{ what, value, aim string }

// ratios is those that were measured.
func (r *report) ratios() []ratio {
	var all []ratio
	add := func(what string, value, by float64, format, aim string) {
		if value > 0 && by > 0 {
			all = append(all, ratio{what, fmt.Sprintf(format, value/by), aim})
		}
	}
	const alone, some, many = "1 goroutine", "16 goroutines", "256 goroutines"
	u := "Uncontended"
	add("uncontended, 1 goroutine: p50 by that of the floor", r.figure(u, alone, "redlatch", "p50"), r.figure(u, alone, "floor rueidis", "p50"), "%.2f", "1.2 at most")
	add("... by that of the best other library", r.figure(u, alone, "redlatch", "p50"), r.least(u, alone, "p50"), "%.2f", "")
	add("uncontended, 16 goroutines: cycles/s by those of the floor", r.figure(u, some, "redlatch", "cycles"), r.figure(u, some, "floor rueidis", "cycles"), "%.2f", "")
	add("... by those of the best other library", r.figure(u, some, "redlatch", "cycles"), r.best(u, some, "cycles"), "%.2f", "")
	add("uncontended, 256 goroutines: cycles/s by those of the floor", r.figure(u, many, "redlatch", "cycles"), r.figure(u, many, "floor rueidis", "cycles"), "%.2f", "0.7 at least")
	add("... by those of the best other library", r.figure(u, many, "redlatch", "cycles"), r.best(u, many, "cycles"), "%.2f", "1.2 at least")
	for _, hold := range []string{"0s", "1ms"} {
		c := "Contended, critical section " + hold
		for _, waiters := range []string{"128", "1024"} {
			scene := waiters + " waiters over 8 clients"
			what := "contended, " + waiters + " waiters, " + hold + ": "
			add(what+"handoffs/s by those of the best other library", r.figure(c, scene, "redlatch", "handoffs"), r.best(c, scene, "handoffs"), "%.1f", "1.6 at least")
			add(what+"gap p50 by the p50 of PING", r.figure(c, scene, "redlatch", "gap"), r.figure(c, scene, "redlatch", "ping"), "%.2f", "1.5 at most")
			add(what+"... with strict order", r.figure(c, scene, "redlatch, strict order", "gap"), r.figure(c, scene, "redlatch, strict order", "ping"), "%.2f", "1.5 at most")
			add(what+"commands", r.figure(c, scene, "redlatch", "wire"), 1, "%.2f", "2.1 at most")
			add(what+"... with strict order", r.figure(c, scene, "redlatch, strict order", "wire"), 1, "%.2f", "2.1 at most")
			add(what+"fewest/most", r.figure(c, scene, "redlatch", "fairness"), 1, "%.2f", "0.9 at least")
			add(what+"wait p99 by waiters times the time of a cycle", r.figure(c, scene, "redlatch", "p99"), 1e6*waiterCount(waiters)/r.figure(c, scene, "redlatch", "cycles"), "%.2f", "1.3 at most")
		}
	}
	p := "Contended in one process"
	add("one process, 128 waiters: cycles/s by those of the best other library", r.figure(p, "128 waiters", "redlatch", "cycles"), r.best(p, "128 waiters", "cycles"), "%.0f", "20 at least")
	h := "Holding past the TTL"
	for _, n := range []string{"10000 leases", "100000 leases"} {
		add("holding "+n+": bytes per lease", r.figure(h, n, "redlatch", "heap"), 1, "%.0f", "1024 at most")
		add("... client CPU by rueidislock's", r.figure(h, n, "redlatch", "client"), r.figure(h, n, "rueidislock", "client"), "%.2f", "0.5 at most")
		add("... Redis CPU by that with rueidislock", r.figure(h, n, "redlatch", "redis"), r.figure(h, n, "rueidislock", "redis"), "%.2f", "")
	}
	s := "Slots, one of n is free"
	add("slots: p50 with n = 65536 by that with n = 3", r.figure(s, "n = 65536", "redlatch", "p50"), r.figure(s, "n = 3", "redlatch", "p50"), "%.2f", "1.5 at most")
	return all
}

func waiterCount(text string) (n float64) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// best is the largest median of a figure among the other libraries.
func (r *report) best(group, scene, key string) float64 {
	return slices.Max(r.others(group, scene, key))
}

// least is the smallest.
func (r *report) least(group, scene, key string) float64 {
	return slices.Min(r.others(group, scene, key))
}

// others is the medians of a figure of the other libraries; 0 if there are none.
func (r *report) others(group, scene, key string) (all []float64) {
	for _, one := range r.of(group, scene) {
		if !strings.HasPrefix(one.System, "redlatch") && !strings.HasPrefix(one.System, "floor") {
			all = append(all, one.Figures[key].Median)
		}
	}
	if len(all) == 0 {
		return []float64{0}
	}
	return all
}
