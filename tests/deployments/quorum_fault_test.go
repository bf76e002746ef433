package deployments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestQuorumMinorityIsKilled: as many nodes die as the quorum stands. Leases go on, and are
// acquired.
func TestQuorumMinorityIsKilled(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		o, seen := help.Watched(help.Brisk(9 * time.Second)) // extended after 3
		c, other := help.OpenQuorum(t, nodes, o), help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
		held := locktest.Lock(t, c.Mutex("a"))
		locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, "a", held.Owner()) == n })
		for _, node := range nodes[1 : 1+(n-1)/2] {
			node.Kill()
		}
		for range 5 {
			locktest.Release(t, locktest.Lock(t, other.Mutex("b")))
		}
		seen.Await(t, redlatch.EventExtended, "a", len(seen.Of(redlatch.EventExtended, "a")))
		check.Must(t, held.Held(), "lost with a majority of %d nodes: %v", n, held.Err())
		locktest.Release(t, held)
		fresh := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting)) // a program that starts now
		locktest.Release(t, locktest.Lock(t, fresh.Mutex("a")))
	})
}

// TestQuorumMajorityIsKilled: no majority of the nodes is left. A lease is held until its deadline
// and not a moment longer, and nobody gets one.
func TestQuorumMajorityIsKilled(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL)), help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL))
		held := help.InsistLock(t, c.Mutex("a").Lock)
		help.Turn(t, other.Mutex("b"))
		for _, node := range nodes[:(n+1)/2] {
			node.Kill()
		}
		deadline := held.Deadline()
		for {
			before := time.Now()
			if !held.Held() {
				break
			}
			if later := held.Deadline(); later.After(deadline) {
				deadline = later // an extend that was under way when they died
			}
			check.Must(t, !before.After(deadline), "held at %v, past the deadline %v", before, deadline)
			check.Refusal(t, "TryLock without a majority", check.ErrorOf(other.Mutex("a").TryLock(t.Context())), redlatch.ErrUnreachable)
		}
		lost := help.WantLost(t, held)
		if lost.At.Before(deadline) {
			t.Errorf("given up %v before the deadline", deadline.Sub(lost.At))
		}
		if _, err := other.Mutex("c").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context()); !errors.Is(err, redlatch.ErrUnreachable) {
			t.Errorf("Lock without a majority = %v, want ErrUnreachable", err)
		}
		nodes[0].Restart()
		locktest.Eventually(t, "an error that tells that a node has just restarted", func() bool {
			_, err := other.Mutex("c").TryLock(t.Context())
			return errors.Is(err, redlatch.ErrUnreachable) && strings.Contains(err.Error(), "does not vote")
		})
	})
}

// TestQuorumDeadline: the deadline counts from before the requests, also if the replies take long.
func TestQuorumDeadline(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	proxies, urls := wire.Links(t, nodes)
	o := help.Sluggish()
	o.Lock.TTL = locktest.Patience // of which a round has a third
	c := help.OpenURLs(t, urls, o)
	meet(t, c, nodes)
	for _, p := range proxies {
		p.Delay(wire.Replies, time.Hour)
	}
	result := help.GoLock(t.Context(), c.Mutex("a"))
	for i, node := range nodes {
		locktest.Eventually(t, fmt.Sprintf("the request at node %d", i+1), func() bool { return node.Do("EXISTS", locktest.StateKey("a")) == "1" })
	}
	arrived := time.Now()
	// More than what a deadline is earlier than the TTL, for clocks that differ: some 1 %.
	help.Rest(t.Context(), o.Lock.TTL/30)
	for _, p := range proxies {
		p.Heal()
	}
	l := help.Await(t, result)
	if late := l.Deadline().Sub(arrived.Add(o.Lock.TTL)); late > 0 {
		t.Errorf("the deadline is %v later than the TTL from when the requests had arrived", late)
	}
	locktest.Release(t, l)
}

// hasSlotAtAll waits until an owner has a slot at all nodes.
func hasSlotAtAll(t *testing.T, nodes []*redistest.Server, name, owner string) {
	t.Helper()
	locktest.Eventually(t, "a slot at all nodes", func() bool {
		return !slices.ContainsFunc(nodes, func(s *redistest.Server) bool {
			return s.Do("HEXISTS", help.InsideKey(name), owner) != "1"
		})
	})
}

