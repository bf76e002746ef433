package wire

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// The two directions of a proxy.
const (
	Requests = "requests"
	Replies  = "replies"
)

// Proxy stands between clients and a server, and does harm.
type Proxy struct {
	Listen string // its address
	server string // the address that connections lead to

	pumps sync.WaitGroup

	mu       sync.Mutex   // guards what is below
	listener net.Listener // closed while the proxy is stopped
	stopped  chan struct{}
	conns    map[net.Conn]bool // whether each is forgotten
	swallows map[string]bool   // by direction
}

// StartProxy starts a proxy before a server. It is stopped with the test.
func StartProxy(t testing.TB, s *redistest.Server) *Proxy {
	t.Helper()
	p := &Proxy{
		Listen: "127.0.0.1:0", server: s.Addr(), conns: make(map[net.Conn]bool), swallows: make(map[string]bool),
	}
	check.OK(t, "proxy", p.Start())
	p.Listen = p.listener.Addr().String()
	t.Cleanup(p.Stop)
	return p
}

// Start accepts connections, and accepts them again after [Proxy.Stop], at the same address.
func (p *Proxy) Start() error {
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

// Stop closes every connection and makes new ones be refused. It returns when all have ended.
func (p *Proxy) Stop() {
	p.mu.Lock()
	if !p.isStoppedLocked() {
		close(p.stopped)
		_ = p.listener.Close()
	}
	p.cutLocked()
	p.mu.Unlock()
	p.pumps.Wait()
}

func (p *Proxy) isStoppedLocked() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// Addr returns the address of its listener.
func (p *Proxy) Addr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listener.Addr()
}

// URL returns its address as a URL.
func (p *Proxy) URL() string { return "redis://" + p.Listen }

// Swallow drops one direction from now on: requests do not arrive, or the replies to executed
// requests are lost.
func (p *Proxy) Swallow(direction string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallows[direction] = true
}

// Heal ends all harm. If a direction was swallowed, it closes every connection, as they are out of
// step.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.swallows[Requests] || p.swallows[Replies] {
		p.cutLocked()
	}
	clear(p.swallows)
}

// Forget makes every connection silent forever, without a reset, like a NAT that forgets them, or a
// host that loses power. New ones are fine.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

func (p *Proxy) isForgotten(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns[c]
}

// Cut closes every connection. New ones are fine.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Proxy) cutLocked() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// accept connects each client with the server, until the listener is closed.
func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.connect(client) })
	}
}

// connect returns when both connections are closed.
func (p *Proxy) connect(client net.Conn) {
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
	both.Go(func() { p.pump(client, server, Requests) })
	both.Go(func() { p.pump(server, client, Replies) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// keep notes connections that are to be cut. It reports false if the proxy has been stopped.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isStoppedLocked() {
		return false
	}
	p.conns[client], p.conns[server] = false, false
	return true
}

// pump passes on what comes from one side, and closes the other when that is all.
func (p *Proxy) pump(from, to net.Conn, direction string) {
	defer func() {
		if !p.isForgotten(from) { // else the other side does not hear of the end either
			_ = to.Close()
		}
	}()
	data := make([]byte, 16<<10)
	for {
		n, err := from.Read(data)
		if n > 0 && !p.isSwallowed(direction) && !p.isForgotten(from) {
			if _, err := to.Write(data[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) isSwallowed(direction string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallows[direction]
}

// Behind returns a client whose requests and replies pass a proxy. It has locked "a" before, so
// that the connection which rueidis uses for that key is up, and the server knows the scripts: else
// a request whose reply is to be lost would not take place at all.
func Behind(t testing.TB, p *Proxy, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c := locktest.Open(t, p.URL(), o)
	l := locktest.Lock(t, c.Mutex("a").With(redlatch.LockOptions{TTL: help.Lasting}))
	check.OK(t, "Extend", l.Extend(t.Context()))
	locktest.Release(t, l)
	return c
}

// Links returns a proxy before each node, for a client of its own.
func Links(t testing.TB, nodes []*redistest.Server) (proxies []*Proxy, urls []string) {
	t.Helper()
	for _, node := range nodes {
		p := StartProxy(t, node)
		proxies, urls = append(proxies, p), append(urls, p.URL())
	}
	return proxies, urls
}

// EachWay runs a test with a client that sends little, whose connection rueidis reads when it
// expects a reply, with a client that has sent much at once, whose connection it reads all the time,
// and with a client that has sent much one by one, which has a connection for single requests.
func EachWay(t *testing.T, test func(t *testing.T, open func(*Proxy, redlatch.Options) *redlatch.Client)) {
	ways := map[string]struct{ times, atOnce int }{"Lone": {1, 1}, "Busy": {1, 64}, "Lane": {200, 1}}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(p *Proxy, o redlatch.Options) *redlatch.Client {
				c := locktest.Open(t, p.URL(), o)
				for range way.times {
					var all sync.WaitGroup
					for i := range way.atOnce {
						all.Go(func() { locktest.Release(t, locktest.Lock(t, c.Mutex("warm "+strconv.Itoa(i)))) })
					}
					all.Wait()
				}
				return c
			})
		})
	}
}
