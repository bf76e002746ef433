package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// World is one simulated run: servers, a network, clients that come and go, and what they did.
type World struct {
	Seed uint64
	plan plan
	net  *network
	end  context.CancelFunc
	over context.Context // done when the actors are to stop

	servers []*server
	grants  atomic.Int64 // leases that clients got

	mu       sync.Mutex // guards what is below
	last     int64      // stamp
	history  *history.History
	links    []*Link
	lives    []*life
	Failures []string
	Faults   map[string]int
	Span     time.Duration // simulated
	Requests int
	story    []byte           // what happened, line by line
	marks    map[string]int64 // of the resources that check tokens
	texts    []string         // of leases that were detached
	lastUsed string           // of those: adopted last
	losses   []history.Loss
	queues   map[string]*queue // by name
	longest  time.Duration     // for which a client was suspended
	setBack  time.Duration     // clocks, in all
	flow     string            // is in the mutex "named"
	flows    int               // so often
	shared   neighbourhood
	owners   owners
	journals journals
	late     late
}

// New returns the world of a seed. If there are names of roles, those that the world can have are
// the only ones.
func New(seed uint64, only ...string) *World {
	r := rand.New(rand.NewPCG(seed, 0))
	w := &World{
		Seed: seed, plan: newPlan(r), history: history.New(), Faults: make(map[string]int),
		marks: make(map[string]int64), queues: make(map[string]*queue),
	}
	if len(only) > 0 {
		w.plan.roles = w.plan.choose(only) // none in some worlds
	}
	w.net = newNetwork(rand.New(rand.NewPCG(seed, 1)), w.tell)
	for i := range w.plan.nodes {
		s := newServer(w.net, i+1)
		s.replicas, s.drift = w.plan.replicas, (2*r.Float64()-1)*w.plan.drift
		s.Old(w.plan.old)
		w.servers = append(w.servers, s)
	}
	if w.plan.cluster {
		joinServers(w.servers)
	}
	return w
}

// tell tells the story.
func (w *World) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = fmt.Appendf(w.story, "%12.6f  ", time.Since(w.net.begin).Seconds())
	w.story = append(fmt.Appendf(w.story, format, args...), '\n')
}

// Story returns what happened, line by line.
func (w *World) Story() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.story
}

// fail notes what must not be.
func (w *World) fail(format string, args ...any) {
	w.mu.Lock()
	w.Failures = append(w.Failures, fmt.Sprintf("at %.6fs: ", time.Since(w.net.begin).Seconds())+fmt.Sprintf(format, args...))
	w.mu.Unlock()
	w.tell("FAILURE: "+format, args...)
}

// stamp returns the time for the history. It is another at each call, since what happens within a
// process takes no simulated time, and has an order all the same.
func (w *World) stamp() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = max(w.last+1, time.Now().UnixNano())
	return w.last
}

// Run runs the world to its end. Call it in a bubble of testing/synctest.
func (w *World) Run() {
	w.over, w.end = context.WithCancel(context.Background())
	defer w.end()
	carried := make(chan struct{})
	go func() {
		w.net.run()
		close(carried)
	}()
	w.tell("seed %d: %v", w.Seed, w.plan)

	var clients sync.WaitGroup
	for i := range w.plan.clients {
		clients.Go(func() { w.succession(i) })
	}
	w.net.call(func() {
		w.watchShared()
		w.planFaults()
		w.everyKeyEnds()
	})
	time.Sleep(w.plan.until - w.net.now())
	w.end()
	clients.Wait()
	w.aftermath()
	w.Span = w.net.now()
	w.net.finish()
	<-carried
	w.check()
}

// life is one client from its beginning to its end.
type life struct {
	*World
	name   string
	random *rand.Rand // of its beginning and end; each actor has its own
	client *redlatch.Client
	links  []*Link
	record *history.Worker
	ops    int64 // guarded by World.mu
	ctx    context.Context
	die    context.CancelFunc
	told   told
	end    int64 // stamp; 0 before. Guarded by World.mu

	mu     sync.Mutex // guards what is below
	frozen time.Time  // until then it is suspended
	dead   bool
}

// succession has one client after the other, until the world ends.
func (w *World) succession(slot int) {
	r := rand.New(rand.NewPCG(w.Seed, uint64(100+slot)))
	time.Sleep(time.Duration(r.Int64N(int64(time.Millisecond)))) // see actor.toil
	for n := 0; w.over.Err() == nil; n++ {
		l := w.born(fmt.Sprintf("%c%d", 'A'+slot, n), r)
		if l == nil {
			return
		}
		span := time.Second + time.Duration(r.Int64N(int64(15*time.Second)))
		if w.plan.harm == calm || w.net.now() > w.plan.quiet {
			span = w.plan.until
		}
		l.live(span)
	}
}

