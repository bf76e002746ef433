package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// World is one simulated run: servers, a network, clients that come and go, and what they did.
type World struct {
	Seed uint64
	Plan plan
	Net  *wire.Network
	end  context.CancelFunc
	over context.Context // done when the actors are to stop

	Servers []*wire.Server
	Grants  atomic.Int64 // leases that clients got
	State   any          // of the scenes in the world

	mu       sync.Mutex // guards what is below
	last     int64      // stamp
	history  *history.History
	links    []*wire.Link
	lives    []*life
	Failures []string
	Faults   map[string]int
	Span     time.Duration // simulated
	Requests int
	story    []byte           // what happened, line by line
	marks    map[string]int64 // of the resources that check tokens
	losses   []history.Loss
	queues   map[string]queue // by name
	longest  time.Duration    // for which a client was suspended
	setBack  time.Duration    // clocks, in all
	owners   owners
	journals journals
	late     late
}

// tell tells the story.
func (w *World) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = fmt.Appendf(w.story, "%12.6f  ", time.Since(w.Net.Begin).Seconds())
	w.story = append(fmt.Appendf(w.story, format, args...), '\n')
}

// Story returns what happened, line by line.
func (w *World) Story() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.story
}

// Fail notes a failure.
func (w *World) Fail(format string, args ...any) {
	w.mu.Lock()
	w.Failures = append(w.Failures, fmt.Sprintf("at %.6fs: ", time.Since(w.Net.Begin).Seconds())+fmt.Sprintf(format, args...))
	w.mu.Unlock()
	w.tell("FAILURE: "+format, args...)
}

// stamp returns the time for the history. It differs at each call: what happens within a process
// takes no simulated time, but still has an order.
func (w *World) stamp() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = max(w.last+1, time.Now().UnixNano())
	return w.last
}

// SetBackBy returns by how much servers' clocks were set back, in all.
func (w *World) SetBackBy() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.setBack
}

// life is one client from its beginning to its end.
type life struct {
	*World
	Name   string
	random *rand.Rand // of its beginning and end; each actor has its own
	Client *redlatch.Client
	links  []*wire.Link
	record *history.Worker
	ops    int64 // guarded by World.mu
	Ctx    context.Context
	die    context.CancelFunc
	told   told
	end    int64 // stamp; 0 before. Guarded by World.mu

	mu     sync.Mutex // guards what is below
	frozen time.Time  // until then it is suspended
	dead   bool
}

// Actor is a goroutine that uses one lock.
type Actor struct {
	*life
	Role   Role
	Number int
	Random *rand.Rand
	Rounds int // of countdowns of its own
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Bound returns how long an operation may take whose server does not answer.
func (w *World) Bound() time.Duration { return w.Plan.Request * 4 / 3 }

// Step waits while the process is suspended. An actor calls it between its actions.
func (l *life) Step() {
	for {
		l.mu.Lock()
		left := time.Until(l.frozen)
		l.mu.Unlock()
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// Note adds a line to the history.
func (l *life) Note(e history.Event) {
	if l.isDead() { // its process is dead
		return
	}
	if e.At == 0 {
		e.At = l.stamp()
	}
	l.World.mu.Lock()
	defer l.World.mu.Unlock()
	l.record.Add(e)
}

// Call notes that a call begins, and returns its number.
func (l *life) Call(e history.Event) int64 {
	l.World.mu.Lock()
	l.ops++
	e.Op = l.ops
	l.World.mu.Unlock()
	l.Note(e)
	return e.Op
}

// At returns the server that has a key: in a cluster, the node that has its slot.
func (w *World) At(key string) *wire.Server {
	return w.Servers[wire.Part(key, len(w.Servers), w.Plan.Cluster)]
}

// queue has the times at which actors began to wait for a name.
type queue struct {
	since []time.Time
	gone  []time.Time // when the latest of the gone waiters went
}

// journals is what a world knows about its journal. World.mu guards it.
type journals struct {
	taken   map[string]int // by client: writes that a server took
	trouble map[string]int // by client: taken when it was told of trouble last, and 1
}

// late notes what arrives too late from clients whose Close has begun. A batch of releases that
// Close sends can overtake an acquisition in the network. If that leaves a ticket in a line, the
// ticket stays until it expires, since a closed client does not look again.
type late struct {
	released map[string]bool // by key and owner
	lines    map[string]bool // by key: an owner came after its release
}

// note records a call of such a client that a server has run.
func (l *late) note(c conn.Call) {
	if len(c.Args) < 2 {
		return
	}
	what := c.Keys[0] + " " + c.Args[1] // the owner
	switch {
	case strings.HasSuffix(c.Script.Name, "release"):
		l.released[what] = true
	case strings.HasSuffix(c.Script.Name, "acquire") && l.released[what]:
		l.lines[c.Keys[0]] = true
	}
}
