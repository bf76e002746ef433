// Package redlatchrueidis lets redlatch run on a rueidis client.
//
// redlatch.Open uses it by itself. A program that already has a rueidis client shares it:
//
//	client, err := redlatch.New(redlatchrueidis.New(mine, "127.0.0.1:6379"), redlatch.Options{})
package redlatchrueidis

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/driver/slots"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

var (
	_ conn.Conn       = (*Conn)(nil)
	_ conn.Replicated = (*Conn)(nil)
	_ conn.Sharded    = (*Conn)(nil)
)

// Conn is a [conn.Conn] over a rueidis client. Safe for concurrent use.
type Conn struct {
	client rueidis.Client
	target conn.Target
	owned  bool

	silence *silence // of the connections; nil unless owned
	direct  *direct  // nil unless owned, with a connection that all requests to a server share

	places *slots.Map // of a cluster; else nil
	trunks trunk.Trunks
	lent   atomic.Int32 // connections that wait for replicas, or are being given back
}

// New wraps a client that the caller keeps: closing redlatch leaves it open. addr is named in error
// messages and nowhere else.
//
// A connection that dies in silence, without a reset, is found broken after at most twice the
// client's Dialer.KeepAlive plus its ConnWriteTimeout. With rueidis's defaults, 1 and 10 seconds,
// that is soon enough for a subscription of a [conn.Conn]. But requests share that connection:
// until then no request is answered, though it would be on a new connection, and leases with a TTL
// of 18 seconds or less end. So give the client a ConnWriteTimeout of about redlatch's
// RequestTimeout, and a shorter KeepAlive. redlatch.Open, which has connections of its own, drops
// such a connection sooner.
func New(client rueidis.Client, addr string) *Conn {
	c := &Conn{client: client, target: conn.Target{Addr: addr, Pipelined: true}}
	if client.Mode() == rueidis.ClientModeCluster {
		c.target.Cluster, c.target.ShardsTogether = true, true
		c.places = slots.New(c.readSlots, c.changed)
		c.target.Node = c.places.Node
	}
	return c
}

// changed is called after the map of the cluster was loaded.
func (c *Conn) changed() {
	c.trunks.Recheck(c.places.Node)
	if c.direct != nil {
		c.direct.forget(c.places.Masters())
	}
}

// Open dials a server with these options. The Conn owns the client that results and closes it. The
// error names the server, and is a [conn.ReplyError] if the server refused.
//
// Server-assisted caching and rueidis's own retries are turned off: redlatch caches nothing, and
// resends by itself. Idle connections are checked every 3 seconds and given 6 to answer, unless
// Dialer.KeepAlive and ConnWriteTimeout say otherwise. Rueidis itself would check every second,
// which is needless traffic from a client that only waits. With a server or proxy that does not
// know RESP3, Open uses RESP2.
//
// Requests share a connection. A request that finds no other there has another connection for itself,
// made after 16 such requests. There are two of these, the second for requests that find the first
// taken; in a cluster, one to each node; with Sentinel, none. Such a connection is closed when its
// request is given up, and made again at most once per second. Subscriptions have one more.
//
// When a request is given up, a shared connection that has left a request unanswered for a quarter
// of ConnWriteTimeout is closed: the next request gets a new one. Connections to a server that says
// that it is a replica (READONLY) are closed, too, since its name may lead to another server by
// now. For one address, this happens at most once per ConnWriteTimeout.
func Open(o rueidis.ClientOption) (*Conn, error) {
	o.DisableCache = true
	o.DisableRetry = true
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = 3 * time.Second
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = 6 * time.Second
	}
	// Rueidis sets none of these for sentinels. A silent sentinel would keep it from the others,
	// and so from the new master.
	sentinel := &o.Sentinel.Dialer
	sentinel.KeepAlive = cmp.Or(sentinel.KeepAlive, o.Dialer.KeepAlive)
	sentinel.Timeout = cmp.Or(sentinel.Timeout, o.Dialer.Timeout, rueidis.DefaultDialTimeout)
	if o.PipelineMultiplex == 0 {
		o.PipelineMultiplex = -1
	}
	if o.ReadBufferEachConn == 0 {
		o.ReadBufferEachConn = bufferSize
	}
	if o.WriteBufferEachConn == 0 {
		o.WriteBufferEachConn = bufferSize
	}
	c, err := open(o)
	// If HELLO is unknown, rueidis goes on with RESP2 by itself, but not if the server does not
	// even say so before a client has sent its password, as with Valkey 9.
	if password := o.Password != "" || o.AuthCredentialsFn != nil; retry.Says(err, "NOPROTO") || password && retry.Says(err, "NOAUTH") {
		o.AlwaysRESP2 = true
		c, err = open(o)
	}
	return c, err
}

// open dials a server with options that are complete.
func open(o rueidis.ClientOption) (*Conn, error) {
	addr := strings.Join(o.InitAddress, ",")
	direct, plain := new(direct), o
	silence := listenIn(&o, direct.ended)
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, openError(addr, err)
	}
	c := New(client, addr)
	c.owned, c.silence = true, silence
	if o.PipelineMultiplex < 0 && !o.DisableAutoPipelining { // else one of several connections is proved, and a request takes another
		c.direct = direct
		direct.most = 1 << cmp.Or(o.RingScaleEachConn, rueidis.DefaultRingScale) / 2
	}
	switch mode := client.Mode(); {
	case c.direct == nil:
	case mode == rueidis.ClientModeStandalone:
		direct.server.lanes = newLanes(plain, &direct.server, maxLanes)
	case mode == rueidis.ClientModeCluster:
		direct.lanesTo = func(n *node) []*lane {
			plain.InitAddress = []string{n.addr}
			return newLanes(plain, n, 1)
		}
	}
	return c, nil
}

// bufferSize holds a batch of requests.
const bufferSize = 32 << 10

// openError adds the server's address to an error, unless it has it, as errors of dialing do.
func openError(addr string, err error) error {
	err = failure(context.Background(), err)
	if strings.Contains(err.Error(), addr) {
		return err
	}
	return fmt.Errorf("%s: %w", addr, err)
}

// Target implements [conn.Conn].
func (c *Conn) Target() conn.Target { return c.target }

// Close implements [conn.Conn].
func (c *Conn) Close() error {
	if c.owned {
		if c.direct != nil {
			c.direct.close()
		}
		c.silence.close() // else rueidis waits, for each that is silent in turn
		c.client.Close()
	}
	return nil
}

// Scan implements [conn.Conn].
func (c *Conn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	masters, missing := c.masters(ctx)
	return adapter.Scan(ctx, masters, missing, each, func(master rueidis.Client, cursor uint64) (adapter.Page, error) {
		reply, err := do(ctx, master, master.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build())
		if err != nil {
			return adapter.Page{}, err
		}
		page, err := reply.AsScanEntry()
		return adapter.Page{Keys: page.Elements, Next: page.Cursor}, err
	})
}
