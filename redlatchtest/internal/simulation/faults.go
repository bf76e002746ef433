package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// fault is something that happens to a world. It begins on the network's goroutine.
type fault struct {
	name  string
	begin func(w *World)
}

// planFaults has faults happen until the quiet part begins.
func (w *World) planFaults() {
	all := map[harm][]fault{
		calm:    nil,
		crashes: clientFaults,
		storms:  slices.Concat(clientFaults, linkFaults, serverFaults),
		losses:  slices.Concat(clientFaults, linkFaults, serverFaults[:len(serverFaults)-1], dataFaults, dataFaults),
	}[w.plan.harm]
	if len(all) == 0 {
		return
	}
	var next func()
	next = func() {
		if w.net.now() >= w.plan.quiet {
			w.heal()
			return
		}
		f := all[w.net.random.IntN(len(all))]
		w.mu.Lock()
		w.Faults[f.name]++
		w.mu.Unlock()
		w.tell("FAULT %s", f.name)
		f.begin(w)
		// Not later than that: a link that stalls would let requests through when the clients have gone.
		w.net.after(min(w.upTo(w.plan.ttl/2+time.Second), max(w.plan.quiet-w.net.now(), 0)), next)
	}
	w.net.after(w.upTo(time.Second), next)
}

// upTo draws a time.
func (w *World) upTo(d time.Duration) time.Duration {
	return time.Duration(w.net.random.Int64N(int64(d)))
}

// heal ends all faults that last.
func (w *World) heal() {
	w.tell("all faults end")
	w.mu.Lock()
	links := slices.Clone(w.links)
	w.mu.Unlock()
	for _, l := range links {
		l.heal()
		l.delay = w.plan.delay
	}
	for _, s := range w.servers {
		if s.down {
			s.restart(s.Copy())
		}
		s.resume()
		s.Refuse(memory.Serves)
	}
}

// someone returns a client that lives; nil if there is none.
func (w *World) someone() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var living []*life
	for _, l := range w.lives {
		if l.ctx.Err() == nil {
			living = append(living, l)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[w.net.random.IntN(len(living))]
}

// link returns a link of a client that lives; nil if there is none.
func (w *World) link() *Link {
	l := w.someone()
	if l == nil {
		return nil
	}
	return l.links[w.net.random.IntN(len(l.links))]
}

// node returns a server that may suffer: of a quorum, as many as leave a majority.
func (w *World) node() *server {
	s := w.servers[w.net.random.IntN(len(w.servers))]
	ailing := 0
	for _, o := range w.servers {
		if o != s && (o.down || o.hangs) {
			ailing++
		}
	}
	if w.plan.quorum() && 2*(ailing+1) >= len(w.servers) && w.net.random.IntN(4) > 0 {
		return nil // a majority suffers rarely
	}
	return s
}

// onLink makes a fault of what happens to a link.
func onLink(do func(w *World, l *Link)) func(*World) {
	return func(w *World) {
		if l := w.link(); l != nil {
			do(w, l)
		}
	}
}

// onNode makes a fault of what happens to a server.
func onNode(do func(w *World, s *server)) func(*World) {
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
		d := w.upTo(min(2*w.plan.ttl, 6*time.Second))
		l.mu.Lock()
		l.frozen = time.Now().Add(d)
		l.mu.Unlock()
		w.mu.Lock()
		w.longest = max(w.longest, d)
		w.mu.Unlock()
		for _, link := range l.links {
			link.set(stalls, d)
		}
	}},
}

// crash ends a client as kill -9 does, or its machine.
func (w *World) crash(unnoticed bool) {
	l := w.someone()
	if l == nil {
		return
	}
	w.tell("client %s dies", l.name)
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	for _, link := range l.links {
		link.kill(unnoticed)
		if unnoticed {
			w.net.after(30*time.Second, func() {
				for _, e := range slices.Clone(link.ears) {
					link.server.forget(e)
				}
			})
		}
	}
	l.die()
}

var linkFaults = []fault{
	{"connections are cut", onLink(func(_ *World, l *Link) { l.cut() })},
	{"connections are refused", onLink(func(w *World, l *Link) {
		l.set(refuses, w.upTo(min(2*w.plan.ttl, 6*time.Second)))
		l.cut()
	})},
	{"requests and replies are lost", onLink(func(w *World, l *Link) {
		l.loses = 0.1 + w.net.random.Float64()/2
		w.net.after(w.upTo(min(2*w.plan.ttl, 6*time.Second)), func() { l.loses = 0 })
	})},
	{"requests linger", onLink(func(w *World, l *Link) {
		l.lingers, l.late = 0.1+w.net.random.Float64()/3, span{w.plan.request / 10, w.plan.request}
		w.net.after(w.upTo(min(2*w.plan.ttl, 6*time.Second)), func() { l.lingers = 0 })
	})},
	{"connections are silent", onLink(func(w *World, l *Link) { l.set(silent, w.upTo(min(2*w.plan.ttl, 6*time.Second))) })},
	{"network stalls", onLink(func(w *World, l *Link) { l.set(stalls, w.upTo(w.plan.ttl)) })},
	{"network is slow", onLink(func(w *World, l *Link) {
		l.delay = span{w.plan.delay.least, w.plan.request / 4}
		w.net.after(w.upTo(min(2*w.plan.ttl, 6*time.Second)), func() { l.delay = w.plan.delay })
	})},
}

