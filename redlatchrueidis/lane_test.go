package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/driver/trunk"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

var one = conn.Call{Script: conn.NewScript("one", "return 1")}

// patience is for a busy machine.
const patience = time.Minute

// inTime returns a context whose time is patience.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantOne sends a request, and checks its answer.
func wantOne(t *testing.T, ctx context.Context, c *Conn) {
	t.Helper()
	r := c.Eval(ctx, one)[0]
	check.That(t, r.Err == nil && r.Reply.Int == 1, "Eval = %+v, want 1", r)
}

// openMine opens a connection whose clients have the name "mine" at the server.
func openMine(t *testing.T, server *redistest.Server) *Conn {
	t.Helper()
	c := check.Value(Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}, ClientName: "mine"})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// inLane opens a connection whose lane is free.
func inLane(t *testing.T, server *redistest.Server) *Conn {
	t.Helper()
	c := openMine(t, server)
	awaitLane(t, c)
	return c
}

// awaitLane sends requests until the lane is free.
func awaitLane(t *testing.T, c *Conn) {
	t.Helper()
	ctx := inTime(t)
	check.Eventually(t, "the lane is free", func() bool {
		_ = c.Eval(ctx, one) // may fail just after a restart
		return c.direct.server.lanes[0].state.Load() == laneFree
	})
}

// TestLane: a program that asks for one thing at a time has a connection that no other request
// shares, once it has asked a few times.
func TestLane(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := openMine(t, server)
	ctx := inTime(t)
	for n := range dialAfter - 2 { // the first is two: the server does not know the script yet
		if r := c.Eval(ctx, one)[0]; r.Err != nil || c.direct.server.lanes[0].state.Load() != laneClosed {
			t.Fatalf("request %d: %+v, and the lane is in state %d, want it closed still", n, r, c.direct.server.lanes[0].state.Load())
		}
	}
	awaitLane(t, c)
	before := len(strings.Split(server.Do("CLIENT", "LIST"), "name=mine"))
	for range 100 {
		wantOne(t, ctx, c)
	}
	if before != 3 || c.direct.server.lanes[0].state.Load() != laneFree {
		t.Errorf("%d connections, and the lane is in state %d; want 2, and it is free", before-1, c.direct.server.lanes[0].state.Load())
	}
	check.Equal(t, asked(c), 0, "requests are still looked after")
}

// TestSecondLane: two goroutines that ask for one thing at a time have a connection each.
func TestSecondLane(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := openMine(t, server)
	awaitLanes(t, c)
	check.Equal(t, strings.Count(server.Do("CLIENT", "LIST"), "name=mine"), 1+maxLanes, "connections")
	first, second := takeLane(c.direct.server.lanes), takeLane(c.direct.server.lanes)
	if first != c.direct.server.lanes[0] || second != c.direct.server.lanes[1] || takeLane(c.direct.server.lanes) != nil {
		t.Errorf("the lanes %p and %p are taken, want %p and %p, and no more", first, second, c.direct.server.lanes[0], c.direct.server.lanes[1])
	}
	first.give(false)
	second.give(true)
	if l := takeLane(c.direct.server.lanes); l != second {
		t.Errorf("the lane %p is taken, want %p, since the first is closed", l, second)
	}
}

// awaitLanes returns when both lanes are free.
func awaitLanes(t *testing.T, c *Conn) {
	t.Helper()
	ctx := inTime(t)
	slow := conn.Call{Script: conn.NewScript("slow", "for i = 1, 100000 do end return 1")}
	for ctx.Err() == nil && (c.direct.server.lanes[0].state.Load() != laneFree || c.direct.server.lanes[1].state.Load() != laneFree) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if r := c.Eval(ctx, slow)[0]; r.Err != nil || r.Reply.Int != 1 {
					t.Errorf("Eval = %+v, want 1", r)
				}
			})
		}
		both.Wait()
	}
}

// TestSilentLaneEndsTheOther: a request got no answer in its lane. The resend must not find out in
// the other lane that it is silent, too.
func TestSilentLaneEndsTheOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := inLane(t, server)
	awaitLanes(t, c)
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	check.That(t, c.Eval(ctx, one)[0].Err != nil, "a server that is paused has answered")
	check.That(t, takeLane(c.direct.server.lanes) == nil, "a lane is taken, and may be silent")
}

// asked returns how many requests are under way on goroutines of their callers.
func asked(c *Conn) int {
	c.direct.mu.Lock()
	defer c.direct.mu.Unlock()
	return len(c.direct.underWay)
}

// TestLaneOfSeveral: where several requests are under way they share a connection, and the lane has
// one at a time.
func TestLaneOfSeveral(t *testing.T) {
	t.Parallel()
	c := inLane(t, redistest.Start(t))
	ctx := inTime(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				wantOne(t, ctx, c)
			}
		})
	}
	all.Wait()
	check.Equal(t, c.direct.server.sharing.Load(), 0, "requests are still counted")
}

