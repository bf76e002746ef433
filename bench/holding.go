package main

import (
	"context"
	"errors"
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

// openers is how many goroutines acquire and release the locks.
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

	locks, names := make([]held, w.locks), heldNames(w.locks)
	before, goroutines := memory(), runtime.NumGoroutine()
	if err := lockAll(l, names, locks, openers); err != nil {
		return nil, err
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
	return s, releaseAll(locks)
}

// heldNames returns so many names.
func heldNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "held " + strconv.Itoa(i)
	}
	return names
}

// lockAll locks each name, on so many goroutines, and puts its lock at the same place.
func lockAll(l locker, names []string, locks []held, openers int) error {
	errs := make([]error, openers)
	var all sync.WaitGroup
	for o := range openers {
		all.Go(func() {
			for i := o; i < len(names) && errs[o] == nil; i += openers {
				locks[i], errs[o] = l.lock(context.Background(), names[i])
			}
		})
	}
	patience := patienceWithPeers + time.Duration(len(names))*2*time.Millisecond
	if err := within(patience, "locking "+plural(len(names), "free name"), all.Wait); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// releaseAll releases them.
func releaseAll(locks []held) error {
	var all sync.WaitGroup
	for o := range openers {
		all.Go(func() {
			for i := o; i < len(locks); i += openers {
				locks[i].release()
			}
		})
	}
	patience := patienceWithPeers + time.Duration(len(locks))*2*time.Millisecond
	return within(patience, "unlocking", all.Wait)
}

// memory is the heap and the stacks in use, in bytes.
func memory() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
