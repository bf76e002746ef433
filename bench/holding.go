package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// holding is a workload of holding locks in one process, while goroutines of other clients wait for
// each of them, or none.
type holding struct {
	locks   int
	ttl     time.Duration
	span    time.Duration // how long they are held
	waiters int           // clients
}

// idleTTL is longer than any run, so that extends are not counted.
const idleTTL = 2 * time.Minute

// openers is how many goroutines acquire and release the locks.
const openers = 64

func (w holding) run(d *deployment, sys system) (sample, error) {
	d.clear()
	l, err := sys.open(d.target, w.ttl)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := warm(l); err != nil {
		return nil, err
	}

	// The run has its own names: an attempt that another library called off may still be on its
	// way, and would leave one of these taken until its TTL has passed.
	locks, names := make([]held, w.locks), make([]string, w.locks)
	for i := range names {
		names[i] = fmt.Sprintf("held %s %d", sys.name, i)
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	err = each(len(names), openers, "locking "+plural(len(names), "free name"), func(i int) (err error) {
		locks[i], err = l.lock(context.Background(), names[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	s := sample{"heap": (memory() - before) / float64(w.locks), "goroutines": float64(runtime.NumGoroutine() - goroutines)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	ended := make(chan error, w.waiters*w.locks) // of waits that ended too early
	connections := d.connections()
	if w.waiters > 0 {
		before := memory()
		for range w.waiters {
			l, err := sys.open(d.target, w.ttl)
			if err != nil {
				return nil, err
			}
			defer l.close()
			for _, name := range names {
				all.Go(func() {
					if _, err := l.lock(ctx, name); ctx.Err() == nil {
						ended <- fmt.Errorf("a wait for a lock that is held ended: %w", err)
					}
				})
			}
		}
		time.Sleep(w.span / 3) // all are in line
		s["memory"] = (memory() - before) / float64(w.waiters*w.locks)
	}
	m := &meter{d: d, wire: sys.wire}
	m.begin()
	time.Sleep(w.span)
	m.end().perSecond(s)
	for _, h := range locks {
		if h.still != nil && h.still() {
			s["kept"]++
		}
	}
	s["connections"] = (d.connections() - connections) / float64(max(w.waiters, 1))
	cancel()
	if err := within(patienceWithPeers, "waits that were called off", all.Wait); err != nil {
		return nil, err
	}
	err = each(len(locks), openers, "unlocking", func(i int) error { locks[i].release(); return nil })
	if err != nil {
		return nil, err
	}
	if len(ended) > 0 {
		return nil, <-ended
	}
	return s, nil
}

// memory returns the heap and the stacks in use, in bytes.
func memory() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
