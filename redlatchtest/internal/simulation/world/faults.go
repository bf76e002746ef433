package world

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// fault is something that happens to a world. It begins on the network's goroutine. A new one
// goes into a list below, and ends after a while or in heal. What it does to letters or to a server is in
// package wire. What happens to one request, which a scene chooses, is a wire.Mishap.
type fault struct {
	name  string
	begin func(w *World)
}

// planFaults makes faults happen until the quiet part begins.
func (w *World) planFaults() {
	all := map[harm][]fault{
		Calm:    nil,
		crashes: clientFaults,
		storms:  slices.Concat(clientFaults, linkFaults, serverFaults, clockFaults),
		Losses:  slices.Concat(clientFaults, linkFaults, serverFaults, dataFaults, dataFaults),
	}[w.Plan.Harm]
	if len(all) == 0 {
		return
	}
	var next func()
	next = func() {
		if w.Net.Now() >= w.Plan.Quiet {
			w.heal()
			return
		}
		f := all[w.Net.Random.IntN(len(all))]
		w.mu.Lock()
		w.Faults[f.name]++
		w.mu.Unlock()
		w.tell("FAULT %s", f.name)
		f.begin(w)
		// Not after that: a stalled link would let requests through when the clients have gone.
		w.Net.After(min(w.upTo(w.Plan.TTL/2+time.Second), max(w.Plan.Quiet-w.Net.Now(), 0)), next)
	}
	w.Net.After(w.upTo(time.Second), next)
}

// upTo draws a time.
func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.Net.Random.Int64N(int64(d)))
}

// heal ends all faults that last.
func (w *World) heal() {
	w.tell("all faults end")
	w.mu.Lock()
	links := slices.Clone(w.links)
	w.mu.Unlock()
	for _, l := range links {
		l.Heal()
		l.Delay = w.Plan.Delay
	}
	for _, s := range w.Servers {
		if s.Down {
			s.Restart(s.Copy())
		}
		s.Resume()
		s.Refuse(memory.Serves)
	}
}

