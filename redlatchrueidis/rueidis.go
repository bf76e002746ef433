// Package redlatchrueidis lets redlatch run on a rueidis client.
//
// redlatch.Open uses it by itself. A program that already has a rueidis client shares it:
//
//	client, err := redlatch.New(redlatchrueidis.New(mine, "127.0.0.1:6379"), redlatch.Options{})
package redlatchrueidis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
}

// New wraps a client that the caller keeps: closing redlatch leaves it open. addr is named in error
// messages and nowhere else.
//
// A connection that dies in silence, without a reset, is found broken after at most twice the
// client's Dialer.KeepAlive plus its ConnWriteTimeout. With rueidis's defaults, 1 and 10 seconds,
// that is soon enough for a subscription of a [conn.Conn]. But until then no request is answered,
// though a new connection would be, and leases end whose TTL is not longer than 18 seconds:
// requests share that connection. So give the client a ConnWriteTimeout of about redlatch's
// RequestTimeout, and a KeepAlive of less. redlatch.Open, which has connections of its own, drops
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

// changed is called when it is known anew which nodes a cluster has.
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
// which is needless traffic from a client that only waits. A server or proxy that does not know RESP3
// is spoken to in RESP2.
//
// Requests share a connection. A request that finds no other there has another connection for itself,
// which is made after 16 such requests. There are two of these, the second for requests that find the
// first taken; in a cluster one to each node, and none with Sentinel. Such a connection ends with a
// request that is given up, and is made again, once a second at most. Subscriptions have one more.
//
// When a request is given up, a shared connection that has been silent for a quarter of
// ConnWriteTimeout, with something asked, is closed: the next request gets a new one. So are those to a
// server that says that it is a replica (READONLY), since its name may lead to another one by now. At
// one address this is done once in a ConnWriteTimeout at most.
func Open(o rueidis.ClientOption) (*Conn, error) {
	o.DisableCache = true
	o.DisableRetry = true
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = 3 * time.Second
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = 6 * time.Second
	}
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
	if retry.Says(err, "NOPROTO") { // where HELLO is unknown, rueidis goes on with RESP2 by itself
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

// openError names the server, which the errors of dialing do by themselves.
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
		c.client.Close()
	}
	return nil
}

// Eval implements [conn.Conn].
func (c *Conn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return adapter.Eval(calls, func(calls []conn.Call, full bool) []conn.Result {
		if full {
			return c.run(ctx, calls, c.eval)
		}
		return c.run(ctx, calls, c.evalsha)
	})
}

// run sends the calls as one pipeline of the commands that they are built into. It builds them
// before anything that may outlast it starts, since calls is the caller's.
func (c *Conn) run(ctx context.Context, calls []conn.Call, build func(*conn.Call) rueidis.Completed) []conn.Result {
	if len(calls) == 0 {
		return nil
	}
	at := c.nodeFor(calls)
	if at == nil {
		return c.runShared(ctx, nil, calls, build)
	}
	if at.fitsLane(ctx, calls) {
		if l := takeLane(at.lanes); l != nil {
			if r, done := c.runInLane(ctx, at, l, &calls[0], build); done {
				return []conn.Result{r}
			}
		}
	}
	at.sharing.Add(1)
	defer at.sharing.Add(-1)
	switch {
	case at.steady() && at.sharing.Load() <= c.direct.most:
		if results, done := c.runDirect(ctx, at, calls, build); done {
			adapter.Redo(calls, results, func(err error) bool { return c.astray(at, err) }, func(left []conn.Call) []conn.Result {
				return c.runShared(ctx, at, left, build)
			})
			return results
		}
	case len(calls) == 1 && at.claim():
		if results, done := c.prove(ctx, at, calls, build); done {
			return results
		}
	}
	return c.runShared(ctx, at, calls, build)
}

// runShared sends the calls over the client, which may have to dial and, in a cluster, to find the node.
func (c *Conn) runShared(ctx context.Context, at *node, calls []conn.Call, build func(*conn.Call) rueidis.Completed) []conn.Result {
	if c.target.Cluster {
		at = nil // since another node may answer
	}
	results, sent := c.runApart(ctx, at, c.client, calls, build)
	if !sent { // it waited for a connection with a request that went direct, and may have its own
		results, _ = c.runApart(ctx, at, c.client, calls, build)
	}
	return results
}

