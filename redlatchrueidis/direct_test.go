package redlatchrueidis

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestDirectRequestDialsNot: a connection may end after it was found steady. The request that
// goes direct then must not dial, since its caller could not give up then.
func TestDirectRequestDialsNot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, err := Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := conn.Call{Script: conn.NewScript("one", "return 1")}
	if r := c.Eval(t.Context(), call)[0]; r.Err != nil || !c.direct.server.steady() {
		t.Fatalf("Eval = %+v, steady: %t, want 1 and true", r, c.direct.server.steady())
	}
	server.Restart()
	for deadline := time.Now().Add(20 * time.Second); c.direct.server.steady() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if c.direct.server.steady() {
		t.Fatal("the connection counts as steady, and the server was restarted")
	}
	time.Sleep(10 * time.Millisecond) // rueidis forgets the connection just after it closed it
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if results, sent := c.runDirect(ctx, &c.direct.server, []conn.Call{call}, c.evalsha); sent {
		t.Errorf("the request was sent: %+v", results[0])
	}
	if r := c.Eval(ctx, call)[0]; r.Err != nil || r.Reply.Int != 1 {
		t.Errorf("Eval = %+v, want 1", r)
	}
	if !c.direct.server.steady() {
		t.Error("the new connection is not steady, and has answered")
	}
}

// TestDirectInACluster: requests to a node go direct once it has answered, and not to a node that
// has not. A request that is sent on to a node without a connection is sent again, since it must
// not dial.
func TestDirectInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c, err := Open(rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := func(key string) []conn.Call {
		return []conn.Call{{Script: conn.NewScript("whose", "return KEYS[1]"), Keys: []string{key}}}
	}
	eval := func(key string) {
		t.Helper()
		if r := c.Eval(ctx, call(key)...)[0]; r.Err != nil || r.Reply.Text != key {
			t.Fatalf("Eval = %+v, want %q", r, key)
		}
	}
	keys := make([]string, len(nodes)) // by the nodes that have them
	for n := 0; slices.Contains(keys, ""); n++ {
		key := fmt.Sprint("key-", n)
		keys[nodes[0].Slot(key)*len(nodes)/16384] = key
	}
	for c.places.Node(keys[0]) == "" { // until the map of the cluster is there
		time.Sleep(time.Millisecond)
	}
	for n, key := range keys[:2] {
		if c.nodeFor(call(key)).steady() {
			t.Errorf("node %d is steady, and was not asked", n)
		}
		eval(key)
		if !c.nodeFor(call(key)).steady() {
			t.Errorf("node %d is not steady, and has answered", n)
		}
	}
	if c.nodeFor(append(call(keys[0]), call(keys[1])...)) != nil {
		t.Error("a pipeline to two nodes may go direct")
	}
	before := c.nodeFor(call(keys[0]))
	redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(keys[0]))
	if !c.nodeFor(call(keys[0])).steady() { // as far as the client knows, it is at its old node
		t.Fatal("the old node is not steady")
	}
	eval(keys[0])
	if c.nodeFor(call(keys[0])) == before || !before.steady() {
		t.Error("the old node said where the key is, and nothing was learned, or the node is not steady any more")
	}
	eval(keys[0])
	if !c.nodeFor(call(keys[0])).steady() {
		t.Error("the new node is not steady, and has answered")
	}
}

// TestRequestsToASilentNodeOfACluster: a slot moves to a node that takes connections and says
// nothing. Whatever waits for a connection there, each request ends with its context, and requests
// to another node are answered.
func TestRequestsToASilentNodeOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c, err := Open(rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	moves, stays := "", ""
	for n := 0; moves == "" || stays == ""; n++ {
		key := fmt.Sprint("key-", n)
		if nodes[0].Slot(key)*len(nodes)/16384 != 0 {
			continue
		}
		moves, stays = stays, key
	}
	eval := func(key string, limit time.Duration) conn.Result {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		r := c.Eval(ctx, conn.Call{Script: conn.NewScript("whose", "return KEYS[1]"), Keys: []string{key}})[0]
		if took := time.Since(began); took > limit+2*time.Second { // a handshake has five, or ConnWriteTimeout
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
	if first.Err() != context.Canceled || second.Err() != nil {
		t.Errorf("Err = %v and %v, want that the first is cancelled", first.Err(), second.Err())
	}
	d.end(first)
	d.end(second)
	if again := d.begin(t.Context(), nil); again == first || again.Err() != nil {
		t.Error("a request that was cancelled is used again")
	} else {
		d.end(again)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		d.mu.Lock()
		ticking := d.ticking
		d.mu.Unlock()
		if !ticking {
			return
		}
	}
	t.Error("contexts are looked at for ever")
}

// TestNodeWhoseClientWasClosed: rueidis closes its client of a node that left, or that it has a new
// connection to. At most the next request fails; from then on requests to the node are answered.
func TestNodeWhoseClientWasClosed(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c, err := Open(rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := conn.Call{Script: conn.NewScript("whose", "return KEYS[1]"), Keys: []string{"a"}}
	for c.nodeFor([]conn.Call{call}) == nil || !c.nodeFor([]conn.Call{call}).steady() {
		if r := c.Eval(ctx, call)[0]; r.Err != nil {
			t.Fatalf("Eval = %+v, want an answer", r)
		}
	}
	before := c.nodeFor([]conn.Call{call})
	stale, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	stale.Close()
	for _, steady := range []bool{true, false} {
		n := &node{addr: before.addr, client: stale}
		if steady {
			n.proved(n.mark())
		}
		c.direct.mu.Lock()
		c.direct.nodes[before.addr] = n
		c.direct.mu.Unlock()
		_ = c.Eval(ctx, call)
		for range 3 {
			if r := c.Eval(ctx, call)[0]; r.Err != nil || r.Reply.Text != "a" {
				t.Errorf("Eval = %+v, want an answer", r)
			}
		}
		if now := c.nodeFor([]conn.Call{call}); now == n || !now.steady() {
			t.Errorf("steady: %t: the node is the one with the closed client, or it was not proved", steady)
		}
	}
}
