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
	holder, err := sys.open(d.target(), idleTTL)
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
	ended := make(chan error, 1) // of a wait that ended before its time
	for range w.clients {
		l, err := sys.open(d.target(), idleTTL)
		if err != nil {
			return nil, err
		}
		defer l.close()
		for _, name := range names {
			all.Go(func() {
				if _, err := l.lock(ctx, name); ctx.Err() == nil {
					select {
					case ended <- fmt.Errorf("a wait for a lock that is held ended: %w", err):
					default:
					}
				}
			})
		}
	}
	time.Sleep(w.span / 3) // all are in line
	s := sample{"memory": (memory() - memoryBefore) / float64(w.clients*w.names)}
	m := &meter{servers: d.servers, wire: sys.wire}
	m.begin()
	time.Sleep(w.span)
	spent := m.end()
	s["connections"] = (d.connections() - before) / float64(w.clients)
	s["commands"], s["reads"] = spent.commands/spent.seconds, spent.reads/spent.seconds
	s["client"], s["redis"] = spent.client/spent.seconds/1e4, spent.redis/spent.seconds/1e4
	cancel()
	if err := within(patienceWithPeers, "waits that were called off", all.Wait); err != nil {
		return nil, err
	}
	if err := releaseAll(locks); err != nil {
		return nil, err
	}
	select {
	case err := <-ended:
		return nil, err
	default:
		return s, nil
	}
}
