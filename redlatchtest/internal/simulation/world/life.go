package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// succession runs one client after the other, until the world ends.
func (w *World) succession(slot int) {
	r := rand.New(rand.NewPCG(w.Seed, uint64(100+slot)))
	time.Sleep(time.Duration(r.Int64N(int64(time.Millisecond)))) // see actor.toil
	for n := 0; w.over.Err() == nil; n++ {
		l := w.born(fmt.Sprintf("%c%d", 'A'+slot, n), r)
		if l == nil {
			return
		}
		span := time.Second + time.Duration(r.Int64N(int64(15*time.Second)))
		if w.Plan.Harm == Calm || w.Net.Now() > w.Plan.Quiet {
			span = w.Plan.until
		}
		l.live(span)
	}
}

// Connect returns links to servers.
func (w *World) Connect(name string, servers []*wire.Server) []*wire.Link {
	var links []*wire.Link
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range servers {
		l := &wire.Link{
			Net: w.Net, Served: w.served, Server: s, Client: name, Number: len(w.links) + 1, Delay: w.Plan.Delay, State: wire.Works,
			Random: rand.New(rand.NewPCG(w.Seed, uint64(10000+len(w.links)))),
		}
		w.links = append(w.links, l)
		links = append(links, l)
	}
	return links
}

// Options returns the options of a client.
func (w *World) Options(name string) redlatch.Options {
	order := redlatch.Off
	if w.Plan.Strict {
		order = redlatch.On
	}
	return redlatch.Options{
		Heartbeat: w.Plan.Heartbeat, RequestTimeout: w.Plan.Request, Program: name,
		Lock:    redlatch.LockOptions{TTL: w.Plan.TTL, StrictOrder: order},
		Journal: w.journalOptions(name),
	}
}

// Open returns a client over links to the servers of the world, or to a scene's own server or
// quorum.
func (w *World) Open(links []*wire.Link, o redlatch.Options) (*redlatch.Client, error) {
	if len(links) == 1 {
		return redlatch.New(links[0], o)
	}
	if w.Plan.Cluster {
		return redlatch.New(&wire.Cluster{Links: links}, o)
	}
	nodes := make([]conn.Conn, len(links))
	for i, l := range links {
		nodes[i] = l
	}
	return redlatch.NewQuorum(nodes, o)
}

// born begins a life.
func (w *World) born(name string, r *rand.Rand) *life {
	l := &life{World: w, Name: name, random: r, links: w.Connect(name, w.Servers)}
	l.told = told{
		world: w, name: name, attempts: make(map[uint64]int), leases: make(map[uint64]int),
		kept: make(map[uint64]int), away: make(map[uint64]bool), waits: make(map[uint64]int),
	}
	o := w.Options(name)
	o.Hook = redlatch.JoinHooks(Startle, l.told.hook)
	client, err := w.Open(l.links, o)
	if err != nil {
		w.Fail("New = %v", err)
		return nil
	}
	l.Client = client
	l.Ctx, l.die = context.WithCancel(w.over)
	w.mu.Lock()
	l.record = w.history.Worker(name)
	w.lives = append(w.lives, l)
	w.mu.Unlock()
	w.tell("client %s begins: %s", name, client.ID())
	return l
}

// live lets actors use the client for a while, and then ends it.
func (l *life) live(span time.Duration) {
	var actors sync.WaitGroup
	for _, role := range l.Plan.Roles {
		for n := range cmp.Or(role.Actors, l.Plan.actors) {
			a := &Actor{
				life: l, Role: role, Number: n,
				Random: rand.New(rand.NewPCG(l.Seed^hash(l.Name+role.Name), uint64(n))),
			}
			actors.Go(a.toil)
		}
	}
	select {
	case <-l.Ctx.Done():
	case <-time.After(span):
	}
	l.die()
	defer time.AfterFunc(10*time.Minute, func() { panic("client " + l.Name + " does not come to an end") }).Stop()
	patient := !l.isDead() && l.random.IntN(2) == 0
	if patient {
		actors.Wait() // and then close; else close first
		l.wantNoNotes()
	}
	l.tell("client %s closes", l.Name)
	wire.Closing(l.links)
	if l.isDead() {
		l.ends()
	}
	start := time.Now()
	err := l.Client.Close()
	l.ends()
	if took := time.Since(start); took > l.Bound()+time.Second {
		l.Fail("client %s: Close took %v", l.Name, took)
	}
	left := (*redlatch.LeftError)(nil)
	if err != nil && (patient || !errors.As(err, &left)) {
		l.Fail("client %s: Close = %v", l.Name, err)
	}
	actors.Wait()
	l.told.check()
	l.wantNoTickets()
}

// wantNoNotes checks that no notes about acquisitions that have ended are left.
func (l *life) wantNoNotes() {
	if l.Plan.Harm != Calm || l.Plan.Quorum() {
		return
	}
	time.Sleep(2*notes.Delay + 6*l.Plan.Delay.Most)
	l.Net.Call(func() {
		key := keys.Notes("redlatch:", l.Client.ID())
		for _, note := range l.At(key).Do("HVALS", key).Reply.List {
			if !strings.Contains(note.Text, `"kept"`) {
				l.Fail("client %s: what was noted of an acquisition stays: %s", l.Name, note.Text)
			}
		}
	})
}

// wantNoTickets checks that a closed client is in no line at a node of a quorum. A later vote would
// tidy the lines, but may never come.
func (l *life) wantNoTickets() {
	if l.Plan.Harm != Calm || !l.Plan.Quorum() || l.isDead() {
		return
	}
	time.Sleep(6 * l.Plan.Delay.Most)
	l.Net.Call(func() {
		for _, s := range l.Servers {
			for _, key := range s.Keys("*:queue") {
				for _, ticket := range s.Do("ZRANGE", key, "0", "-1").Reply.List {
					if strings.Contains(ticket.Text, l.Client.ID()) {
						l.Fail("client %s: closed, and in line at %s: %q in %q", l.Name, s, ticket.Text, key)
					}
				}
			}
		}
	})
}

// ends notes when the client ended.
func (l *life) ends() {
	at := l.stamp()
	l.World.mu.Lock()
	defer l.World.mu.Unlock()
	if l.end == 0 {
		l.end = at
	}
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// served notes what a server has done for a client.
func (w *World) served(l *wire.Link, c conn.Call, err error) {
	if l.Closing.Load() {
		w.late.note(c)
	}
	if c.Script.Name == "journal" && err == nil {
		w.tookEntries(l.Client)
	}
}
