package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan is what the seed says of a world.
type plan struct {
	harm      harm
	nodes     int // of a quorum or cluster; 1 for one server
	cluster   bool
	clients   int // at a time
	actors    int // of each client, in each role that many play
	roles     []role
	ttl       time.Duration
	heartbeat time.Duration
	request   time.Duration // RequestTimeout
	delay     span
	quiet     time.Duration // since the world began: no more faults from here on
	until     time.Duration // since the world began: the actors stop
	old       bool          // Redis 6
	strict    bool
	replicas  int
	journal   bool
	drift     float64 // of the servers' clocks, either way, at most
	pause     span    // between what an actor does
}

// harm says which faults there are.
type harm string

const (
	calm    harm = "calm"    // none
	crashes harm = "crashes" // clients die, at once or unnoticed, or are suspended
	storms  harm = "storms"  // all that takes no promise away
	losses  harm = "losses"  // also what takes exclusion away: lost data, clocks set ahead
)

// newPlan draws a plan.
func newPlan(r *rand.Rand) plan {
	p := plan{
		harm: []harm{calm, calm, calm, crashes, storms, storms, storms, losses, losses}[r.IntN(9)], nodes: 1,
		clients: 2 + r.IntN(3), actors: 2 + r.IntN(4), old: r.IntN(6) == 0, strict: r.IntN(3) == 0,
		ttl:       []time.Duration{600 * time.Millisecond, 1500 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 30 * time.Second}[r.IntN(5)],
		heartbeat: []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}[r.IntN(3)],
		request:   []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(3)],
		journal:   r.IntN(4) == 0, pause: span{0, []time.Duration{20 * time.Millisecond, 100 * time.Millisecond}[r.IntN(2)]},
	}
	p.delay = span{100 * time.Microsecond, time.Duration(200+r.IntN(3000)) * time.Microsecond}
	if r.IntN(5) == 0 { // which costs a message to each node
		p.nodes, p.clients, p.actors = 3, 2, 1+r.IntN(2)
		p.ttl, p.heartbeat = min(p.ttl, 5*time.Second), max(p.heartbeat, time.Second)
		if r.IntN(3) == 0 {
			p.nodes = 5
		}
	} else if r.IntN(6) == 0 {
		p.nodes, p.cluster = 3, true
		p.old = p.old && p.harm != calm // where no client is known to be dead
	}
	if r.IntN(4) == 0 {
		p.replicas = 2
	}
	if p.harm == storms || p.harm == losses {
		p.drift = 0.0099 * r.Float64() // below one in a hundred, for which docs/guarantees.md promises
	}
	p.quiet = 10*time.Second + min(3*p.ttl, 10*time.Second)
	if p.harm == calm {
		p.quiet = 0
	}
	p.until = p.quiet + 3*time.Second + max(min(p.ttl, 5*time.Second), 3*p.heartbeat/2)
	many, few := p.possible()
	p.roles = append(some(r, many, 1+r.IntN(2)), some(r, few, 6+r.IntN(5))...)
	if p.cluster {
		p.roles = append(p.roles, clusterScene)
	}
	return p
}

// quorum reports whether the servers are the nodes of a quorum.
func (p plan) quorum() bool { return p.nodes > 1 && !p.cluster }

// some draws some of these roles.
func some(r *rand.Rand, all []role, n int) (drawn []role) {
	for _, i := range r.Perm(len(all))[:min(n, len(all))] {
		drawn = append(drawn, all[i])
	}
	return drawn
}

// possible returns the roles that clients of such a world can have.
func (p plan) possible() (many, few []role) {
	if p.quorum() {
		return quorumCrowds, quorumScenes
	}
	return slices.Concat(quorumCrowds, crowds), scenes
}

