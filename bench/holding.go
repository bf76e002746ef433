package main

import (
	"context"
	"runtime"
	"strconv"
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
	l, err := sys.open(d.target, w.ttl)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if err := warm(l); err != nil {
		return nil, err
	}

	locks, names := make([]held, w.locks), namesOf("held ", w.locks)
	before, goroutines := memory(), runtime.NumGoroutine()
	if err := lockAll(l, names, locks, openers); err != nil {
		return nil, err
	}
	s := sample{"heap": (memory() - before) / float64(w.locks), "goroutines": float64(runtime.NumGoroutine() - goroutines)}
	m := &meter{d: d, wire: sys.wire}
	m.begin()
	time.Sleep(w.ttl * 3 / 2)
	spent := m.end()
	s["kept"] = float64(stillHeld(locks))
	spent.perSecond(s)
	return s, releaseAll(locks)
}

// namesOf returns so many names that begin with a prefix.
func namesOf(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// lockAll locks each name, on so many goroutines, and puts its lock at the same place.
func lockAll(l locker, names []string, locks []held, openers int) error {
	return each(len(names), openers, "locking "+plural(len(names), "free name"), func(i int) (err error) {
		locks[i], err = l.lock(context.Background(), names[i])
		return err
	})
}

// stillHeld counts the locks that are held.
func stillHeld(locks []held) (n int) {
	for _, h := range locks {
		if h.still() {
			n++
		}
	}
	return n
}

// releaseAll releases them.
func releaseAll(locks []held) error {
	return each(len(locks), openers, "unlocking", func(i int) error { locks[i].release(); return nil })
}

// memory is the heap and the stacks in use, in bytes.
func memory() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