var serverFaults = []fault{
	{"server hangs", onNode(func(w *World, s *server) {
		s.hang()
		w.net.after(w.upTo(min(2*w.plan.ttl, 6*time.Second)), s.resume)
	})},
	{"server is killed, and keeps its data", onNode(func(w *World, s *server) {
		s.kill()
		w.net.after(w.upTo(w.plan.ttl), func() {
			if s.down {
				s.restart(s.Copy())
			}
		})
	})},
	{"server is full", onNode(func(w *World, s *server) { w.refuse(s, memory.Full) })},
	{"disk is full", onNode(func(w *World, s *server) { w.refuse(s, memory.DiskFull) })},
	{"server is read-only", onNode(func(w *World, s *server) { w.refuse(s, memory.ReadOnly) })},
	{"server loads", onNode(func(w *World, s *server) { w.refuse(s, memory.Loading) })},
	{"scripts are forgotten", onNode(func(_ *World, s *server) { s.ForgetScripts() })},
	{"subscriptions are dropped", onNode(func(_ *World, s *server) { s.dropSubscriptions() })},
	{"clock is set back", onNode(func(w *World, s *server) {
		back := w.upTo(min(w.plan.ttl, 3*time.Second))
		s.step -= back
		w.mu.Lock()
		defer w.mu.Unlock()
		w.setBack += back
	})},
}

func (w *World) refuse(s *server, why memory.Refusal) {
	s.Refuse(why)
	w.net.after(w.upTo(min(2*w.plan.ttl, 6*time.Second)), func() { s.Refuse(memory.Serves) })
}

// dataFaults take promises away for a while. Of a quorum, none does that to a minority.
var dataFaults = []fault{
	{"server comes back without data", onNode(func(w *World, s *server) {
		w.forgets(s, 0)
		s.kill()
		s.restart(nil)
	})},
	{"server comes back with an old copy", onNode(func(w *World, s *server) {
		old, age := s.Copy(), w.upTo(w.plan.ttl)
		w.net.after(age, func() {
			w.forgets(s, age)
			s.kill()
			s.restart(old)
		})
	})},
	{"data are flushed", onNode(func(w *World, s *server) {
		w.forgets(s, 0)
		s.Flush()
	})},
	{"lock is deleted", onNode(func(w *World, s *server) {
		keys := s.Keys("redlatch:*")
		slices.Sort(keys)
		if len(keys) > 0 {
			key := keys[w.net.random.IntN(len(keys))]
			w.loses("", 0)
			s.Do("DEL", key)
		}
	})},
	{"clock is set ahead", onNode(func(w *World, s *server) {
		w.loses("", 0)
		s.step += w.upTo(min(2*w.plan.ttl, 6*time.Second))
	})},
	{"lock is taken by force", func(w *World) {
		if l := w.someone(); l != nil {
			w.loses("", 0)
			go l.force()
		}
	}},
}

// forgets notes that a server may have forgotten what it knew since so long ago. Of a quorum only the
// loss of all nodes takes the promise away: one that has forgotten does not vote.
func (w *World) forgets(s *server, age time.Duration) {
	s.forgot = w.net.now()
	for _, o := range w.servers {
		if w.plan.cluster {
			break
		}
		if o.forgot == 0 || w.net.now()-o.forgot > 3*w.plan.ttl+10*time.Second {
			return
		}
	}
	w.loses("", age)
}

// loses notes that a promise does not hold for what was acquired before now, and since so long ago.
func (w *World) loses(name string, age time.Duration) {
	at := w.stamp()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, history.Loss{Name: name, From: at - int64(age), Until: at + int64(w.bound()+time.Second)})
}

// force takes a lock by force from its holder.
func (l *life) force() {
	ctx, cancel := context.WithTimeout(l.ctx, l.bound())
	defer cancel()
	for info, err := range l.client.List(ctx, redlatch.ListOptions{}) {
		if err != nil {
			return
		}
		if len(info.Holders) > 0 {
			_, _ = l.client.ForceRelease(ctx, info.Name, redlatch.ForceOptions{Reason: "simulated"})
			return
		}
	}
}