// runApart sends the calls over a client on a goroutine of their own. An answer proves the node. It
// returns false if nothing was sent, since no connection was open any more.
func (c *Conn) runApart(ctx context.Context, at *node, over rueidis.Client, calls []conn.Call, build func(*conn.Call) rueidis.Completed) (results []conn.Result, sent bool) {
	mark := at.mark()
	commands := make([]rueidis.Completed, len(calls))
	for i := range calls {
		commands[i] = build(&calls[i])
	}
	replies, err := await(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		if !c.target.Cluster { // there rueidis may follow a slot that moves, which ends with ctx
			// That rueidis ignores ctx costs no caller anything, since await does not; what goes on
			// ends after ConnWriteTimeout.
			ctx = context.Background()
		}
		if len(commands) == 1 {
			return []rueidis.RedisResult{over.Do(ctx, commands[0])}, nil
		}
		return over.DoMulti(ctx, commands...), nil
	})
	c.unanswered(err)
	if err != nil {
		results = failed(len(calls), err)
		c.lookAround(results)
		return results, true
	}
	results = make([]conn.Result, len(calls))
	answered := true
	for i, reply := range replies {
		results[i] = result(ctx, reply)
		err := reply.NonRedisError()
		answered = answered && err == nil
		sent = sent || !errors.Is(err, errUndialed)
	}
	if answered {
		at.proved(mark)
	}
	c.leaveReplica(results)
	c.lookAround(results)
	return results, sent
}

// nodeFor returns the node that calls are for; nil if they may not go direct, as calls for several
// nodes of a cluster.
func (c *Conn) nodeFor(calls []conn.Call) *node {
	switch {
	case c.direct == nil:
		return nil
	case !c.target.Cluster:
		return &c.direct.server
	}
	var addr string
	for i := range calls {
		if len(calls[i].Keys) == 0 {
			return nil
		}
		switch at := c.places.Node(calls[i].Keys[0]); {
		case i == 0:
			addr = at
		case at != addr:
			return nil
		}
	}
	return c.direct.node(addr)
}

// lookAround has the map of a cluster looked at anew if a node gave no answer, and not because the
// caller gave up: a replica may have taken over.
func (c *Conn) lookAround(results []conn.Result) {
	if c.places == nil {
		return
	}
	for _, r := range results {
		if r.Err != nil && !errors.Is(r.Err, context.Canceled) && !errors.As(r.Err, new(*conn.ReplyError)) {
			c.places.Refresh()
			return
		}
	}
}

// leaveReplica closes the connections to a server that is a replica now. Else they would lead to it for
// as long as it lives. Sentinel, and a cluster, tell rueidis of the new master.
func (c *Conn) leaveReplica(results []conn.Result) {
	if c.silence == nil || c.client.Mode() != rueidis.ClientModeStandalone {
		return
	}
	for _, r := range results {
		if retry.Says(r.Err, "READONLY") {
			c.silence.leave()
			return
		}
	}
}

// unanswered looks for dead connections if err says that a request was given up.
func (c *Conn) unanswered(err error) {
	if err != nil && c.silence != nil {
		c.silence.drop()
	}
}