// leaveSlot has an owner leave a slot pool at one node.
func leaveSlot(t *testing.T, node *redistest.Server, name, owner string) {
	t.Helper()
	set := check.Value(keys.Of("redlatch:", name)).OK(t)
	set.Epoch = keys.Epoch("redlatch:", "slotpool")
	over := wire.Dial(t, node.Addr())
	defer func() { _ = over.Close() }()
	r := over.Eval(locktest.Within(t, locktest.Patience), script.SlotPool.Quorum().Release(set, owner, "", true, time.Hour))[0]
	if was := script.Inside(r.Reply); r.Err != nil || !was {
		t.Fatalf("release of %s = %+v, want that it was inside", owner, r)
	}
}

// TestQuorumStaleNode: a node comes back with old data, as from a snapshot. It does not vote at
// once, and its numbers do not come back; also when another forgets everything at the same time,
// and with it the last token.
func TestQuorumStaleNode(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	nodes[0].Stop()
	nodes[0] = redistest.Start(t, "--dbfilename", "dump.rdb")
	c := help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL))
	help.Turn(t, c.Mutex("a"))
	nodes[0].Do("SAVE") // and nothing later is saved
	var last int64
	for range 10 {
		last = help.Turn(t, c.Mutex("a"))
	}
	nodes[0].Restart()
	check.Must(t, nodes[0].Do("GET", help.FenceKey("a")) != "", "the node has no old data, which this test is about")
	nodes[1].Kill()
	check.Error(t, "TryLock with one node that knows and one that may have forgotten", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrUnreachable)
	// Both are asked what they know: all others have to answer, since no majority of them votes.
	// The third may have missed the last ones.
	nodes[1].Restart()
	nodes[2].Do("HSET", "{redlatch:mutex}:epoch", "high", "1")
	nodes[2].Do("SET", help.FenceKey("a"), "1")
	locktest.Eventually(t, "they vote again", func() bool {
		l, err := c.Mutex("a").TryLock(t.Context())
		if err != nil {
			return false
		}
		token := l.Token()
		_ = l.Release(t.Context())
		if token > 0 && token <= last { // 0 if a busy machine has lost it by now
			t.Errorf("token %d after %d, want more", token, last)
		}
		return token > 0
	})
}

// TestQuorumExtendMends: a program that extends by itself has its lease at every node again, as one
// that the watchdog extends.
func TestQuorumExtendMends(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	l := locktest.Lock(t, help.OpenQuorum(t, nodes, help.Sluggish()).Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}))
	inside := func() bool { return help.InsideAt(nodes, "a", l.Owner()) == len(nodes) }
	locktest.Eventually(t, "the owner on all nodes", inside)
	// Its fence may be above the lease's token, if it voted last, and would keep the owner out.
	nodes[2].Do("DEL", locktest.StateKey("a"), help.FenceKey("a"))
	check.Nil(t, "Extend", l.Extend(t.Context()))
	locktest.Eventually(t, "the owner on all nodes again", inside)
	locktest.Release(t, l)
	locktest.Eventually(t, "the owner on no node", func() bool { return help.InsideAt(nodes, "a", l.Owner()) == 0 })
}

// TestQuorumManyContenders: fifty at once, of which each gets the lock, in a number of requests
// that stays bounded.
func TestQuorumManyContenders(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{4, 5}, func(t *testing.T, n int) {
		const contenders = 50
		nodes := help.StartNodes(t, n)
		ctx := locktest.Within(t, 2*locktest.Patience)
		var clients []*redlatch.Client
		for range 5 {
			clients = append(clients, help.OpenQuorum(t, nodes, help.Sluggish()))
		}
		locktest.Release(t, locktest.Lock(t, clients[0].Mutex("a")))
		nodes[0].Do("CONFIG", "RESETSTAT")
		var resource help.HighWater
		help.Together(contenders, func(i int) {
			l, err := clients[i%len(clients)].Mutex("a").Lock(ctx)
			if err != nil {
				t.Errorf("Lock = %v", err)
				return
			}
			if token := l.Token(); !l.Held() || !resource.Admit(token) {
				t.Errorf("inside with token %d, held %t: a later one was inside before", token, l.Held())
			}
			check.Nil(t, "Release", l.Release(ctx))
		})
		requests := float64(help.CommandCalls(nodes[0], "evalsha")) / contenders
		if requests > contenders { // as many as if each had tried once for every turn of another
			t.Errorf("%.1f requests per node for each acquisition, want %d at most", requests, contenders)
		}
	})
}