// connect returns links to servers.
func (w *World) connect(name string, servers []*server) []*Link {
	var links []*Link
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range servers {
		l := &Link{
			net: w.net, world: w, server: s, client: name, number: len(w.links) + 1, delay: w.plan.delay, state: works,
			random: rand.New(rand.NewPCG(w.Seed, uint64(10000+len(w.links)))),
		}
		w.links = append(w.links, l)
		links = append(links, l)
	}
	return links
}

// options returns the options of a client.
func (w *World) options(name string) redlatch.Options {
	order := redlatch.Off
	if w.plan.strict {
		order = redlatch.On
	}
	return redlatch.Options{
		Heartbeat: w.plan.heartbeat, RequestTimeout: w.plan.request, Program: name,
		Lock:    redlatch.LockOptions{TTL: w.plan.ttl, StrictOrder: order},
		Journal: w.journalOptions(name),
	}
}

func (w *World) open(links []*Link, o redlatch.Options) (*redlatch.Client, error) {
	if len(links) == 1 {
		return redlatch.New(links[0], o)
	}
	if w.plan.cluster {
		return redlatch.New(&cluster{links}, o)
	}
	return openQuorum(links, o)
}

func openQuorum(links []*Link, o redlatch.Options) (*redlatch.Client, error) {
	nodes := make([]conn.Conn, len(links))
	for i, l := range links {
		nodes[i] = l
	}
	return redlatch.NewQuorum(nodes, o)
}

// born begins a life.
func (w *World) born(name string, r *rand.Rand) *life {
	l := &life{World: w, name: name, random: r, links: w.connect(name, w.servers)}
	l.told = told{world: w, name: name}
	o := w.options(name)
	o.Hook = l.told.hook
	client, err := w.open(l.links, o)
	if err != nil {
		w.fail("New = %v", err)
		return nil
	}
	l.client = client
	l.ctx, l.die = context.WithCancel(w.over)
	w.mu.Lock()
	l.record = w.history.Worker(name)
	w.lives = append(w.lives, l)
	w.mu.Unlock()
	w.tell("client %s begins: %s", name, client.ID())
	return l
}

// live has actors use the client for a while, and ends it.
func (l *life) live(span time.Duration) {
	var actors sync.WaitGroup
	for _, role := range l.plan.roles {
		for n := range cmp.Or(role.actors, l.plan.actors) {
			a := &actor{
				life: l, role: role, number: n,
				random: rand.New(rand.NewPCG(l.Seed^hash(l.name+role.name), uint64(n))),
			}
			actors.Go(a.toil)
		}
	}
	select {
	case <-l.ctx.Done():
	case <-time.After(span):
	}
	l.die()
	patient := !l.isDead() && l.random.IntN(2) == 0
	if patient {
		actors.Wait() // and then close; else close first
	}
	l.tell("client %s closes", l.name)
	closing(l.links)
	if l.isDead() {
		l.ends()
	}
	start := time.Now()
	err := l.client.Close()
	l.ends()
	if took := time.Since(start); took > l.bound()+time.Second {
		l.fail("client %s: Close took %v", l.name, took)
	}
	left := (*redlatch.LeftError)(nil)
	if err != nil && (patient || !errors.As(err, &left)) {
		l.fail("client %s: Close = %v", l.name, err)
	}
	actors.Wait()
	l.told.check()
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

func hash(text string) (h uint64) {
	h = 14695981039346656037
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// bound is how long an operation may go on that asks a server which does not answer. Over a quorum a
// last round may begin just before RequestTimeout has passed, and wait for slow nodes.
func (w *World) bound() time.Duration {
	if w.plan.quorum() {
		return w.plan.request * 10 / 3
	}
	return w.plan.request * 4 / 3
}

// step is called by an actor between what it does. It waits while the process is suspended.
func (l *life) step() {
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

// note adds a line to the history.
func (l *life) note(e history.Event) {
	if l.isDead() { // its process is no more
		return
	}
	if e.At == 0 {
		e.At = l.stamp()
	}
	l.World.mu.Lock()
	defer l.World.mu.Unlock()
	l.record.Add(e)
}

// call notes that a call begins, and returns its number.
func (l *life) call(e history.Event) int64 {
	l.World.mu.Lock()
	l.ops++
	e.Op = l.ops
	l.World.mu.Unlock()
	l.note(e)
	return e.Op
}
