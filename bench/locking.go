package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// lockTTL is that of the locks that are locked and unlocked.
const lockTTL = 10 * time.Second

// locking is a workload of locking and unlocking.
type locking struct {
	clients int           // processes, so to speak: lockers with a pool each
	workers int           // goroutines, over all clients
	one     bool          // all lock the same name; else each its own
	hold    time.Duration // the critical section
}

// run puts a system to the workload for so long, after a fifth of that to get going.
func (w locking) run(server *redistest.Server, sys system, span time.Duration) (sample, error) {
	server.Do("FLUSHALL")
	lockers := make([]locker, w.clients)
	for i := range lockers {
		l, err := sys.open(server.Addr(), lockTTL)
		if err != nil {
			return nil, err
		}
		defer l.close()
		h, err := l.lock(context.Background(), "warm up")
		if err != nil {
			return nil, err
		}
		h.release()
		lockers[i] = l
	}
	s := sample{"ping": ping(server)}
	m := &meter{server: server, wire: sys.wire}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := course{locking: w}
	workers := make([]worker, w.workers)
	var all sync.WaitGroup
	for i := range workers {
		name := "contended"
		if !w.one {
			name = "own " + strconv.Itoa(i)
		}
		all.Go(func() { workers[i].work(ctx, lockers[i%len(lockers)], name, i, &c) })
	}
	time.Sleep(span / 5)
	m.begin()
	c.measured.Store(true)
	time.Sleep(span)
	c.measured.Store(false)
	spent := m.end()
	cancel()
	all.Wait()

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
	s["cycles"] = cycles / spent.seconds
	s["p50"], s["p99"] = quantile(times, 0.5), quantile(times, 0.99)
	if cycles > 0 {
		s["wire"], s["allocs"] = spent.commands/cycles, spent.allocs/cycles
		s["client"], s["redis"] = spent.client/cycles, spent.redis/cycles
	}
	if w.one {
		s["handoffs"], s["gap"] = float64(len(c.gaps))/spent.seconds, quantile(c.gaps, 0.5)
		s["fairness"] = float64(fewest) / float64(max(most, 1))
	}
	return s, nil
}

// course is how the lock passes from one to the next. But for measured, only the holder touches it.
type course struct {
	locking
	measured atomic.Bool
	last     int          // who held it before
	released atomic.Int64 // when it called release, in nanoseconds since the process began; atomic for workloads of many locks
	gaps     []time.Duration
}

var begun = time.Now()

// worker is one goroutine and what it measured.
type worker struct {
	cycles int
	times  []time.Duration // of the whole cycle; if all lock the same name, of the wait
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
			return
		}
		waited := time.Since(start)
		measured := c.measured.Load()
		if c.one {
			if at := c.released.Load(); measured && at > 0 && c.last != id {
				c.gaps = append(c.gaps, time.Since(begun)-time.Duration(at))
			}
			c.last = id
		}
		if c.hold > 0 {
			time.Sleep(c.hold)
		}
		if c.one {
			c.released.Store(int64(time.Since(begun)))
		}
		h.release()
		if !measured {
			continue
		}
		k.cycles++
		if c.one {
			k.times = append(k.times, waited)
		} else {
			k.times = append(k.times, time.Since(start))
		}
	}
}