// choose returns the possible roles of these names.
func (p plan) choose(names []string) (chosen []role) {
	many, few := p.possible()
	if p.cluster {
		few = append(slices.Clone(few), clusterScene)
	}
	for _, r := range slices.Concat(many, few) {
		if slices.Contains(names, r.name) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func (p plan) String() string {
	var names []string
	for _, r := range p.roles {
		names = append(names, r.name)
	}
	return fmt.Sprintf("%s, %d nodes, cluster %t, %d clients of %d actors, TTL %v, heartbeat %v, request timeout %v, old %t, strict %t: %s",
		p.harm, p.nodes, p.cluster, p.clients, p.actors, p.ttl, p.heartbeat, p.request, p.old, p.strict, strings.Join(names, " "))
}

// role is what an actor does again and again.
type role struct {
	name   string
	once   func(a *actor)
	actors int // of each client; 0 for as many as the plan says
}

// A world has few crowds, which are many actors on the same names, and more scenes, whose actors use
// little. A quorum has those of some kinds.
var (
	quorumCrowds = []role{
		{"mutex", mutex, 0},
		{"slots", slots, 0},
		{"election", election, 0},
		{"job", job, 0},
		{"adopt", adopt, 0},
		{"campaign", campaign, 0},
	}
	quorumScenes = []role{
		{"forgetful", forgetful, 1},
		{"startled", startled, 1},
		{"surveyed", surveyed, 1},
		{"closed", closed, 1},
		{"does", does, 1},
		{"strays", strays, 1},
		{"unlucky", unlucky, 1},
	}
	clusterScene = role{"apart", apart, 1}
	crowds       = []role{
		{"rw", rw, 0},
		{"semaphore", semaphore, 0},
		{"reentrant", reentrant, 0},
		{"multi", multi, 0},
		{"minhold", minhold, 0},
		{"bounded", bounded, 0},
		{"crossed", crossed, 0},
	}
	scenes = []role{
		{"cutshort", cutShort, 1},
		{"emptied", emptied, 1},
		{"filled", filled, 1},
		{"gaveup", gaveUp, 1},
		{"seized", seized, 1},
		{"startled", startled, 1},
		{"surveyed", surveyed, 1},
		{"yields", yields, 1},
		{"awaited", awaited, 1},
		{"cutoff", cutOff, 1},
		{"grown", grown, 1},
		{"listed", listed, 1},
		{"permitted", permitted, 1},
		{"bundled", bundled, 1},
		{"forcesown", forcesOwn, 1},
		{"joined", joined, 1},
		{"led", led, 1},
		{"lengthened", lengthened, 1},
		{"proclaimed", proclaimed, 1},
		{"relayed", relayed, 1},
		{"short", short, 1},
		{"unlike", unlike, 1},
		{"usurped", usurped, 1},
		{"wished", wished, 1},
		{"acknowledged", acknowledged, 1},
		{"bounds", bounds, 1},
		{"crowdedout", crowdedOut, 1},
		{"mute", mute, 1},
		{"reentered", reentered, 1},
		{"sharing", sharing, 1},
		{"sized", sized, 1},
		{"succeeds", succeeds, 1},
		{"thrifty", thrifty, 1},
		{"unheard", unheard, 1},
		{"closed", closed, 1},
		{"does", does, 1},
		{"outlives", outlives, 1},
		{"slotgone", slotGone, 1},
		{"strays", strays, 1},
		{"unlucky", unlucky, 1},
		{"announced", announced, 1},
		{"bereaved", bereaved, 1},
		{"beside", beside, 1},
		{"count", countRound, 2},
		{"countdown", countdown, 2},
		{"delete", countDeleted, 1},
		{"downgraded", downgraded, 1},
		{"entangled", entangled, 1},
		{"expiry", countExpires, 1},
		{"fenced", fenced, 2},
		{"fostered", fostered, 1},
		{"gaveback", gaveBack, 1},
		{"knotted", knotted, 1},
		{"labeled", labeled, 1},
		{"lined", lined, 1},
		{"named", named, 2},
		{"observe", observe, 1},
		{"overlabeled", overlabeled, 1},
		{"own", refusedOwn, 1},
		{"panics", panics, 1},
		{"readers", readers, 1},
		{"resized", resized, 1},
		{"robbed", robbed, 2},
		{"shared", shared, 3},
		{"shut", shut, 1},
	}
)