// TestLaneInACluster: each node has a lane. A request for a key that has moved is made again at the
// node that has it, and the lane stays. No node that comes after Close gets one.
func TestLaneInACluster(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	moves, stays := twoKeys(nodes)
	at := awaitSteady(t, c, stays)
	ctx := inTime(t)
	check.Eventually(t, "the lane is free", func() bool {
		_ = c.Eval(ctx, whose(stays))
		return at.lanes[0].state.Load() == laneFree
	})
	socket := at.lanes[0].socket.Load()
	redistest.MoveSlot(nodes, nodes[0], nodes[2], nodes[0].Slot(moves))
	for _, key := range []string{moves, stays, moves} {
		if r := c.Eval(ctx, whose(key))[0]; r.Err != nil || r.Reply.Text != key {
			t.Errorf("Eval = %+v, want %q", r, key)
		}
	}
	check.That(t, c.nodeFor([]conn.Call{whose(moves)}) != at, "the old node said where the key is, and nothing was learned")
	if l := at.lanes[0]; l.state.Load() != laneFree || l.socket.Load() != socket {
		t.Errorf("the lane is in state %d, want it free, and as before", l.state.Load())
	}
	check.Nil(t, "Close", c.Close())
	check.That(t, at.lanes[0].life.Err() != nil, "the lane is open after Close")
	check.Equal(t, len(c.direct.node("elsewhere:1").lanes), 0, "lanes of a node that came after Close")
}

// TestLaneOfANodeThatLeft: a node leaves the cluster, and lives on. Nothing of it is kept, and no
// connection to it.
func TestLaneOfANodeThatLeft(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}, ClientName: "mine"}
	c := check.Value(Open(o)).OK(t)
	defer c.Close()
	check.Eventually(t, "the masters are known", func() bool { return c.places.Node("any") != "" })
	key, left := keysOf(nodes)[2], nodes[2]
	at := awaitSteady(t, c, key)
	ctx := inTime(t)
	check.Eventually(t, "the lane is free", func() bool {
		_ = c.Eval(ctx, whose(key))
		return at.lanes[0].state.Load() == laneFree
	})
	redistest.Leave(nodes, 2)
	for range 20 { // the client of the cluster still has the node, which says that no slot is served
		ranges, err := c.readSlots(ctx)
		check.That(t, err == nil && len(ranges) > 0, "readSlots = %v, %v, want those of the others", ranges, err)
	}
	check.Eventually(t, "the node that left has no connection", func() bool {
		_ = c.Eval(ctx, whose(key)) // which is late at first
		return !strings.Contains(left.Do("CLIENT", "LIST"), "name=mine")
	})
	c.direct.mu.Lock()
	defer c.direct.mu.Unlock()
	check.That(t, c.direct.nodes[left.Addr()] == nil, "the node that left is not forgotten")
}

// TestLaneIsGivenUp: a server hangs. The caller in the lane is back when its context is canceled,
// or has passed its deadline. The lane is dialed again, and answers when the server does.
func TestLaneIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, how := range []error{context.Canceled, context.DeadlineExceeded} {
		server := redistest.Start(t)
		c := inLane(t, server)
		server.Pause()
		limit := patience
		if how == context.DeadlineExceeded {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if how == context.Canceled {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		began := time.Now()
		r := c.Eval(ctx, one)[0]
		late := how == context.DeadlineExceeded && adapter.Silent(r.Err) // on a busy machine the timer of ctx is
		check.That(t, errors.Is(r.Err, how) || late, "Eval = %+v, want %v", r, how)
		if took := time.Since(began); took > patience/2 {
			t.Errorf("the caller was back after %v, want it when its context was done", took)
		}
		cancel()
		free := c.direct.server.lanes[0].state.Load() == laneFree
		check.That(t, !free, "the lane is free, and a reply is still to come there")
		server.Resume()
		awaitLane(t, c)
	}
}

// TestLaneOfADemotedServer: a server that is a replica now keeps no lane, since a proxy or a name may
// lead to the new master.
func TestLaneOfADemotedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := inLane(t, server)
	server.Do("REPLICAOF", "127.0.0.1", "1")
	write := conn.Call{Script: conn.NewScript("write", "return redis.call('SET', KEYS[1], '1')"), Keys: []string{"k"}}
	ctx := inTime(t)
	if r := c.Eval(ctx, write)[0]; !retry.Says(r.Err, "READONLY") || c.direct.server.lanes[0].state.Load() == laneFree {
		t.Errorf("Eval = %+v, and the lane is in state %d; want READONLY, and it closed", r, c.direct.server.lanes[0].state.Load())
	}
	server.Do("REPLICAOF", "NO", "ONE")
	awaitLane(t, c)
}

