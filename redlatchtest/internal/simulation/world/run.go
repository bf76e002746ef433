package world

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// New returns the world of a seed, with some of these roles. If only names roles, the world has
// just those of them that it can have.
func New(seed uint64, all Catalogue, only ...string) *World {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &World{
		Seed: seed, Plan: newPlan(r, all), history: history.New(), Faults: make(map[string]int),
		marks: make(map[string]int64), queues: make(map[string]queue),
		journals: journals{make(map[string]int), make(map[string]int)},
		late:     late{make(map[string]bool), make(map[string]bool)},
		owners: owners{
			ended: make(map[string]time.Time), going: make(map[string]time.Time),
			lost: make(map[string]error), modes: make(map[string]string),
		},
	}
	if len(only) > 0 {
		w.Plan.Roles = w.Plan.choose(only) // none in some worlds
	}
	w.Net = wire.New(rand.New(rand.NewPCG(seed, 1)), w.tell)
	for i := range w.Plan.Nodes {
		s := wire.NewServer(w.Net, i+1)
		s.Replicas, s.Drift = w.Plan.Replicas, (2*r.Float64()-1)*w.Plan.drift
		s.Old(w.Plan.old)
		w.Servers = append(w.Servers, s)
	}
	if w.Plan.Cluster {
		wire.JoinServers(w.Servers)
	}
	return w
}

// Run runs the world to its end. Call it in a bubble of testing/synctest.
func (w *World) Run() {
	w.over, w.end = context.WithCancel(context.Background())
	defer w.end()
	carried := make(chan struct{})
	go func() {
		w.Net.Run()
		close(carried)
	}()
	w.tell("seed %d: %v", w.Seed, w.Plan)

	var clients sync.WaitGroup
	for i := range w.Plan.Clients {
		clients.Go(func() { w.succession(i) })
	}
	w.Net.Call(func() {
		w.Plan.all.Begin(w)
		w.planFaults()
		w.everyKeyEnds()
	})
	time.Sleep(w.Plan.until - w.Net.Now())
	w.end()
	clients.Wait()
	w.aftermath()
	w.Span = w.Net.Now()
	w.Net.Finish()
	<-carried
	w.check()
}