func (c *Conn) evalsha(call *conn.Call) rueidis.Completed {
	return c.client.B().Evalsha().Sha1(call.Script.SHA1).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func (c *Conn) eval(call *conn.Call) rueidis.Completed {
	return c.client.B().Eval().Script(call.Script.Text).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

// EvalReplicated implements [conn.Replicated]. It borrows a connection, since WAIT blocks the one
// that it is sent over. For such a connection rueidis does not follow a slot that moves.
func (c *Conn) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	var acks int
	results := adapter.Eval([]conn.Call{call}, func(calls []conn.Call, full bool) []conn.Result {
		build := c.evalsha
		if full {
			build = c.eval
		}
		send := func(at rueidis.Client, asking bool) (r conn.Result) {
			waiting := c.client.B().Wait().Numreplicas(int64(n)).Timeout(wait.Milliseconds()).Build()
			commands := []rueidis.Completed{build(&calls[0]), waiting}
			if asking {
				commands = slices.Insert(commands, 0, c.client.B().Asking().Build())
			}
			r, acks = c.replicated(ctx, at, commands)
			return r
		}
		r := send(c.client, false)
		for range maxRedirects {
			at, asking := c.elsewhere(&calls[0], r.Err)
			if at == nil {
				break
			}
			r = send(at, asking)
		}
		return []conn.Result{r}
	})
	return results[0], acks
}

// replicated sends commands over one connection, of which the last two are a script and WAIT.
func (c *Conn) replicated(
	ctx context.Context, at rueidis.Client, commands []rueidis.Completed,
) (r conn.Result, acks int) {
	replies, err := await(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		dedicated, free := at.Dedicate()
		defer free()
		return dedicated.DoMulti(ctx, commands...), nil
	})
	c.unanswered(err)
	if err != nil {
		return conn.Result{Err: err}, 0
	}
	replies = replies[len(replies)-2:]
	if got, err := message(ctx, replies[1]); err == nil {
		count, _ := got.AsInt64()
		acks = int(count)
	}
	return result(ctx, replies[0]), acks
}

// elsewhere returns the node of a cluster that another one named in refusing a call, since the key is
// there; nil if it did not, or rueidis has not met that node. asking is as for [slots.Redirection].
func (c *Conn) elsewhere(call *conn.Call, err error) (at rueidis.Client, asking bool) {
	var said *conn.ReplyError
	if !c.target.Cluster || !errors.As(err, &said) || len(call.Keys) == 0 {
		return nil, false
	}
	from := c.places.Node(call.Keys[0])
	addr, asking := slots.Redirection(said.Text, from)
	if addr == "" {
		return nil, false
	}
	c.places.Learn(said.Text, from)
	return c.client.Nodes()[addr], asking
}

// Scan implements [conn.Conn].
func (c *Conn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	masters, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for _, master := range masters {
		if err := scan(ctx, master, pattern, each); err != nil {
			return err
		}
	}
	return nil
}

func scan(ctx context.Context, node rueidis.Client, pattern string, each func(key string) error) error {
	for cursor := uint64(0); ; {
		reply, err := do(ctx, node, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build())
		if err != nil {
			return err
		}
		page, err := reply.AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if err := each(key); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// masters returns a client for each master. A node that does not say what it is fails the call: it
// may be a master, whose keys would be missing.
func (c *Conn) masters(ctx context.Context) ([]rueidis.Client, error) {
	if !c.target.Cluster {
		return []rueidis.Client{c.client}, nil
	}
	if err := c.meetMasters(ctx); err != nil {
		return nil, err
	}
	var masters []rueidis.Client
	nodes := c.client.Nodes()
	for addr, node := range nodes {
		if len(nodes) == 1 { // nothing else can have keys; and an embedded server does not know ROLE
			return []rueidis.Client{node}, nil
		}
		reply, err := do(ctx, node, node.B().Role().Build())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
		role, err := reply.ToArray()
		if err != nil || len(role) == 0 {
			return nil, fmt.Errorf("%s: unexpected reply to ROLE: %s", addr, reply.String())
		}
		if name, _ := role[0].ToString(); name == "master" {
			masters = append(masters, node)
		}
	}
	return masters, nil
}

// meetMasters has rueidis meet the masters that came to the cluster. By itself it looks for them only
// when a request fails, or has to go elsewhere.
func (c *Conn) meetMasters(ctx context.Context) error {
	ranges, err := c.readSlots(ctx)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if c.client.Nodes()[r.Addr] != nil {
			continue
		}
		nothing := c.client.B().Eval().Script("return 0").Numkeys(1).Key(slots.KeyIn(r)).Build()
		if _, err := do(ctx, c.client, nothing); err != nil {
			return fmt.Errorf("%s: %w", r.Addr, err)
		}
	}
	return nil
}
