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
	Waits   []int32 // in microseconds, of those that wait for as long as it takes
	Late    []int32 // how much later than by the clock an arrival was noticed, in microseconds
	Cycles  int     // locks that were held and released
	Taken   int     // tries that were told that the lock is taken
	GaveUp  int     // waits that were called off
	Waiting int     // waits that were not over at the end; they are in Waits as well
	CPU     float64 // in microseconds
	Errors  int     // of the library
	Err     string  // the last of them
}

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
		p, _, err := start("users", order{users: w, Home: i, System: sys.name, Target: d.target, TTL: lockTTL})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	tell := func(what string) error {
		for _, p := range all {
			if err := p.in.Encode(what); err != nil {
				return err
			}
		}
		return nil
	}
	if err := tell("begin"); err != nil {
		return nil, err
	}
	time.Sleep(span / 5)
	m := &meter{d: d, wire: sys.wire}
	m.begin()
	if err := tell("measure"); err != nil {
		return nil, err
	}
	time.Sleep(span)
	if err := tell("end"); err != nil {
		return nil, err
	}
	spent := m.end()
	var whole account
	for _, p := range all {
		var a account
		if err := p.out.Decode(&a); err != nil {
			return nil, fmt.Errorf("what a process of users measured: %w", err)
		}
		if a.Errors > a.Cycles { // some are the library's, as its users meet them
			return nil, fmt.Errorf("%d errors by %d cycles: %s", a.Errors, a.Cycles, a.Err)
		}
		whole.add(a)
	}
	spent["client"] = reading{value: whole.CPU}
	s := sample{
		"cycles": float64(whole.Cycles) / spent.seconds(),
		"p50":    quantile(whole.Waits, 0.5), "p99": quantile(whole.Waits, 0.99), "p999": quantile(whole.Waits, 0.999),
		"taken": float64(whole.Taken) / spent.seconds(), "gave_up": float64(whole.GaveUp) / spent.seconds(),
		"waiting": float64(whole.Waiting), "errors": float64(whole.Errors),
	}
	if w.Rate > 0 {
		s["late"] = quantile(whole.Late, 0.5)
	}
	spent.perCycle(s, float64(whole.Cycles))
	delete(s, "allocs") // those of this process, and so are the switches
	delete(s, "switches")
	return s, nil
}

func (a *account) add(b account) {
	a.Waits, a.Late = append(a.Waits, b.Waits...), append(a.Late, b.Late...)
	a.Cycles, a.Taken, a.GaveUp = a.Cycles+b.Cycles, a.Taken+b.Taken, a.GaveUp+b.GaveUp
	a.Waiting, a.Errors = a.Waiting+b.Waiting, a.Errors+b.Errors
	a.CPU += b.CPU
}
