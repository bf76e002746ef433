package redlatchrueidis

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/rueidis"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/driver/adapter"
)

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
	if !sent { // it waited for a connection with a request that went direct, and may make its own
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
		// It costs no caller anything that rueidis ignores ctx, since await does not; what goes on ends
		// after ConnWriteTimeout. A dial would end with ctx, for all requests that wait for it.
		switch {
		case !c.target.Cluster || over != c.client:
			ctx = context.Background()
		case c.owned: // here rueidis may follow a slot that moves, until ctx ends
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.Background(), c.silence.pause)
			defer cancel()
		}
		if len(commands) == 1 {
			return []rueidis.RedisResult{over.Do(ctx, commands[0])}, nil
		}
		replies := over.DoMulti(ctx, commands...)
		if errors.Is(replies[0].NonRedisError(), rueidis.ErrNoSlot) { // a slot without a node kept back the others
			var all sync.WaitGroup
			for i, command := range commands {
				all.Go(func() { replies[i] = over.Do(ctx, command) })
			}
			all.Wait()
		}
		return replies, nil
	})
	c.unanswered(err)
	if err != nil {
		results = slices.Repeat([]conn.Result{{Err: err}}, len(calls))
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

// nodeFor returns the node that calls are for; nil if they may not go direct, such as calls for
// several nodes of a cluster.
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

// lookAround loads the map of a cluster again if a node gave no answer, unless the caller canceled:
// a replica may have taken over.
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

// leaveReplica closes the connections to a server that is a replica now. Otherwise, they would lead
// to it for as long as it lives. From Sentinel or a cluster, rueidis learns of the new master.
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

// runDirect is run on the goroutine of the caller. It returns false if nothing was done, since no
// connection was open any more.
func (c *Conn) runDirect(ctx context.Context, at *node, calls []conn.Call, build func(*conn.Call) rueidis.Completed) ([]conn.Result, bool) {
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]conn.Result{{Err: err}}, len(calls)), true
	}
	over := c.client
	if at.addr != "" {
		proved := at.client.Load()
		if proved == nil {
			return nil, false
		}
		over = *proved
	}
	r := c.direct.begin(ctx, nil)
	defer c.direct.end(r)
	results := make([]conn.Result, len(calls))
	var err error
	if len(calls) == 1 {
		reply := over.Do(r, build(&calls[0]))
		err, results[0] = reply.NonRedisError(), result(ctx, reply)
	} else {
		commands := make([]rueidis.Completed, len(calls))
		for i := range calls {
			commands[i] = build(&calls[i])
		}
		for i, reply := range over.DoMulti(r, commands...) {
			if e := reply.NonRedisError(); e != nil {
				err = e
			}
			results[i] = result(ctx, reply)
		}
	}
	if err != nil {
		at.trouble()
		if ctx.Err() != nil {
			c.silence.drop()
		}
		c.lookAround(results)
	}
	c.leaveReplica(results)
	return results, !errors.Is(err, errUndialed)
}

// runInLane sends a request in a lane that the caller has taken, and gives the lane back. It
// returns false if nothing was done: the lane was not connected any more, or a node of a cluster
// refused the request as astray.
func (c *Conn) runInLane(ctx context.Context, at *node, l *lane, call *conn.Call, build func(*conn.Call) rueidis.Completed) (conn.Result, bool) {
	if err := ctx.Err(); err != nil {
		l.give(true)
		return conn.Result{Err: err}, true
	}
	r := c.direct.begin(ctx, l)
	reply := l.client.Do(r, build(call))
	err, outcome := reply.NonRedisError(), result(ctx, reply)
	// Before the lane is given back: the connection of a request that was done is hung up, or will be.
	done := c.direct.end(r)
	switch {
	case c.astray(at, outcome.Err):
		l.give(!done)
		return outcome, false
	case retry.Says(outcome.Err, "READONLY"): // a replica now; the shared connection may lead to the master
		at.trouble() // which ends the other lanes
		l.hangUp()
		done = true
	case err != nil && !errors.Is(ctx.Err(), context.Canceled):
		// The other lanes may be as silent, and a resend that takes one of them would find that out in
		// turn. The shared connection is dropped when it is silent.
		at.trouble()
		c.lookAround([]conn.Result{outcome})
	}
	l.give(err == nil && !done)
	return outcome, !errors.Is(err, errUndialed)
}

// prove sends calls over the client that rueidis has for the node now. It returns false if the node
// did none of them.
func (c *Conn) prove(ctx context.Context, at *node, calls []conn.Call, build func(*conn.Call) rueidis.Completed) ([]conn.Result, bool) {
	defer at.proving.Store(false)
	over := c.client.Nodes()[at.addr]
	if over == nil {
		at.leave()
		return nil, false
	}
	mark := at.mark()
	results, sent := c.runApart(ctx, nil, over, calls, build)
	err := results[0].Err
	switch {
	case c.astray(at, err):
		return nil, false
	case !sent || err != nil && !errors.As(err, new(*conn.ReplyError)):
		at.leave()
	default:
		at.client.Store(&over)
		at.proved(mark)
	}
	return results, sent
}

// astray reports whether a node of a cluster refused a request, before it did any of it, since
// another node may have the key, or the node cannot serve it now. Then it is time to look at the
// cluster again, and the client of the cluster resends the request.
func (c *Conn) astray(at *node, err error) bool {
	if err == nil || at == nil || at.addr == "" {
		return false
	}
	var said *conn.ReplyError
	if !errors.As(err, &said) {
		return false
	}
	switch code := said.Code(); {
	case slices.Contains([]string{"MOVED", "ASK", "TRYAGAIN"}, code): // it is about one slot
		c.places.Learn(said.Text, at.addr)
	case slices.Contains([]string{"CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"}, code):
		c.places.Refresh()
		at.leave()
	default:
		return false
	}
	return true
}

func (c *Conn) evalsha(call *conn.Call) rueidis.Completed {
	return c.client.B().Evalsha().Sha1(call.Script.SHA1).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func (c *Conn) eval(call *conn.Call) rueidis.Completed {
	return c.client.B().Eval().Script(call.Script.Text).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}
