package main

import (
	"fmt"
	"time"
)

// users is the workload of users: several processes whose goroutines choose among many names, some
// more often than others. Most wait for a lock, some only try, some give up, and all work for a
// while under it.
type users struct {
	Processes int
	Names     int
	Zipf      float64       // the exponent of the choice of names: the n-th is chosen n^-Zipf as often as the first
	Work      time.Duration // under the lock, exponentially distributed, as all times here
	Workers   int           // goroutines over all processes, in a closed loop
	Think     time.Duration // of a goroutine between two locks, in a closed loop
	Rate      float64       // arrivals in a second over all processes, in an open loop; 0 for a closed one
	Affinity  float64       // the share of choices that are among the names at home in the process; 0 if none are
}

// The shares of those that only try, and of those that give up after some patience.
const (
	triers   = 0.10
	quitters = 0.05
	patience = 5 * time.Millisecond
)

// account is what a process of users measured.
type account struct {
	Waits  []int32 // in microseconds, of those that wait for as long as it takes
	Late   []int32 // how much later than by the clock an arrival was noticed, in microseconds
	Counts sample  // by the keys below
	Err    string  // the last error of the library
}

// The keys of the counts are:
//
//	cycles   locks that were held and released
//	taken    tries that were told that the lock is taken
//	gave_up  waits that were called off
//	waiting  waits that were not over at the end; they are in Waits as well
//	errors   of the library
//	client   CPU in microseconds

// run puts a system to the workload for so long, after a fifth of that to get going.
func (w users) run(d *deployment, sys system, span time.Duration) (sample, error) {
	d.clear()
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for i := range w.Processes {
		p, _, err := start("users", order{
			users: w, Home: i, Span: span, System: sys.name, Target: d.target, TTL: lockTTL,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.in.Encode("begin"); err != nil {
			return nil, err
		}
	}
	time.Sleep(span / 5)
	m := &meter{d: d, wire: sys.wire}
	m.begin()
	time.Sleep(span)
	spent := m.end()
	var whole account
	n := make(sample)
	for _, p := range all {
		var a account
		if err := p.out.Decode(&a); err != nil {
			return nil, fmt.Errorf("what a process of users measured: %w", err)
		}
		if a.Counts["errors"] > a.Counts["cycles"] { // some are the library's, as its users meet them
			return nil, fmt.Errorf("%.0f errors by %.0f cycles: %s", a.Counts["errors"], a.Counts["cycles"], a.Err)
		}
		whole.Waits, whole.Late = append(whole.Waits, a.Waits...), append(whole.Late, a.Late...)
		for what, more := range a.Counts {
			n[what] += more
		}
	}
	s := sample{
		"p50": quantile(whole.Waits, 0.5), "p99": quantile(whole.Waits, 0.99), "p999": quantile(whole.Waits, 0.999),
		"waiting": n["waiting"], "errors": n["errors"],
	}
	for _, what := range []string{"cycles", "taken", "gave_up"} {
		s[what] = n[what] / spent.seconds()
	}
	if w.Rate > 0 {
		s["late"] = quantile(whole.Late, 0.5)
	}
	spent["client"] = reading{value: n["client"]}
	spent.perCycle(s, n["cycles"])
	delete(s, "allocs") // those of this process, and so are the switches
	delete(s, "switches")
	return s, nil
}
