package wire

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// NAT stands between clients and a server. It can forget the connections that it has, as a NAT
// does, or a host that loses its power: they are silent from then on, without a reset. New ones are
// fine.
type NAT struct {
	net.Listener
	server atomic.Value // the address that new connections lead to
	age    atomic.Int64 // how often it has forgotten
	pumps  sync.WaitGroup
	mu     sync.Mutex
	open   []net.Conn
}

// StartNAT starts a NAT before a server. It is stopped with the test.
func StartNAT(t testing.TB, s *redistest.Server) *NAT {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	n := &NAT{Listener: l}
	n.LeadTo(s)
	n.pumps.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.mu.Lock()
		for _, c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.pumps.Wait()
	})
	return n
}

// URL leads to the server behind it.
func (n *NAT) URL() string { return "redis://" + n.Addr().String() }

// LeadTo has new connections lead to a server. Those that are open stay where they are.
func (n *NAT) LeadTo(s *redistest.Server) { n.server.Store(s.Addr()) }

// Forget makes every connection silent for ever.
func (n *NAT) Forget() { n.age.Add(1) }

func (n *NAT) accept() {
	for {
		client, err := n.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", n.server.Load().(string))
		if err != nil {
			_ = client.Close()
			continue
		}
		n.mu.Lock()
		n.open = append(n.open, client, server)
		n.mu.Unlock()
		born := n.age.Load()
		n.pumps.Go(func() { n.pump(client, server, born) })
		n.pumps.Go(func() { n.pump(server, client, born) })
	}
}

func (n *NAT) pump(from, to net.Conn, born int64) {
	buffer := make([]byte, 32<<10)
	for {
		got, err := from.Read(buffer)
		if n.age.Load() != born { // the other side hears nothing any more, and of the end neither
			if err != nil {
				return
			}
			continue
		}
		if err != nil {
			_ = to.Close()
			return
		}
		_, _ = to.Write(buffer[:got])
	}
}

// EachWay runs a test with a client that sends little, whose connection rueidis reads when it
// expects a reply, with a client that has sent much at once, whose connection it reads all the time,
// and with a client that has sent much one by one, which has a connection for single requests.
func EachWay(t *testing.T, test func(t *testing.T, open func(*NAT, redlatch.Options) *redlatch.Client)) {
	ways := map[string]struct{ times, atOnce int }{"Lone": {1, 1}, "Busy": {1, 64}, "Lane": {200, 1}}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(n *NAT, o redlatch.Options) *redlatch.Client {
				c := locktest.Open(t, n.URL(), o)
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
