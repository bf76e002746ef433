package redlatchrueidis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestDirectRequestDialsNot: a connection may end after it was found steady. The request that
// goes direct then must not dial, since its caller could not give up then.
func TestDirectRequestDialsNot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := check.Value(Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}})).OK(t)
	defer c.Close()
	wantOne(t, t.Context(), c)
	check.Must(t, c.direct.server.steady(), "the connection is not steady, and has answered")
	server.Restart()
	check.Eventually(t, "the connection is not steady, since the server was restarted", func() bool { return !c.direct.server.steady() })
	time.Sleep(10 * time.Millisecond) // rueidis forgets the connection just after it closed it
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, sent := c.runDirect(ctx, &c.direct.server, []conn.Call{one}, c.evalsha)
	check.That(t, !sent, "the request was sent")
	wantOne(t, ctx, c)
	check.That(t, c.direct.server.steady(), "the new connection is not steady, and has answered")
}

// TestDirectInACluster: requests to a node go direct once it has answered, and not to a node that
// has not. A request that is sent on to a node without a connection is sent again, since it must
// not dial.
func TestDirectInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := openAt(t, nodes[0].Addr()) // with all addresses, the end of a late dial would unsettle its node
	ctx := inTime(t)
	call := func(key string) []conn.Call { return []conn.Call{whose(key)} }
	eval := func(key string) {
		t.Helper()
		if r := c.Eval(ctx, whose(key))[0]; r.Err != nil || r.Reply.Text != key {
			t.Fatalf("Eval = %+v, want %q", r, key)
		}
	}
	keys := keysOf(nodes)
	for n, key := range keys[:2] {
		check.That(t, !c.nodeFor(call(key)).steady(), "node %d is steady, and was not asked", n)
		eval(key)
		check.That(t, c.nodeFor(call(key)).steady(), "node %d is not steady, and has answered", n)
	}
	check.That(t, c.nodeFor(append(call(keys[0]), call(keys[1])...)) == nil, "a pipeline to two nodes may go direct")
	before := c.nodeFor(call(keys[0]))
	redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(keys[0]))
	if at := c.nodeFor(call(keys[0])); at != before {
		t.Fatalf("the client knows that the key is at %s, and was not told yet", at.addr)
	}
	check.Must(t, before.steady(), "the old node is not steady")
	eval(keys[0])
	if c.nodeFor(call(keys[0])) == before || !before.steady() {
		t.Error("the old node said where the key is, and nothing was learned, or the node is not steady any more")
	}
	eval(keys[0])
	check.That(t, c.nodeFor(call(keys[0])).steady(), "the new node is not steady, and has answered")
}

// TestPipelineInACluster: a pipeline to one node goes direct. If one of its keys has moved, that call
// alone is made again: one that was made twice would say of a release that the lock was not held.
func TestPipelineInACluster(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	moves, stays := twoKeys(nodes)
	var calls []conn.Call
	for _, key := range []string{moves, stays} {
		calls = append(calls, conn.Call{Script: conn.NewScript("count", "return redis.call('incr', KEYS[1])"), Keys: []string{key}})
	}
	for n := range int64(3) {
		if n == 2 {
			redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(moves))
		}
		awaitSteady(t, c, stays) // again: the client of the cluster may have closed a connection
		check.Must(t, c.nodeFor(calls).steady(), "the pipeline does not go direct")
		for i, r := range c.Eval(t.Context(), calls...) {
			if r.Err != nil || r.Reply.Int != n+1 {
				t.Errorf("pipeline %d: call %d = %+v, want %d", n, i, r, n+1)
			}
		}
	}
	check.That(t, c.nodeFor(calls) == nil, "a pipeline to two nodes may go direct")
}

// TestRequestsToASilentNodeOfACluster: a slot moves to a node that takes connections and says
// nothing. Whatever waits for a connection there, each request ends with its context, and requests
// to another node are answered.
func TestRequestsToASilentNodeOfACluster(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	moves, stays := twoKeys(nodes)
	eval := func(key string, limit time.Duration) conn.Result {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		r := c.Eval(ctx, whose(key))[0]
		if took := time.Since(began); took > limit+4*time.Second { // a handshake has five, or ConnWriteTimeout
			t.Errorf("a request with %v for %s ended after %v: %+v", limit, key, took, r)
		}
		return r
	}
	for range 3 {
		for _, key := range []string{moves, stays} {
			if r := eval(key, patience); r.Err != nil {
				t.Fatalf("Eval = %+v, want an answer", r)
			}
		}
	}
	redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(moves))
	nodes[2].Restart()
	nodes[2].Pause()
	defer nodes[2].Resume()
	for range 8 {
		if r := eval(moves, 100*time.Millisecond); r.Err == nil {
			t.Errorf("Eval = %+v, and the node of the key is silent", r)
		}
		if r := eval(stays, patience); r.Err != nil {
			t.Errorf("Eval = %+v, want an answer", r)
		}
	}
}

