package redlatchtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// Memory is a server without sockets, whose clock is time.Now. In a bubble of testing/synctest its
// expiries, and the deadlines and heartbeats of its clients, are in the bubble's time: a test that
// waits for minutes takes milliseconds. Outside of a bubble they follow the real clock.
//
// It fails when the test says so: see its methods. For LockOptions.Replicas it acts as if all
// replicas acknowledged. It is safe for concurrent use.
type Memory struct {
	t      testing.TB
	addr   string
	server *memory.Server
	ended  chan struct{} // closed with the test

	mu      sync.Mutex    // guards what is below
	answers chan struct{} // closed while the server answers
	backlog []func()      // requests to a server that does not answer, in their order
	silent  *time.Timer   // ends subscriptions to a server that does not answer
	delay   time.Duration
	conns   []*memoryConn
	clients map[*redlatch.Client]*memoryConn

	prefixes []string // of keys: the default, and those of clients
}

// silence is how long a server may be silent before its subscribers give it up. Package conn asks
// for 15 seconds at most.
const silence = 10 * time.Second

// InMemory starts a server in memory, which ends with the test. In a bubble, call it inside, with
// the bubble's own t. Three servers, each through its [Memory.Conn], make a quorum for
// [redlatch.NewQuorum].
func InMemory(t testing.TB) *Memory {
	t.Helper()
	addr := addrFor(t)
	m := &Memory{
		t: t, addr: addr, server: memory.New(addr, time.Now), ended: make(chan struct{}), answers: make(chan struct{}),
		clients: make(map[*redlatch.Client]*memoryConn), prefixes: []string{"redlatch:"},
	}
	close(m.answers)
	t.Cleanup(m.close)
	return m
}

// started is how many servers each test has started, by its name: the servers of a quorum need
// different addresses.
var started struct {
	sync.Mutex
	by map[string]int
}

// addrFor returns the address of the next server of a test.
func addrFor(t testing.TB) string {
	started.Lock()
	defer started.Unlock()
	n := started.by[t.Name()] + 1
	if n > 1 {
		started.by[t.Name()] = n
		return fmt.Sprintf("memory %d", n)
	}
	if started.by == nil {
		started.by = make(map[string]int)
	}
	started.by[t.Name()] = n
	t.Cleanup(func() {
		started.Lock()
		defer started.Unlock()
		delete(started.by, t.Name())
	})
	return "memory"
}

// Client returns a client of the server that is closed when the test ends. It calls WrapConn, as
// [redlatch.Open] does. Options that are refused fail the test.
func (m *Memory) Client(t testing.TB, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c := m.dial()
	used := conn.Conn(c)
	if o.WrapConn != nil {
		used = o.WrapConn(c)
	}
	client, err := redlatch.New(used, o)
	if err != nil {
		t.Fatalf("redlatchtest: %v", err)
	}
	t.Cleanup(func() {
		err := client.Close()
		if _, left := err.(*redlatch.LeftError); err != nil && !left { // a test may forget, or crash, what it likes
			t.Errorf("redlatchtest: close the client: %v", err)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[client] = c
	if p := strings.TrimSuffix(o.Prefix, redlatch.NoPrefix); o.Prefix != "" && !slices.Contains(m.prefixes, p) {
		m.prefixes = append(m.prefixes, p)
	}
	return client
}

// Conn returns a new connection to the server, for [redlatch.New]. The client that uses it must be
// closed before the test ends.
func (m *Memory) Conn() conn.Conn { return m.dial() }

func (m *Memory) dial() *memoryConn {
	c := &memoryConn{memory: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return c
}

// Cut cuts a client of [Memory.Client] off: its subscription ends, and the server gets no more
// requests from it. To the others this is a process that crashed. The client itself gets no
// answers, like one whose network is cut, and gives up its leases at their deadlines. Cut panics
// for a client that [Memory.Client] did not make.
func (m *Memory) Cut(client *redlatch.Client) { m.of(client).set(true) }

// Mend ends what [Memory.Cut] began. Requests that the client sent in between never arrive.
func (m *Memory) Mend(client *redlatch.Client) { m.of(client).set(false) }

// of returns the connection of a client. It panics if Client did not make the client.
func (m *Memory) of(client *redlatch.Client) *memoryConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clients[client]
	if c == nil {
		panic("redlatchtest: this client was not made by Client of this server")
	}
	return c
}

// Hang stops the server from answering until [Memory.Resume] is called, as a process that is
// suspended does. Requests that clients send until then take place when the server resumes, in
// their order, even those whose caller has given up. Keys still expire. A second call does nothing.
//
// A call without a deadline then waits forever, while virtual time runs on and clients ask again
// and again. So once 50,000 requests wait, the next one panics, and says so.
func (m *Memory) Hang() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.answers:
		m.answers = make(chan struct{})
		m.silent = time.AfterFunc(silence, m.endSubscriptions)
	default:
	}
}

// Resume makes a server that hangs answer again. Otherwise it does nothing.
func (m *Memory) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.answers:
	default:
		m.silent.Stop()
		for _, request := range m.backlog {
			request()
		}
		m.backlog = nil
		close(m.answers)
	}
}

