package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// holding is a workload of holding so many locks in one process for longer than their TTL.
type holding struct {
	locks int
	ttl   time.Duration
}

// openers is how many goroutines acquire the locks at first.
const openers = 64

func (w holding) run(d *deployment, sys system) (sample, error) {
	d.clear()
	l, err := sys.open(d.target(), w.ttl)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := warm(l); err != nil {
		return nil, err
	}

	locks, names := make([]held, w.locks), make([]string, w.locks)
	for i := range names {
		names[i] = "held " + strconv.Itoa(i)
	}
	errs := make([]error, openers)
	before, goroutines := memory(), runtime.NumGoroutine()
	var all sync.WaitGroup
	for o := range openers {
		all.Go(func() {
			for i := o; i < len(locks) && errs[o] == nil; i += openers {
				locks[i], errs[o] = l.lock(context.Background(), names[i])
			}
		})
	}
	if err := within(patienceWithPeers, "locking "+plural(w.locks, "free name"), all.Wait); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	s := sample{"heap": (memory() - before) / float64(w.locks), "goroutines": float64(runtime.NumGoroutine() - goroutines)}
	m := &meter{servers: d.servers, wire: sys.wire}
	m.begin()
	time.Sleep(w.ttl * 3 / 2)
	spent := m.end()
	kept := 0.0
	for _, h := range locks {
		if h.still() {
			kept++
		}
	}
	s["kept"] = kept
	s["client"], s["redis"] = spent.client/spent.seconds/1e4, spent.redis/spent.seconds/1e4
	s["commands"], s["reads"] = spent.commands/spent.seconds, spent.reads/spent.seconds
	for o := range openers {
		all.Go(func() {
			for i := o; i < len(locks); i += openers {
				locks[i].release()
			}
		})
	}
	return s, within(patienceWithPeers, "unlocking", all.Wait)
}

// memory is the heap and the stacks in use, in bytes.
func memory() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
