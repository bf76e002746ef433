package scenes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// stage is what the players of a world share.
type stage struct {
	mu       sync.Mutex // guards what is below
	texts    []string   // of leases that were detached
	lastUsed string     // of those: adopted last
	flow     string     // is in the mutex "named"
	flows    int        // how many entries flow has in it
	robbed   int64      // the largest token of the mutex "robbed"
	shared   neighbourhood
}

// on returns the stage of a world.
func on(w *world.World) *stage { return w.State.(*stage) }

// neighbourhood is what the world knows of the mutex "shared".
type neighbourhood struct {
	inside    int
	freed     time.Time // by the other library, and not acquired since
	told      bool      // and announced
	announced time.Time // last
}

// partner is another client of an actor, for a scene.
type partner struct {
	*redlatch.Client
	world *world.World
	links []*wire.Link
}

// meets opens another client for this scene, with other options if there are changes.
func (a *player) meets(changes ...func(*redlatch.Options)) *partner {
	return a.meetsAt(a.Servers, changes...)
}

func (a *player) meetsAt(servers []*wire.Server, changes ...func(*redlatch.Options)) *partner {
	a.Rounds++
	name := fmt.Sprintf("%s.%s.%d's partner %d", a.Name, a.Role.Name, a.Number, a.Rounds)
	links, o := a.Connect(name, servers), a.Options(name)
	for _, change := range changes {
		change(&o)
	}
	client, err := a.Open(links, o)
	if err != nil {
		a.Fail("New = %v", err)
		a.needs(false)
	}
	p := &partner{client, a.World, links}
	a.later(func() { _ = p.Close() })
	return p
}

// nodes returns a scene's own servers, which no client has met: a quorum, if there are several.
func (a *player) nodes(n int) []*wire.Server {
	all := make([]*wire.Server, n)
	a.Net.Call(func() {
		for i := range all {
			all[i] = wire.NewServer(a.Net, 10+i)
		}
	})
	return all
}

// Close closes the client.
func (p *partner) Close() error {
	wire.Closing(p.links)
	return p.Client.Close()
}

// dies ends a client as kill -9 does. What it does from then on reaches no server.
func (p *partner) dies() {
	p.each(func(l *wire.Link) { l.Kill(false) })
}

// each calls f for every link, while the network stands still.
func (p *partner) each(f func(l *wire.Link)) {
	p.world.Net.Call(func() {
		for _, l := range p.links {
			f(l)
		}
	})
}

// counts counts the requests of a partner that contain a text, from now on until the returned
// function is called.
func (p *partner) counts(text string) func() int {
	return p.totals(func(what string) int { return min(strings.Count(what, text), 1) })
}

// totals is like counts, and adds up what a function counts in each request.
func (p *partner) totals(of func(what string) int) func() int {
	count := func() (n int) {
		p.each(func(l *wire.Link) {
			l.Records = true
			for _, what := range l.Asked {
				n += of(what)
			}
		})
		return n
	}
	before := count()
	return func() int { return count() - before }
}

// cutsOff cuts a partner off from a node for a while.
func (p *partner) cutsOff(node int, d time.Duration) {
	p.world.Net.Call(func() { p.links[node].Set(wire.Refuses, d) })
}

// cutsOffAll cuts a partner off from all servers for a while.
func (p *partner) cutsOffAll(d time.Duration) {
	p.each(func(l *wire.Link) { l.Set(wire.Refuses, d) })
}

// mayNot makes the partner's user lack the right to these commands, and to no others.
func (p *partner) mayNot(commands ...string) {
	p.each(func(l *wire.Link) { l.User = commands })
}

// deafens makes a client hear no message any more.
func (p *partner) deafens() {
	p.each(func(l *wire.Link) { l.Deaf = true })
}

// mutes ends the subscriptions of a client, and keeps it from subscribing again.
func (p *partner) mutes() {
	p.each(func(l *wire.Link) {
		l.Mute = true
		l.Cut()
	})
}

// resent are the mishaps after which a client sends a request again, and which it may not notice.
var resent = []wire.MishapHow{wire.RequestLost, wire.ReplyLost}

// meets makes the next request with a text meet a mishap: at one server of a quorum.
func (p *partner) meets(text string, how wire.MishapHow, late time.Duration) {
	p.meet(&wire.Mishap{Text: text, How: how, Late: late})
}

func (p *partner) meet(m *wire.Mishap) {
	links := p.links
	if p.world.Plan.Quorum() {
		links = links[len(links)-1:]
	}
	p.world.Net.Call(func() {
		for _, l := range links {
			l.Mishaps = append(l.Mishaps, m)
		}
	})
}

// loses makes the next n requests with a text get lost on each of these links.
func (p *partner) loses(links []*wire.Link, text string, n int) {
	p.world.Net.Call(func() {
		for _, l := range links {
			for range n {
				l.Mishaps = append(l.Mishaps, &wire.Mishap{Text: text, How: wire.RequestLost})
			}
		}
	})
}

// spare cancels the mishaps that have not happened.
func (p *partner) spare() {
	p.each(func(l *wire.Link) { l.Mishaps = nil })
}

// sent is how long the requests of these scenes may take.
const sent = 600 * time.Millisecond

// ofPatient is the TTL of a partner that is patient.
const ofPatient = 20 * time.Second

// patient gives a partner leases that outlive a mishap.
func patient(o *redlatch.Options) {
	o.RequestTimeout = sent
	o.Lock.TTL = ofPatient
}

// lasting gives a partner leases of that length. Its requests do not take long.
func lasting(ttl time.Duration) func(*redlatch.Options) {
	return func(o *redlatch.Options) {
		o.Lock.TTL, o.Lock.Renew, o.RequestTimeout = ttl, redlatch.Off, 300*time.Millisecond
	}
}

// beating gives a partner that heartbeat.
func beating(d time.Duration) func(*redlatch.Options) {
	return func(o *redlatch.Options) { o.Heartbeat = d }
}

// drop releases a lock, if it was granted.
func drop[T any, L interface {
	*T
	Release(ctx context.Context) error
}](l L,
) {
	if l != nil {
		_ = l.Release(context.Background())
	}
}
