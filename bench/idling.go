package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// idling is a workload of waiting for many names that are all held, and stay so.
type idling struct {
	clients int
	names   int // in each client a goroutine waits for each of them
	span    time.Duration
}

// idleTTL is longer than any run, so that what extends is not counted.
const idleTTL = 2 * time.Minute

func (w idling) run(d *deployment, sys system) (sample, error) {
	d.clear()
	holder, err := sys.open(d.target, idleTTL)
	if err != nil {
		return nil, err
	}
	defer holder.close()
	// Names of its own: an attempt that another library called off may still be on its way, and would
	// leave one of these taken until its TTL has passed.
	locks, names := make([]held, w.names), namesOf("idle "+sys.name+" ", w.names)
	if err := lockAll(holder, names, locks, openers); err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	before, memoryBefore := d.connections(), memory()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, w.clients*w.names) // of waits that ended before their time
	for range w.clients {
		l, err := sys.open(d.target, idleTTL)
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
	s := sample{"memory": (memory() - memoryBefore) / float64(w.clients*w.names)}
	m := &meter{d: d, wire: sys.wire}
	m.begin()
	time.Sleep(w.span)
	spent := m.end()
	s["connections"] = (d.connections() - before) / float64(w.clients)
	spent.perSecond(s)
	cancel()
	if err := within(patienceWithPeers, "waits that were called off", all.Wait); err != nil {
		return nil, err
	}
	if err := releaseAll(locks); err != nil {
		return nil, err
	}
	if len(ended) > 0 {
		return nil, <-ended
	}
	return s, nil
}
