package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// plan is what the seed says of a world.
type plan struct {
	all       Catalogue
	Harm      harm
	Nodes     int // of a quorum or cluster; 1 for one server
	Cluster   bool
	Clients   int // at a time
	actors    int // of each client, in each role that many play
	Roles     []Role
	TTL       time.Duration
	Heartbeat time.Duration
	Request   time.Duration // RequestTimeout
	Delay     wire.Span
	Quiet     time.Duration // since the world began: no more faults from here on
	until     time.Duration // since the world began: the actors stop
	old       bool          // Redis 6
	Strict    bool
	Replicas  int
	journal   bool
	startles  bool      // hooks panic now and then
	drift     float64   // of the servers' clocks, either way, at most
	pause     wire.Span // between an actor's actions
	scenes    wire.Span // the same in a scene, in addition
}

// harm says which faults there are.
type harm string

const (
	Calm    harm = "calm"    // none
	crashes harm = "crashes" // clients die, at once or unnoticed, or are suspended
	storms  harm = "storms"  // everything that breaks no promise
	Losses  harm = "losses"  // also what breaks exclusion: lost data, clocks set ahead
)

// newPlan draws a plan.
func newPlan(r *rand.Rand, all Catalogue) plan {
	p := plan{
		all:  all,
		Harm: []harm{Calm, Calm, Calm, crashes, storms, storms, storms, Losses, Losses}[r.IntN(9)], Nodes: 1,
		Clients: 2 + r.IntN(3), actors: 2 + r.IntN(4), old: r.IntN(6) == 0, Strict: r.IntN(3) == 0,
		TTL:       []time.Duration{600 * time.Millisecond, 1500 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 30 * time.Second}[r.IntN(5)],
		Heartbeat: []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}[r.IntN(3)],
		Request:   []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(3)],
		journal:   r.IntN(4) == 0, pause: wire.Span{Most: []time.Duration{20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(2)]},
	}
	p.scenes.Most = []time.Duration{200 * time.Millisecond, time.Second}[r.IntN(2)]
	p.Delay = wire.Span{Least: 100 * time.Microsecond, Most: time.Duration(200+r.IntN(3000)) * time.Microsecond}
	if r.IntN(4) == 0 {
		p.Delay.Most = 10 * time.Millisecond // as between cities
	}
	if r.IntN(5) == 0 { // which costs a message to each node
		p.Nodes, p.Clients, p.actors = 3, 2, 1+r.IntN(2)
		p.TTL, p.Heartbeat = min(p.TTL, 5*time.Second), max(p.Heartbeat, time.Second)
		if r.IntN(3) == 0 {
			p.Nodes = 5
		}
	} else if r.IntN(6) == 0 {
		p.Nodes, p.Cluster = 3, true
		p.old = p.old && p.Harm != Calm // where no client is known to be dead
	}
	if r.IntN(4) == 0 {
		p.Replicas = 2
	}
	if p.Harm == storms || p.Harm == Losses {
		p.drift = 0.0099 * r.Float64() // below the one in a hundred of docs/guarantees.md
	}
	p.Quiet = 10*time.Second + min(3*p.TTL, 10*time.Second)
	if p.Harm == Calm {
		p.Quiet = 0
	}
	p.startles = r.IntN(4) == 0
	p.until = p.Quiet + 3*time.Second + max(min(p.TTL, 5*time.Second), 3*p.Heartbeat/2)
	many, few := p.possible()
	p.Roles = append(some(r, many, 1+r.IntN(2)), some(r, few, 6+r.IntN(5))...)
	if p.Cluster {
		p.Roles = append(p.Roles, p.all.Cluster)
	}
	return p
}

// Quorum reports whether the servers are the nodes of a quorum.
func (p plan) Quorum() bool { return p.Nodes > 1 && !p.Cluster }

// some draws up to n of these roles.
func some(r *rand.Rand, all []Role, n int) (drawn []Role) {
	for _, i := range r.Perm(len(all))[:min(n, len(all))] {
		drawn = append(drawn, all[i])
	}
	return drawn
}

// possible returns the roles that clients of such a world can have.
func (p plan) possible() (many, few []Role) {
	if p.Quorum() {
		return p.all.QuorumCrowds, p.all.QuorumScenes
	}
	return slices.Concat(p.all.QuorumCrowds, p.all.Crowds), p.all.Scenes
}

// choose returns the possible roles with these names.
func (p plan) choose(names []string) (chosen []Role) {
	many, few := p.possible()
	if p.Cluster {
		few = append(slices.Clone(few), p.all.Cluster)
	}
	for _, r := range slices.Concat(many, few) {
		if slices.Contains(names, r.Name) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func (p plan) String() string {
	var names []string
	for _, r := range p.Roles {
		names = append(names, r.Name)
	}
	return fmt.Sprintf("%s, %d nodes, cluster %t, %d clients of %d actors, TTL %v, heartbeat %v, request timeout %v, old %t, strict %t: %s",
		p.Harm, p.Nodes, p.Cluster, p.Clients, p.actors, p.TTL, p.Heartbeat, p.Request, p.old, p.Strict, strings.Join(names, " "))
}

// Role is what an actor does again and again.
type Role struct {
	Name   string
	Once   func(a *Actor)
	Actors int // of each client; 0 for as many as the plan says
}

// Catalogue has all roles. A world has few crowds, which are many actors on the same names, and
// more scenes, whose actors use little. A quorum has only the roles of some kinds.
type Catalogue struct {
	QuorumCrowds, QuorumScenes, Crowds, Scenes []Role

	Cluster Role                               // which every cluster has
	Begin   func(w *World)                     // is called on the network's goroutine when the world begins
	Over    func(w *World, c *redlatch.Client) // is called with the last client, when all others have ended
}

// The sizes of what the clients share.
const (
	Permits    = 5
	SlotCount  = 3
	Window     = 700 * time.Millisecond // of the job
	Quarantine = 200 * time.Millisecond // of a slot
)