// TestQuorumGrantWhileDeaf: once any node had been heard, the loss of all subscriptions was not
// noticed, and a waiter slept for its heartbeat.
func TestQuorumGrantWhileDeaf(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	var conns []conn.Conn
	var proxies []*wire.Proxy
	for _, node := range nodes {
		p := wire.StartProxy(t, node)
		proxies = append(proxies, p)
		conns = append(conns, wire.Divided{Conn: wire.Dial(t, node.Addr()), Subscriptions: wire.Dial(t, p.Listen)})
	}
	c := check.Value(redlatch.NewQuorum(conns, help.Sluggish())).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	held := locktest.Lock(t, help.OpenQuorum(t, nodes, help.Sluggish()).Mutex("a"))
	locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, "a", held.Owner()) == len(nodes) })
	next := help.GoLock(locktest.Within(t, 2*locktest.Patience), c.Mutex("a"))
	for _, node := range nodes {
		locktest.InLine(t, node, "a", 1)
		locktest.Eventually(t, "the subscription is up", func() bool { return help.Hears(node, c) })
	}
	for i, p := range proxies {
		p.Stop()
		locktest.Eventually(t, "nobody listens", func() bool { return !help.Hears(nodes[i], c) })
	}
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, next))
}

// heldBack is a connection on which the first vote waits until the test lets it go, with what was
// sent along. It arrives even if the client no longer waits for it.
type heldBack struct {
	conn.Conn
	votes   atomic.Int64
	begun   chan struct{} // closed when the vote is held back
	letGo   chan struct{}
	heard   <-chan struct{} // the client has heard the votes of all nodes; set before the vote arrives
	arrived chan struct{}
}

func holdBack(over conn.Conn) *heldBack {
	return &heldBack{Conn: over, begun: make(chan struct{}), letGo: make(chan struct{}), arrived: make(chan struct{})}
}

func (h *heldBack) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if wire.Runs(calls, " vote") && h.votes.Add(1) == 1 {
		defer close(h.arrived)
		close(h.begun)
		<-h.letGo
		h.heard = ctx.Done() // the client ends the context of a vote when all nodes have answered
		ctx = context.WithoutCancel(ctx)
	}
	return h.Conn.Eval(ctx, calls...)
}

// TestQuorumVoteAfterTheRelease: a majority makes a lease, and the request to the last node is
// still on its way when the lease is released. It arrives after the release, and lets the owner in.
// That node kept the owner for the rest of the TTL.
func TestQuorumVoteAfterTheRelease(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		course := trial.NewCourse(t, n)
		last := course.Conns[n-1]
		for _, p := range trial.QuorumSubjects() {
			slow := holdBack(last)
			course.Conns[n-1] = slow
			c, _ := course.Client(t, help.Brisk(help.Lasting))
			got := check.Value(p.Try(locktest.Within(t, locktest.Patience), c, p.Kind)).From(t, p.Kind)
			help.Receive(t, slow.begun, "the request to the last node") // which a release may call off before it is sent
			check.Nil(t, p.Kind+": Release", got.Release(t.Context()))
			close(slow.letGo)
			help.Receive(t, slow.arrived, "the answer of the last node")
			locktest.Eventually(t, p.Kind+" is free at each node", func() bool {
				return !slices.ContainsFunc(course.Nodes, func(node *redistest.Server) bool {
					return node.Do("EXISTS", locktest.StateKey(p.Kind)) != "0"
				})
			})
		}
	})
}

// crossed is a connection over which the vote runs when the release has run, and is answered before
// that is.
type crossed struct {
	*heldBack
	released sync.Once // what comes after that is the clean-up
}

func (c *crossed) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := c.heldBack.Eval(ctx, calls...)
	if wire.Runs(calls, " release") {
		c.released.Do(func() {
			close(c.letGo)
			<-c.arrived
			<-c.heard
		})
	}
	return results
}

