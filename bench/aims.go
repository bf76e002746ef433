package main

import (
	"fmt"
	"slices"
	"strings"
)

// aim is what a figure of redlatch must reach, in some scenes.
type aim struct {
	groups   []string
	from, to int    // the sizes of the scenes; all if to is 0
	mode     string // of redlatch; "" for the usual one
	key      string // of the figure
	by       basis
	want     string // such as "1.2 at most"
}

// basis is what a figure is divided by: in words, and as a number for a figure of the scene and a mode
// of redlatch. The number is 0 if it was not measured.
type basis struct {
	words string
	of    func(r *report, s scene, system, key string) float64
}

var (
	itself  = basis{"", func(*report, scene, string, string) float64 { return 1 }}
	theBest = basis{" relative to the best other library's", func(r *report, s scene, _, key string) float64 {
		return r.best(s, key, s.column(key).better)
	}}
	itsPing = basis{" relative to the p50 of PING", func(r *report, s scene, system, _ string) float64 {
		return r.figure(s.group, s.name, system, "ping")
	}}
	turns = basis{" relative to waiters times the time of a cycle", func(r *report, s scene, system, _ string) float64 {
		return 1e6 * float64(s.size) / r.figure(s.group, s.name, system, "cycles")
	}}
	oneServers = basis{" relative to one server's", func(r *report, s scene, system, key string) float64 {
		return r.figure("Contended", s.name, system, key)
	}}
	rueidislocks = basis{" relative to rueidislock's", func(r *report, s scene, _, key string) float64 {
		return r.figure(s.group, s.name, "rueidislock", key)
	}}
	thatOfThree = basis{" relative to that with n = 3", func(r *report, s scene, system, key string) float64 {
		return r.figure(s.group, "n = 3", system, key)
	}}
)

// aims is all of them. The tables compare more figures with those of the best other library.
var aims = []aim{
	{work, 0, 0, "", "p50", theBest, "1.15 at most"},
	{work, 0, 0, "", "p99", theBest, "1 at most"},
	{work, 0, 0, "", "p999", theBest, "1 at most"},
	{work, 3, 3, "", "cycles", theBest, "1.5 at least"},
	{free, 1, 4, "", "cycles", theBest, "0.9 at least"},
	{free, 8, 16, "", "cycles", theBest, "1 at least"},
	{free, 64, 64, "", "cycles", theBest, "1.2 at least"},
	{free, 256, 256, "", "cycles", theBest, "1.4 at least"},
	{free, 1, 16, "", "cpu", theBest, "1.1 at most"},
	{free, 1, 1, "", "allocs", itself, "20 at most"},
	{free, 64, 256, "", "allocs", itself, "15 at most"},
	{[]string{"Uncontended, 1 ms away"}, 1, 16, "", "trips", itself, "1.02 at most"}, // with 256, cores are the limit
	{taken, 0, 0, "", "handoffs", theBest, "1.6 at least"},
	{taken, 0, 0, ", strict order", "handoffs", theBest, "1.6 at least"},
	{taken, 128, 1024, "", "gap", itsPing, "1.3 at most"},
	{taken, 128, 1024, ", strict order", "gap", itsPing, "1.3 at most"},
	{taken, 128, 1024, "", "wire", itself, "2.1 at most"},
	{taken, 128, 1024, ", strict order", "wire", itself, "2.1 at most"},
	{taken, 128, 1024, "", "fairness", itself, "0.9 at least"},
	{taken, 128, 1024, "", "p99", turns, "1.3 at most"},
	{[]string{"Contended in one process"}, 128, 128, "", "cycles", theBest, "20 at least"},
	{[]string{"Cluster of 3, uncontended"}, 1, 16, "", "cycles", theBest, "1 at least"},
	{[]string{"Cluster of 3, uncontended"}, 64, 256, "", "cycles", theBest, "1.2 at least"},
	{[]string{"Cluster of 3, one hot key"}, 0, 0, "", "handoffs", theBest, "1.6 at least"},
	{[]string{"Cluster of 3, one hot key"}, 0, 0, "", "handoffs", oneServers, "0.8 at least"},
	{[]string{"Cluster of 3, many names"}, 0, 0, "", "p99", theBest, "1 at most"},
	{manyNames, 0, 0, "", "connections", itself, "9 at most"}, // three to each node
	{manyNames[1:], 0, 0, "", "reads", itself, "300 at most"},
	{[]string{"Quorum of 5, uncontended"}, 0, 0, "", "cpu", theBest, "1.2 at most"},
	{[]string{"Quorum of 5, contended"}, 0, 0, "", "fairness", itself, "0.5 at least"},
	{[]string{"Quorum of 5, contended"}, 0, 0, "", "p99", theBest, "1 at most"},
	{[]string{"Holding past the TTL"}, 10_000, 100_000, "", "heap", itself, "1024 at most"},
	{[]string{"Holding past the TTL"}, 10_000, 100_000, "", "client", rueidislocks, "0.6 at most"},
	{[]string{"Slots, one of n is free"}, 65_536, 65_536, "", "p50", thatOfThree, "1.5 at most"},
}

// The groups that have aims in common.
var (
	work      = []string{"The work of users"}
	free      = []string{"Uncontended", "Uncontended, GOMAXPROCS 1"}
	taken     = []string{"Contended", "Contended, GOMAXPROCS 1", "Contended, critical section 1ms"}
	manyNames = []string{"Cluster of 3, many names", "Cluster of 3, many names that stay held"}
)

// ratio is a figure that has an aim, and whether that was reached.
type ratio struct{ what, value, aim, met string }

// ratios returns those that were measured.
func (r *report) ratios() (all []ratio) {
	for _, p := range parts {
		for _, s := range p.scenes(form{}) {
			for _, a := range aims {
				if !slices.Contains(a.groups, s.group) || a.to > 0 && (s.size < a.from || s.size > a.to) {
					continue
				}
				system := "redlatch" + a.mode
				own, by := r.figure(s.group, s.name, system, a.key), a.by.of(r, s, system, a.key)
				if own > 0 && by > 0 {
					what := fmt.Sprintf("%s, %s%s: %s%s", s.group, s.name, a.mode, s.column(a.key).title, a.by.words)
					all = append(all, ratio{what, fmt.Sprintf("%.4g", own/by), a.want, met(own/by, a.want)})
				}
			}
		}
	}
	return all
}

// column returns the column of a figure.
func (s scene) column(key string) column {
	return s.columns[slices.IndexFunc(s.columns, func(c column) bool { return c.key == key })]
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
