package tests

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// The two directions of a proxy.
const (
	requests = "requests"
	replies  = "replies"
)

// proxy stands between clients and a server, and does harm.
type proxy struct {
	Listen string // its address

	server string // the address of the server
	pumps  sync.WaitGroup

	mu       sync.Mutex   // guards what is below
	listener net.Listener // closed while the proxy is stopped
	stopped  chan struct{}
	conns    map[net.Conn]struct{}
	swallows map[string]bool          // by direction
	delays   map[string]time.Duration // by direction
	changed  chan struct{}            // closed when a delay changes
}

// startProxy starts a proxy before a server. It is stopped with the test.
func startProxy(t testing.TB, s *redistest.Server) *proxy {
	t.Helper()
	p := &proxy{
		Listen: "127.0.0.1:0", server: s.Addr(), conns: make(map[net.Conn]struct{}),
		swallows: make(map[string]bool), delays: make(map[string]time.Duration), changed: make(chan struct{}),
	}
	if err := p.Start(); err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p.Listen = p.listener.Addr().String()
	t.Cleanup(p.Stop)
	return p
}

// Start takes connections, and takes them again after [proxy.Stop], at the same address.
func (p *proxy) Start() error {
	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.stopped = listener, make(chan struct{})
	p.pumps.Go(func() { p.accept(listener) })
	return nil
}

// Stop closes every connection and has new ones be refused. It returns when all has come to rest.
func (p *proxy) Stop() {
	p.mu.Lock()
	if !p.isStoppedLocked() {
		close(p.stopped)
		_ = p.listener.Close()
	}
	p.cutLocked()
	p.mu.Unlock()
	p.pumps.Wait()
}

func (p *proxy) isStoppedLocked() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

func (p *proxy) url() string { return "redis://" + p.Listen }

// swallow drops one direction from now on: requests do not arrive, or replies are lost of what was
// executed.
func (p *proxy) swallow(direction string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows[direction] = true
}

// delay holds up everything in one direction for so long, also what it holds up already.
func (p *proxy) delay(direction string, long time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setDelayLocked(direction, long)
}

func (p *proxy) setDelayLocked(direction string, long time.Duration) {
	p.delays[direction] = long
	close(p.changed)
	p.changed = make(chan struct{})
}

// heal ends all harm. If a direction was swallowed, it closes every connection, as they are out of
// step.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setDelayLocked(requests, 0)
	p.setDelayLocked(replies, 0)
	if p.swallows[requests] || p.swallows[replies] {
		p.cutLocked()
	}
	clear(p.swallows)
}

// cut closes every connection. New ones are fine.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *proxy) cutLocked() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// accept connects each client with the server, until the listener is closed.
func (p *proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.connect(client) })
	}
}

// connect returns when both connections are closed.
func (p *proxy) connect(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(client, server, requests) })
	both.Go(func() { p.pump(server, client, replies) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// keep notes connections that are to be cut. It reports false if the proxy has been stopped.
func (p *proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isStoppedLocked() {
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return true
}

// chunk is what came at some time.
type chunk struct {
	data []byte
	came time.Time
}

// pump passes on what comes from one side, and closes the other when that is all. What comes does
// not wait for the delay of what is before it.
func (p *proxy) pump(from, to net.Conn, direction string) {
	chunks := make(chan chunk, 1024)
	p.pumps.Go(func() {
		defer close(chunks)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				chunks <- chunk{data[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	defer func() {
		_ = to.Close()
		for range chunks { // to the end, which comes when from is closed
		}
	}()
	for c := range chunks {
		if swallowed := p.hold(direction, c.came); swallowed {
			continue
		}
		if _, err := to.Write(c.data); err != nil {
			_ = from.Close()
			return
		}
	}
}

// hold returns when what came at that time has been delayed, and reports whether it is swallowed
// then.
func (p *proxy) hold(direction string, came time.Time) (swallowed bool) {
	for {
		p.mu.Lock()
		left, changed, stopped := p.delays[direction]-time.Since(came), p.changed, p.stopped
		swallowed = p.swallows[direction]
		p.mu.Unlock()
		if left <= 0 {
			return swallowed
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-stopped:
			timer.Stop()
			return swallowed
		}
		timer.Stop()
	}
}