// TestDirectLooksWhileThereAreRequests: contexts are looked at while requests are under way, and a
// client that is idle costs nothing.
func TestDirectLooksWhileThereAreRequests(t *testing.T) {
	t.Parallel()
	var d direct
	ctx, cancel := context.WithCancel(t.Context())
	first, second := d.begin(ctx, nil), d.begin(t.Context(), nil)
	cancel()
	<-first.Done()
	check.That(t, first.Err() == context.Canceled && second.Err() == nil, "Err = %v and %v, want that the first is canceled", first.Err(), second.Err())
	d.end(first)
	d.end(second)
	if again := d.begin(t.Context(), nil); again == first || again.Err() != nil {
		t.Error("a request that was canceled is used again")
	} else {
		d.end(again)
	}
	check.Eventually(t, "contexts are looked at no more", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return !d.ticking
	})
}

// TestNodeWhoseClientWasClosed: rueidis closes its client of a node that left, or that it has a new
// connection to. At most the next request fails; from then on requests to the node are answered, over
// the client that rueidis has for it now.
func TestNodeWhoseClientWasClosed(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	ctx := inTime(t)
	keys := keysOf(nodes)
	n := awaitSteady(t, c, keys[0])
	server := redistest.Start(t)
	stale := check.Value(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})).OK(t)
	server.Kill() // what fails to dial once tells that after Close, too, and not that it is closed
	check.Eventually(t, "a dial has failed", func() bool {
		err := stale.Do(ctx, stale.B().Ping().Build()).Error()
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	stale.Close()
	n.client.Store(&stale)
	n.proved(n.mark())
	_ = c.Eval(ctx, whose(keys[0]))
	for range 3 {
		if r := c.Eval(ctx, whose(keys[0]))[0]; r.Err != nil || r.Reply.Text != keys[0] {
			t.Errorf("Eval = %+v, want an answer", r)
		}
	}
	check.That(t, n.steady() && *n.client.Load() != stale, "requests go over the closed client, or not direct")
}

// TestNodeThatServesItsSlotsNoMore: a node that was cut off, or left the cluster, refuses requests
// over a connection that is fine. The client of the cluster then finds the node that took over.
func TestNodeThatServesItsSlotsNoMore(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	key := keysOf(nodes)[0]
	n := awaitSteady(t, c, key)
	redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(key))
	nodes[0].Do("FLUSHALL")
	nodes[0].Do("CLUSTER", "RESET")
	ctx := inTime(t)
	asked := elapsed()
	r := c.Eval(ctx, whose(key))[0]
	check.Must(t, retry.Says(r.Err, "CLUSTERDOWN") || r.Err == nil, "Eval = %+v, want that the node refuses", r)
	check.That(t, !n.steady() && time.Duration(n.leftAt.Load()) >= asked, "a node that serves no slot is not left to the client of the cluster")
	check.Eventually(t, "the node that has the slot answers", func() bool { return c.Eval(ctx, whose(key))[0].Err == nil })
}

// whose is a call that returns its key.
func whose(key string) conn.Call {
	return conn.Call{Script: conn.NewScript("whose", "return KEYS[1]"), Keys: []string{key}}
}

// openCluster opens a connection to a cluster of three, and waits until it knows the masters.
func openCluster(t *testing.T) (*Conn, []*redistest.Server) {
	t.Helper()
	nodes := redistest.StartCluster(t, 3)
	var all []string // since a node that was reset says that it is a cluster by itself
	for _, node := range nodes {
		all = append(all, node.Addr())
	}
	return openAt(t, all...), nodes
}

// openAt returns a connection to a cluster, of which these addresses are known at first. With more
// than one address, rueidis dials them all, and closes the connections that come after the first.
func openAt(t *testing.T, addrs ...string) *Conn {
	t.Helper()
	c := check.Value(Open(rueidis.ClientOption{InitAddress: addrs})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	check.Eventually(t, "the masters are known", func() bool { return c.places.Node("any") != "" })
	return c
}

// keysOf returns a key of each node.
func keysOf(nodes []*redistest.Server) []string {
	keys := make([]string, len(nodes))
	for n := 0; slices.Contains(keys, ""); n++ {
		key := fmt.Sprint("key-", n)
		keys[nodes[0].Slot(key)*len(nodes)/16384] = key
	}
	return keys
}

// twoKeys returns two keys of the first node, in different slots.
func twoKeys(nodes []*redistest.Server) (moves, stays string) {
	for n := 0; moves == "" || stays == ""; n++ {
		if key := fmt.Sprint("key-", n); nodes[0].Slot(key)*len(nodes)/16384 == 0 {
			moves, stays = stays, key
		}
	}
	return moves, stays
}

// awaitSteady asks until requests for a key go direct, and returns the node that they go to.
func awaitSteady(t *testing.T, c *Conn, key string) *node {
	t.Helper()
	call := []conn.Call{whose(key)}
	check.Eventually(t, "an answer proves the node", func() bool {
		if r := c.Eval(t.Context(), call...)[0]; r.Err != nil {
			t.Fatalf("Eval = %+v, want an answer", r)
		}
		return c.nodeFor(call).steady()
	})
	return c.nodeFor(call)
}