// TestQuorumVoteCrossesTheRelease: a node runs the release first and then the vote, and the client
// hears of the vote first. The owner must not stay at that node.
func TestQuorumVoteCrossesTheRelease(t *testing.T) {
	t.Parallel()
	course := trial.NewCourse(t, 3)
	cross := &crossed{heldBack: holdBack(course.Conns[2])}
	course.Conns[2] = cross
	c, _ := course.Client(t, help.Brisk(help.Lasting))
	l := check.Value(c.Mutex("a").TryLock(locktest.Within(t, locktest.Patience))).OK(t)
	locktest.Release(t, l)
	<-cross.arrived
	locktest.Eventually(t, "no node has the owner", func() bool { return help.InsideAt(course.Nodes, "a", l.Owner()) == 0 })
}

// TestQuorumVoteForAnotherSlot: the nodes offer several slots, so that all are asked again for one
// of them. The first request to the last node arrives when the lease is over.
func TestQuorumVoteForAnotherSlot(t *testing.T) {
	t.Parallel()
	course := trial.NewCourse(t, 3)
	ctx := locktest.Within(t, locktest.Patience)
	pool := func(c *redlatch.Client) *redlatch.SlotPool { return c.SlotPool("p", 8, redlatch.SlotOptions{}) }
	first := check.Value(pool(course.Far).TryAcquire(ctx)).OK(t)
	hasSlotAtAll(t, course.Nodes, "p", first.Owner())
	last := course.Nodes[2]
	leaveSlot(t, course.Nodes[1], "p", first.Owner()) // this node offers slot 0, and that before it slot 1
	leaveSlot(t, last, "p", first.Owner())
	slow := holdBack(course.Conns[2])
	course.Conns[2] = slow
	c, _ := course.Client(t, help.Brisk(help.Lasting))
	slot := check.Value(pool(c).TryAcquire(ctx)).OK(t)
	if id, err := slot.ID(); id != 1 || err != nil {
		t.Errorf("slot %d, %v, want 1", id, err)
	}
	hasSlotAtAll(t, []*redistest.Server{last}, "p", slot.Owner())
	locktest.Release(t, slot.Lease)
	close(slow.letGo)
	help.Receive(t, slow.arrived, "the answer of the last node")
	locktest.Eventually(t, "the last node is free", func() bool { return last.Do("EXISTS", locktest.StateKey("p")) == "0" })
}

// cutOff is a node that answers nothing.
type cutOff struct{ conn.Conn }

// Eval implements [conn.Conn].
func (cutOff) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	return wire.Failing(len(calls), errors.New("connection refused"))
}

// TestQuorumExtendToIsLate: a holder that cannot reach one node extends its lease for less than its
// TTL, and then for all of it. A copy of the first of these requests that is late at another node must
// not shorten the lease there: with the third one there would be a majority for another owner.
func TestQuorumExtendToIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		others, nodes := make([]conn.Conn, 3), make([]conn.Conn, 3)
		for i := range nodes {
			m := redlatchtest.InMemory(t)
			others[i] = &slowNode{Conn: m.Conn(), name: strconv.Itoa(i)}
			nodes[i] = &slowNode{Conn: m.Conn(), name: strconv.Itoa(i)}
		}
		open := func(over []conn.Conn) *redlatch.Client {
			return check.Value(redlatch.NewQuorum(over, redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}})).OK(t)
		}
		other := open(others)
		defer func() { check.Nil(t, "Close", locktest.CloseLeaving(other)) }()
		locktest.Release(t, check.Value(other.Mutex("a").TryLock(t.Context())).OK(t)) // the nodes vote
		late := &wire.Straggling{Conn: nodes[1]}
		nodes[1], nodes[2] = late, cutOff{nodes[2]}
		c := open(nodes)
		defer func() { check.Nil(t, "Close", locktest.CloseLeaving(c)) }()
		l := check.Value(c.Mutex("a").TryLock(t.Context())).OK(t)
		time.Sleep(ttl * 9 / 10)
		late.Keep("mutex confirm")
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), ttl/3))
		check.OK(t, "Extend", l.Extend(t.Context()))
		late.Deliver(t)
		time.Sleep(ttl / 2)
		check.That(t, l.Held(), "the lease is not held: %v", l.Err())
		if second, err := other.Mutex("a").TryLock(t.Context()); err == nil {
			t.Errorf("two hold at once, with the tokens %d and %d", l.Token(), second.Token())
			locktest.Release(t, second)
		}
		locktest.Release(t, l)
	})
}
