package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
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

// The shares of users that only try, and of users that give up after some patience.
const (
	triers   = 0.10
	quitters = 0.05
	patience = 5 * time.Millisecond
)

// userOrder is the order for a process of users.
type userOrder struct {
	order
	users
	Home int           // which of the processes this is, from 0
	Span time.Duration // how long they measure, after a fifth of that to get going
}

// account is what a process of users measured.
type account struct {
	Waits  []int32 // in microseconds, of those that wait for as long as it takes
	Counts sample  // by the keys below
	Err    string  // the last error of the library
}

// The keys of the counts are:
//
//	cycles   locks that were held and released
//	waiting  waits that were not over at the end; they are in Waits as well
//	errors   of the library
//	client   CPU in microseconds

// run puts a system to the workload for span, after a fifth of that to get going.
func (w users) run(d *deployment, sys system, span time.Duration) (sample, error) {
	d.clear()
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for i := range w.Processes {
		p, _, err := start("users", userOrder{
			order{System: sys.name, Target: d.target, TTL: lockTTL}, w, i, span,
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
	var waits []int32
	n := make(sample)
	for _, p := range all {
		var a account
		if err := p.out.Decode(&a); err != nil {
			return nil, fmt.Errorf("what a process of users measured: %w", err)
		}
		if a.Counts["errors"] > a.Counts["cycles"] { // some are the library's, as its users meet them
			return nil, fmt.Errorf("%.0f errors by %.0f cycles: %s", a.Counts["errors"], a.Counts["cycles"], a.Err)
		}
		waits = append(waits, a.Waits...)
		for what, more := range a.Counts {
			n[what] += more
		}
	}
	s := sample{
		"p50": quantile(waits, 0.5), "p99": quantile(waits, 0.99), "p999": quantile(waits, 0.999),
		"cycles": n["cycles"] / spent.seconds(), "waiting": n["waiting"], "errors": n["errors"],
	}
	spent["client"] = reading{value: n["client"]}
	spent.perCycle(s, n["cycles"])
	delete(s, "allocs") // those of this process
	return s, nil
}

// client is a process of users.
type client struct {
	userOrder
	locker locker
	shares []float64 // of the names up to each, of all choices

	from    time.Time // since when is measured
	until   time.Time
	mu      sync.Mutex // guards account
	account account
}

// user is all that a process of users does.
func user() error {
	c := &client{account: account{Counts: make(sample)}}
	in, err := ordered(&c.userOrder)
	if err != nil {
		return err
	}
	c.shares = shares(c.Names, c.Zipf)
	if c.locker, err = named(c.System)[0].open(c.Target, c.TTL); err != nil {
		return err
	}
	if err := warm(c.locker); err != nil {
		return err
	}
	if err := answer("ready"); err != nil {
		return err
	}
	if err := in.Decode(new(string)); err != nil { // others are ready, too
		return err
	}
	c.from = time.Now().Add(c.Span / 5)
	c.until = c.from.Add(c.Span)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	if c.Rate > 0 {
		all.Go(func() { c.open(ctx, &all) })
	} else {
		for range c.Workers / c.Processes {
			all.Go(func() { c.closed(ctx) })
		}
	}
	time.Sleep(time.Until(c.from))
	cpu := processCPU()
	time.Sleep(time.Until(c.until))
	spent := processCPU() - cpu
	cancel()
	if err := within(patienceWithPeers, "a lock or an unlock", all.Wait); err != nil {
		return err
	}
	c.locker.close()
	c.account.Counts["client"] = float64(spent.Microseconds())
	return json.NewEncoder(os.Stdout).Encode(c.account)
}

// shares returns how often one of the first names is chosen: of the first, the first two, ...
func shares(names int, exponent float64) []float64 {
	up, total := make([]float64, names), 0.0
	for i := range up {
		total += math.Pow(float64(i+1), -exponent)
		up[i] = total
	}
	for i := range up {
		up[i] /= total
	}
	return up
}

func (c *client) name() string {
	n := min(sort.SearchFloat64s(c.shares, rand.Float64()), len(c.shares)-1)
	if rand.Float64() < c.Affinity { // every so many names are at home in the same process
		n += c.Home - n%c.Processes
	}
	return "user:" + strconv.Itoa(n)
}

// around returns a time that is exponentially distributed.
func around(mean time.Duration) time.Duration {
	return time.Duration(rand.ExpFloat64() * float64(mean))
}

// closed is a goroutine that locks, works, thinks and locks again.
func (c *client) closed(ctx context.Context) {
	retry.Sleep(ctx, around(c.Think)) // they do not begin all at once
	for ctx.Err() == nil {
		c.once(ctx, time.Now())
		if c.Think > 0 {
			retry.Sleep(ctx, around(c.Think))
		}
	}
}

// open starts a goroutine for each arrival, when the clock says so, and never waits for a lock. A
// wait counts from the time that the clock set, so a process that stalls does not hide it.
func (c *client) open(ctx context.Context, all *sync.WaitGroup) {
	mean := time.Duration(float64(time.Second) * float64(c.Processes) / c.Rate)
	for at := time.Now(); ctx.Err() == nil; at = at.Add(around(mean)) {
		sleepUntil(at)
		all.Go(func() { c.once(ctx, at) })
	}
}

// once locks a name, or tries to, works, and unlocks it. A wait counts from then.
func (c *client) once(ctx context.Context, then time.Time) {
	name := c.name()
	var h held
	var err error
	switch kind := rand.Float64(); {
	case kind < triers:
		h, err = c.locker.get(ctx, name, false)
		if errors.Is(err, errTaken) {
			return
		}
	case kind < triers+quitters:
		patient, cancel := context.WithCancel(ctx)
		defer cancel()
		timer := time.AfterFunc(around(patience), cancel)
		h, err = c.locker.lock(patient, name)
		timer.Stop()
		if err != nil && patient.Err() != nil {
			return
		}
	default:
		h, err = c.locker.lock(ctx, name)
		c.waited(time.Since(then), ctx.Err() == nil)
	}
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, context.Canceled) { // a library may see the end of the run first
			c.count(time.Now(), "errors")
			c.tell(time.Now(), func(a *account) { a.Err = fmt.Sprintf("%s: lock %q: %v", c.System, name, err) })
		}
		return
	}
	time.Sleep(around(c.Work))
	h.release()
	c.count(time.Now(), "cycles")
}

// tell changes the account, if at is in the time that is measured.
func (c *client) tell(at time.Time, change func(*account)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.Before(c.from) && at.Before(c.until) {
		change(&c.account)
	}
}

// count adds 1 to a count of the account.
func (c *client) count(at time.Time, what string) {
	c.tell(at, func(a *account) { a.Counts[what]++ })
}

// waited counts a wait that ended, with the lock or an error, or that had not when the time was up: so
// that waiters that starve are not left out.
func (c *client) waited(took time.Duration, ended bool) {
	at := time.Now()
	if !ended {
		at = c.from
		c.count(at, "waiting")
	}
	c.tell(at, func(a *account) { a.Waits = append(a.Waits, int32(min(took.Microseconds(), math.MaxInt32))) })
}