// Delay makes each answer come d after its request takes place, from the next request on; 0 is at
// once. Messages to waiting clients are not delayed.
func (m *Memory) Delay(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delay = d
}

// Lose deletes the key of the lock of that name, as an eviction or DEL does. The lock is then free,
// even of the window of a job, a MinHold or a count. Its line and its last token stay. The holder
// is told at its next extend: after a third of its TTL, or when it calls Lease.Extend. To take a
// lock by force, as an operator does, call [redlatch.Client.ForceRelease].
//
// If there is no such key, Lose marks the test as failed, and returns. After the test it does
// nothing. The prefix is the default, or that of a client of [Memory.Client].
func (m *Memory) Lose(name string) {
	m.t.Helper()
	select {
	case <-m.ended: // a timer of the test may come later
		return
	default:
	}
	m.mu.Lock()
	prefixes := slices.Clone(m.prefixes)
	m.mu.Unlock()
	var held []string
	for _, prefix := range prefixes {
		if m.server.Do("DEL", prefix+name).Reply.Int == 1 {
			return
		}
		for _, key := range m.server.Keys("*") {
			other, ours := strings.CutPrefix(key, prefix)
			if _, err := keys.Of(prefix, other); ours && err == nil {
				held = append(held, strconv.Quote(other))
			}
		}
	}
	if len(held) == 0 {
		held = []string{"no lock"}
	}
	m.t.Errorf("redlatchtest: Lose(%q): no process holds a lock of that name; held: %s", name, strings.Join(held, ", "))
}

// LoseEverything deletes all data, as [Server.LoseEverything] does.
func (m *Memory) LoseEverything() { m.server.Flush() }

// endSubscriptions makes all clients lose their subscriptions.
func (m *Memory) endSubscriptions() {
	m.mu.Lock()
	conns := m.conns
	m.mu.Unlock()
	for _, c := range conns {
		c.endSubscriptions()
	}
}

// maxBacklog is how many requests a server that hangs keeps. Without it, a test that waits forever
// would end only when it had used up the memory of its machine.
const maxBacklog = 50_000

// take has the server take a request: now, or when it resumes. taken is closed then. delay is that
// of the answer.
func (m *Memory) take(request func(*memory.Server)) (taken <-chan struct{}, delay time.Duration) {
	done := make(chan struct{})
	run := func() {
		request(m.server)
		close(done)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.answers:
		run()
	default:
		if len(m.backlog) == maxBacklog {
			panic(fmt.Sprintf("redlatchtest: the server hangs, and %d requests wait for Resume: does a call of the test wait without a deadline?", maxBacklog))
		}
		m.backlog = append(m.backlog, run)
	}
	return done, m.delay
}

// awake returns a channel that is closed once the server answers.
func (m *Memory) awake() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answers
}

// close ends the server. Requests that wait for it to resume do not take place.
func (m *Memory) close() {
	close(m.ended)
	m.endSubscriptions()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent != nil {
		m.silent.Stop()
	}
}