// someone returns a live client; nil if there is none.
func (w *World) someone() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var living []*life
	for _, l := range w.lives {
		if l.Ctx.Err() == nil {
			living = append(living, l)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[w.Net.Random.IntN(len(living))]
}

// link returns a link of a live client; nil if there is none.
func (w *World) link() *wire.Link {
	l := w.someone()
	if l == nil {
		return nil
	}
	return l.links[w.Net.Random.IntN(len(l.links))]
}

// node returns a server that a fault may hit. In a quorum, a majority usually stays unharmed.
func (w *World) node() *wire.Server {
	s := w.Servers[w.Net.Random.IntN(len(w.Servers))]
	ailing := 0
	for _, o := range w.Servers {
		if o != s && (o.Down || o.Hangs) {
			ailing++
		}
	}
	if w.Plan.Quorum() && 2*(ailing+1) >= len(w.Servers) && w.Net.Random.IntN(4) > 0 {
		return nil // a majority is rarely hit
	}
	return s
}

// onLink returns a fault that does something to a link.
func onLink(do func(w *World, l *wire.Link)) func(*World) {
	return func(w *World) {
		if l := w.link(); l != nil {
			do(w, l)
		}
	}
}

// onNode returns a fault that does something to a server.
func onNode(do func(w *World, s *wire.Server)) func(*World) {
	return func(w *World) {
		if s := w.node(); s != nil {
			do(w, s)
		}
	}
}

var clientFaults = []fault{
	{"client crashes", func(w *World) { w.crash(false) }},
	{"client dies unnoticed", func(w *World) { w.crash(true) }},
	{"client is suspended", func(w *World) {
		l := w.someone()
		if l == nil {
			return
		}
		d := w.upTo(min(2*w.Plan.TTL, 6*time.Second))
		l.mu.Lock()
		l.frozen = time.Now().Add(d)
		l.mu.Unlock()
		w.mu.Lock()
		w.longest = max(w.longest, d)
		w.mu.Unlock()
		for _, link := range l.links {
			link.Set(wire.Stalls, d)
		}
	}},
}

// crash ends a client as kill -9 does, or, unnoticed, as a crash of its machine does.
func (w *World) crash(unnoticed bool) {
	l := w.someone()
	if l == nil {
		return
	}
	w.tell("client %s dies", l.Name)
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	for _, link := range l.links {
		link.Kill(unnoticed)
		if unnoticed {
			w.Net.After(30*time.Second, func() {
				for _, e := range slices.Clone(link.Ears) {
					link.Server.Forget(e)
				}
			})
		}
	}
	l.die()
}

var linkFaults = []fault{
	{"connections are cut", onLink(func(_ *World, l *wire.Link) { l.Cut() })},
	{"connections are refused", onLink(func(w *World, l *wire.Link) {
		l.Set(wire.Refuses, w.upTo(min(2*w.Plan.TTL, 6*time.Second)))
		l.Cut()
	})},
	{"requests and replies are lost", onLink(func(w *World, l *wire.Link) {
		l.Loses = 0.1 + w.Net.Random.Float64()/2
		w.Net.After(w.upTo(min(2*w.Plan.TTL, 6*time.Second)), func() { l.Loses = 0 })
	})},
	{"requests linger", onLink(func(w *World, l *wire.Link) {
		l.Lingers, l.Late = 0.1+w.Net.Random.Float64()/3, wire.Span{Least: w.Plan.Request / 10, Most: w.Plan.Request}
		w.Net.After(w.upTo(min(2*w.Plan.TTL, 6*time.Second)), func() { l.Lingers = 0 })
	})},
	{"connections are silent", onLink(func(w *World, l *wire.Link) { l.Set(wire.Silent, w.upTo(min(2*w.Plan.TTL, 6*time.Second))) })},
	{"network stalls", onLink(func(w *World, l *wire.Link) { l.Set(wire.Stalls, w.upTo(w.Plan.TTL)) })},
	{"network is slow", onLink(func(w *World, l *wire.Link) {
		l.Delay = wire.Span{Least: w.Plan.Delay.Least, Most: w.Plan.Request / 4}
		w.Net.After(w.upTo(min(2*w.Plan.TTL, 6*time.Second)), func() { l.Delay = w.Plan.Delay })
	})},
}

var serverFaults = []fault{
	{"server hangs", onNode(func(w *World, s *wire.Server) {
		s.Hang()
		w.Net.After(w.upTo(min(2*w.Plan.TTL, 6*time.Second)), s.Resume)
	})},
	{"server is killed, and keeps its data", onNode(func(w *World, s *wire.Server) {
		s.Kill()
		w.Net.After(w.upTo(w.Plan.TTL), func() {
			if s.Down {
				s.Restart(s.Copy())
			}
		})
	})},
	{"server is full", onNode(func(w *World, s *wire.Server) { w.refuse(s, memory.Full) })},
	{"disk is full", onNode(func(w *World, s *wire.Server) { w.refuse(s, memory.DiskFull) })},
	{"server is read-only", onNode(func(w *World, s *wire.Server) { w.refuse(s, memory.ReadOnly) })},
	{"server loads", onNode(func(w *World, s *wire.Server) { w.refuse(s, memory.Loading) })},
	{"scripts are forgotten", onNode(func(_ *World, s *wire.Server) { s.ForgetScripts() })},
	{"subscriptions are dropped", onNode(func(_ *World, s *wire.Server) { s.DropSubscriptions() })},
}

// clockFaults do not happen in a world that loses data, where tokens would be repeated.
var clockFaults = []fault{
	{"clock is set back", onNode(func(w *World, s *wire.Server) {
		back := w.upTo(min(w.Plan.TTL, 3*time.Second))
		s.Step -= back
		w.mu.Lock()
		defer w.mu.Unlock()
		w.setBack += back
	})},
}

func (w *World) refuse(s *wire.Server, why memory.Refusal) {
	s.Refuse(why)
	w.Net.After(w.upTo(min(2*w.Plan.TTL, 6*time.Second)), func() { s.Refuse(memory.Serves) })
}

// dataFaults break promises for a while. In a quorum, one that hits only a minority does not.
var dataFaults = []fault{
	{"server comes back without data", onNode(func(w *World, s *wire.Server) {
		w.forgets(s, 0)
		s.Kill()
		s.Restart(nil)
	})},
	{"server comes back with an old copy", onNode(func(w *World, s *wire.Server) {
		old, age := s.Copy(), w.upTo(w.Plan.TTL)
		w.Net.After(age, func() {
			w.forgets(s, age)
			s.Kill()
			s.Restart(old)
		})
	})},
	{"data are flushed", onNode(func(w *World, s *wire.Server) {
		w.forgets(s, 0)
		s.Flush()
	})},
	{"lock is deleted", onNode(func(w *World, s *wire.Server) {
		keys := s.Keys("redlatch:*")
		slices.Sort(keys)
		if len(keys) > 0 {
			key := keys[w.Net.Random.IntN(len(keys))]
			w.loses("", 0)
			s.Do("DEL", key)
		}
	})},
	{"clock is set ahead", onNode(func(w *World, s *wire.Server) {
		w.loses("", 0)
		s.Step += w.upTo(min(2*w.Plan.TTL, 6*time.Second))
	})},
	{"lock is taken by force", func(w *World) {
		if l := w.someone(); l != nil {
			w.loses("", 0)
			go l.force()
		}
	}},
}

// forgets notes that a server may have forgotten what it learned in the last age. In a quorum, only
// the loss of all nodes breaks the promise: a node that has forgotten does not vote.
func (w *World) forgets(s *wire.Server, age time.Duration) {
	s.Forgot = w.Net.Now()
	for _, o := range w.Servers {
		if w.Plan.Cluster {
			break
		}
		if o.Forgot == 0 || w.Net.Now()-o.Forgot > 3*w.Plan.TTL+10*time.Second {
			return
		}
	}
	w.loses("", age)
}

// loses notes that no promise holds for what was acquired within the last age.
func (w *World) loses(name string, age time.Duration) {
	at := w.stamp()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, history.Loss{Name: name, From: at - int64(age), Until: at + int64(w.Bound()+time.Second)})
}

// force takes a lock by force from its holder.
func (l *life) force() {
	ctx, cancel := context.WithTimeout(l.Ctx, l.Bound())
	defer cancel()
	for info, err := range l.Client.List(ctx, redlatch.ListOptions{}) {
		if err != nil {
			return
		}
		if len(info.Holders) > 0 {
			_, _ = l.Client.ForceRelease(ctx, info.Name, redlatch.ForceOptions{Reason: "simulated"})
			return
		}
	}
}