// TestLaneEndsWithTheOther: the connection that requests share ended, and the lane did not, as when
// one of them was killed. The lane may lead elsewhere by now, and is made anew.
func TestLaneEndsWithTheOther(t *testing.T) {
	t.Parallel()
	c := inLane(t, redistest.Start(t))
	before := c.direct.server.lanes[0].socket.Load()
	c.direct.server.trouble()
	ctx := inTime(t)
	wantOne(t, ctx, c)
	awaitLane(t, c)
	check.That(t, c.direct.server.lanes[0].socket.Load() != before, "the lane is the same")
}

// TestLaneOfARestartedServer: the lane ended with the server. No request finds out by an error, once
// the end of the other connection is known.
func TestLaneOfARestartedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := inLane(t, server)
	server.Restart()
	check.Eventually(t, "the end of the other connection is known", func() bool { return !c.direct.server.steady() })
	ctx := inTime(t)
	for range 2 {
		wantOne(t, ctx, c)
	}
	awaitLane(t, c)
}

// TestLaneIsSynchronous: requests in a lane wake no goroutine of rueidis, also in one that was made
// anew. The test counts goroutines, so no other runs beside it.
func TestLaneIsSynchronous(t *testing.T) {
	server := redistest.Start(t)
	c := inLane(t, server)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.That(t, c.Eval(ctx, one)[0].Err != nil, "a server that is paused has answered")
	server.Resume()
	awaitLane(t, c)
	within := inTime(t)
	for range 100 {
		wantOne(t, within, c)
	}
	check.Must(t, c.direct.server.lanes[0].state.Load() == laneFree, "the requests were not in the lane")
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := strings.Count(string(stacks), "rueidis.(*pipe)._background("); n > 1 {
		t.Errorf("%d connections have goroutines of their own, want that of the shared one alone:\n%s", n, stacks)
	}
}

// TestLaneThatCannotBeDialed: the server takes no second connection. Requests go on over the first,
// and closing does not wait for the handshake.
func TestLaneThatCannotBeDialed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var held []net.Conn
	silent := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	defer silent.Close()
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c) // which is never answered
			mu.Unlock()
		}
	}()
	c := check.Value(Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}})).OK(t)
	c.direct.server.lanes = newLanes(rueidis.ClientOption{InitAddress: []string{silent.Addr().String()}, DisableCache: true}, &c.direct.server, maxLanes)
	ctx := inTime(t)
	for range 2 * dialAfter {
		wantOne(t, ctx, c)
	}
	check.Equal(t, c.direct.server.lanes[0].state.Load(), laneDialing, "the state of the lane")
	began := time.Now()
	check.Nil(t, "Close", c.Close())
	if took := time.Since(began); took > 3*time.Second { // the handshake has five
		t.Errorf("Close took %v", took)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range held {
		_ = c.Close()
	}
}

// TestConnectionsForReplicas: a burst of acquisitions that wait for replicas leaves few connections.
func TestConnectionsForReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := check.Value(Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	call := conn.Call{Script: conn.NewScript("one", "return 1"), Keys: []string{"a"}}
	var burst sync.WaitGroup
	for range 50 {
		burst.Go(func() { c.EvalReplicated(t.Context(), call, 1, 300*time.Millisecond) })
	}
	burst.Wait()
	check.Eventually(t, "few connections stay", func() bool { return strings.Count(server.Do("CLIENT", "LIST"), " addr=") <= maxLent+4 })
}

// TestDialsThatFailAtOnce: a node refuses connections to a trunk and to a plain subscription at the same
// moment. rueidis has one dead connection for both, and the trunk must not take it for a line.
func TestDialsThatFailAtOnce(t *testing.T) {
	t.Parallel()
	client, _ := rueidis.NewClient(rueidis.ClientOption{ // which says that it could not dial, and tries again
		InitAddress: []string{"127.0.0.1:1"}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errors.New("refused")
		},
	})
	c := New(client, "127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	var plain sync.WaitGroup
	plain.Go(func() {
		for ctx.Err() == nil {
			_ = c.subscribe(ctx, c.client, c.client.B().Subscribe().Channel("x").Build(), stays, func() {}, func(string) {})
		}
	})
	for n := range 2_000 { // each time another trunk, since one rests when it could not dial
		_ = c.trunks.Subscribe(ctx, trunk.Node{Addr: strconv.Itoa(n), Dial: func(to *trunk.Trunk) (trunk.Line, error) {
			l, err := c.dialLine("127.0.0.1:1", to)
			if l == nil && err == nil {
				t.Errorf("dial %d returned neither a line nor an error", n)
				err = errNoNode
			}
			return l, err
		}}, "a", func() {}, func(string) {})
	}
	cancel()
	plain.Wait()
}
