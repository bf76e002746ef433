package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// locking is a workload of locking and unlocking.
type locking struct {
	clients int           // processes, so to speak: lockers with a pool each
	workers int           // goroutines, over all clients
	names   int           // that the goroutines share; 0 if each has its own
	hold    time.Duration // the critical section
	delay   time.Duration // of a network between clients and server
}

// run puts a system to the workload for span, after a fifth of that to get going.
func (w locking) run(d *deployment, sys system, span time.Duration) (sample, error) {
	d.clear()
	s, to, pings := make(sample), d.target, 500
	if w.delay > 0 {
		p, far, err := start("delay", order{Target: to, Delay: w.delay})
		if err != nil {
			return nil, err
		}
		defer p.kill()
		to, pings = target{oneServer, []string{far}}, 100
	}
	lockers := make([]locker, w.clients)
	for i := range lockers {
		l, err := sys.open(to, lockTTL)
		if err != nil {
			return nil, err
		}
		defer l.close()
		if err := warm(l); err != nil {
			return nil, err
		}
		lockers[i] = l
	}
	s["ping"] = ping(to.Addrs[0], pings)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := course{locking: w}
	m := &meter{d: d, wire: sys.wire, cycles: func() float64 { return float64(c.cycles.Load()) }}
	workers := make([]worker, w.workers)
	var all sync.WaitGroup
	for i := range workers {
		name := "own " + strconv.Itoa(i)
		if w.names > 0 {
			name = "contended " + strconv.Itoa(i%w.names)
		}
		all.Go(func() { workers[i].work(ctx, lockers[i/max(w.names, 1)%len(lockers)], name, i, &c) })
	}
	time.Sleep(span / 5)
	m.begin()
	c.measured.Store(true)
	time.Sleep(span)
	c.ended.Store(int64(time.Since(begun)))
	c.measured.Store(false)
	spent := m.end()
	s["connections"] = d.connections() / float64(w.clients)
	cancel()
	if err := within(patienceWithPeers, "a lock or an unlock", all.Wait); err != nil {
		return nil, err
	}

	var times []time.Duration
	fewest, most, cycles := workers[0].cycles, 0, 0.0
	for _, k := range workers {
		if k.err != nil {
			return nil, k.err
		}
		fewest, most = min(fewest, k.cycles), max(most, k.cycles)
		cycles += float64(k.cycles)
		times = append(times, k.times...)
	}
	s["count"], s["cycles"] = cycles, cycles/spent.seconds()
	s["p50"], s["p99"] = quantile(times, 0.5), quantile(times, 0.99)
	s["trips"] = s["p50"] / max(s["ping"], 1) / 2
	spent.perCycle(s, cycles)
	if w.names == 1 {
		s["handoffs"], s["gap"] = float64(len(c.gaps))/spent.seconds(), quantile(c.gaps, 0.5)
		s["fairness"] = float64(fewest) / float64(max(most, 1))
	}
	return s, nil
}

// course is how the lock passes from holder to holder. Only the holder touches what is not atomic.
type course struct {
	locking
	measured atomic.Bool
	cycles   atomic.Int64 // measured or not
	ended    atomic.Int64 // when the time that is measured was over, in nanoseconds since the process began
	last     int          // who held it before
	released atomic.Int64 // when it called release, the same
	gaps     []time.Duration
}

// worker is one goroutine and what it measured.
type worker struct {
	cycles int
	times  []time.Duration // of the whole cycle; of the wait, if goroutines share names
	err    error
}

func (k *worker) work(ctx context.Context, l locker, name string, id int, c *course) {
	for ctx.Err() == nil {
		start := time.Now()
		h, err := l.lock(ctx, name)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) { // a library may see the end of the run first
				k.err = fmt.Errorf("lock %q: %w", name, err)
			}
			// An unfinished wait counts with its time so far, or starving waiters would not count.
			if so := time.Duration(c.ended.Load()) - start.Sub(begun); c.names > 0 && so > 0 {
				k.times = append(k.times, so)
			}
			return
		}
		waited := time.Since(start)
		measured := c.measured.Load()
		if c.names == 1 {
			if at := c.released.Load(); measured && at > 0 && c.last != id {
				c.gaps = append(c.gaps, time.Since(begun)-time.Duration(at))
			}
			c.last = id
		}
		if c.hold > 0 {
			time.Sleep(c.hold)
		}
		if c.names == 1 {
			c.released.Store(int64(time.Since(begun)))
		}
		h.release()
		c.cycles.Add(1)
		if !measured {
			continue
		}
		k.cycles++
		if c.names > 0 {
			k.times = append(k.times, waited)
		} else {
			k.times = append(k.times, time.Since(start))
		}
	}
}
