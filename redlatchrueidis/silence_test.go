package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestDropOverTLSDoesNotWait: a connection over TLS says goodbye when it is closed, and waits
// seconds for a peer that takes nothing any more. The caller of drop has a lease to extend.
func TestDropOverTLSDoesNotWait(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	near, far := net.Pipe() // without a buffer: what the peer does not read is not written
	t.Cleanup(func() { _ = far.Close() })
	trusting := certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com"
	o := rueidis.ClientOption{
		ConnWriteTimeout: 40 * time.Millisecond,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return tls.Client(near, trusting), nil
		},
	}
	s := listenIn(&o, func(string) {})
	c := check.Value(o.DialCtxFn(t.Context(), "anywhere", nil, nil)).OK(t)
	shaken := make(chan error, 1)
	go func() {
		peer := tls.Server(far, &tls.Config{Certificates: certified.TLS.Certificates})
		err := peer.Handshake()
		if err == nil {
			_, err = peer.Read(make([]byte, 4))
		}
		shaken <- err
	}()
	check.OK(t, "Write", check.ErrorOf(c.Write([]byte("PING"))))
	check.OK(t, "the peer", <-shaken)
	time.Sleep(s.limit) // now it has been silent for so long
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		s.drop()
	}()
	select {
	case <-dropped:
	case <-time.After(4 * time.Second): // the goodbye waits for five
		t.Error("drop waits for the peer")
		_ = far.Close()
		<-dropped
	}
	check.That(t, check.ErrorOf(c.Read(make([]byte, 1))) != nil, "the connection is not closed")
}

// openByName opens a connection to a name that leads to a server, until lead has it lead to another.
func openByName(t *testing.T, server *redistest.Server) (c *Conn, lead func(*redistest.Server)) {
	t.Helper()
	var leads atomic.Pointer[redistest.Server]
	leads.Store(server)
	c = check.Value(Open(rueidis.ClientOption{
		InitAddress: []string{"redis.example:6379"},
		DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", leads.Load().Addr())
		},
	})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	return c, leads.Store
}

// TestNameOfADemotedServer: the name of a master leads to another server now, and the old one lives on
// as a replica. A pipeline, which takes no lane, finds the new master.
func TestNameOfADemotedServer(t *testing.T) {
	t.Parallel()
	old, master := redistest.Start(t), redistest.Start(t)
	c, lead := openByName(t, old)
	ctx := inTime(t)
	write := conn.Call{Script: conn.NewScript("write", "return redis.call('SET', KEYS[1], '1')"), Keys: []string{"k"}}
	check.Nil(t, "Eval", c.Eval(ctx, write, write)[1].Err)
	lead(master)
	old.Do("REPLICAOF", "127.0.0.1", "1")
	if r := c.Eval(ctx, write, write)[0]; !retry.Says(r.Err, "READONLY") {
		t.Errorf("Eval = %+v, want that the old server refuses", r)
	}
	check.Eventually(t, "the new master answers", func() bool { return c.Eval(ctx, write, write)[0].Err == nil })
	check.Equal(t, master.Do("GET", "k"), "1", "what the new master has")
}

// TestDialUnderWayAtClose: a dial that ended after Close left a connection, which lived on by its pings.
func TestDialUnderWayAtClose(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	o := rueidis.ClientOption{
		ConnWriteTimeout: time.Second,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			close(arrived)
			<-goOn
			return near, nil
		},
	}
	s := listenIn(&o, func(string) {})
	dialed := make(chan error)
	go func() { dialed <- check.ErrorOf(o.DialCtxFn(context.Background(), "anywhere", nil, nil)) }()
	<-arrived
	s.close()
	close(goOn)
	check.Error(t, "the dial", <-dialed, net.ErrClosed)
	check.Error(t, "the connection", check.ErrorOf(far.Read(make([]byte, 1))), io.EOF)
}

// TestDialOutlastsARequest: in a cluster, a dial ended with the request that wanted it, so that a node
// whose connections take longer than a request could not be reached.
func TestDialOutlastsARequest(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	var hold atomic.Bool
	var cut atomic.Int32
	goOn := make(chan struct{})
	c := check.Value(Open(rueidis.ClientOption{
		InitAddress: []string{nodes[0].Addr()},
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if hold.Load() {
				select {
				case <-goOn:
				case <-ctx.Done():
					cut.Add(1)
					return nil, ctx.Err()
				}
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	call := conn.Call{Script: one.Script, Keys: []string{"k"}}
	check.Eventually(t, "the node of the key is known", func() bool { return c.Eval(inTime(t), call)[0].Err == nil && c.places.Node("k") != "" })
	hold.Store(true)
	for _, node := range nodes {
		node.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for short.Err() == nil {
		c.Eval(short, call)
	}
	close(goOn)
	check.Eventually(t, "the node answers", func() bool { return c.Eval(inTime(t), call)[0].Err == nil })
	check.Equal(t, cut.Load(), 0, "dials that ended with their request")
}

// TestReplicasAfterDemotion: the connections that wait for replicas stayed at a server that is a replica
// now, while all other requests went to the new master.
func TestReplicasAfterDemotion(t *testing.T) {
	t.Parallel()
	old, master := redistest.Start(t), redistest.Start(t)
	c, lead := openByName(t, old)
	write := conn.Call{Script: conn.NewScript("write", "return redis.call('INCR', KEYS[1])"), Keys: []string{"k"}}
	r, _ := c.EvalReplicated(inTime(t), write, 0, time.Millisecond)
	check.Nil(t, "EvalReplicated", r.Err)
	lead(master)
	host, port, _ := strings.Cut(master.Addr(), ":")
	old.Do("REPLICAOF", host, port)
	check.Eventually(t, "the new master is asked", func() bool {
		r, _ := c.EvalReplicated(inTime(t), write, 0, time.Millisecond)
		return r.Err == nil
	})
}
