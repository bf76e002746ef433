package deployments

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// What a quorum sends to its nodes.

// TestQuorumCostOfACycle: a vote and a release are all that a node is sent for a lock that no other
// wants, with what the client sends until it is closed. The votes of the slower nodes come when the
// lock is released already, and each of these cost two or three more releases at every node.
func TestQuorumCostOfACycle(t *testing.T) {
	t.Parallel()
	for _, goroutines := range []int{1, 32} {
		t.Run(strconv.Itoa(goroutines), func(t *testing.T) {
			t.Parallel()
			const n = 5
			turns := 640 / goroutines
			nodes := help.StartNodes(t, n)
			help.Cycles(t, help.OpenQuorum(t, nodes, help.Sluggish()), goroutines, 1) // the nodes vote, and know scripts and names
			sent := func() (all int) {
				for _, node := range nodes {
					all += help.CommandCalls(node, "evalsha")
				}
				return all
			}
			c := help.OpenQuorum(t, nodes, help.Sluggish())
			before := sent()
			help.Cycles(t, c, goroutines, turns)
			if err := c.Close(); err != nil { // after which nothing is left to clean up
				t.Errorf("Close = %v", err)
			}
			got := float64(sent()-before) / float64(n*goroutines*turns)
			t.Logf("%.2f commands at each node for a cycle", got)
			// 2, and now and then a vote that comes after the release, or numbers that differ after
			// one.
			check.That(t, got <= 2.3, "%.2f commands at each node for a cycle, want a vote and a release", got)
		})
	}
}

// TestQuorumRenewalsGoTogether: the renewals of leases that were acquired at about the same time
// leave together, to each node by itself.
func TestQuorumRenewalsGoTogether(t *testing.T) {
	t.Parallel()
	const leases = 200
	o := help.Sluggish()
	o.Lock.TTL = 9 * time.Second
	nodes := help.StartNodes(t, 5)
	var over []*wire.Counting
	var conns []conn.Conn
	for _, node := range nodes {
		k := &wire.Counting{Conn: wire.Dial(t, node.Addr())}
		t.Cleanup(func() { _ = k.Close() })
		over, conns = append(over, k), append(conns, k)
	}
	c := check.Value(redlatch.NewQuorum(conns, o)).OK(t)
	t.Cleanup(func() { _ = locktest.CloseLeaving(c) })
	help.Together(leases, func(i int) {
		check.Nil(t, "Lock", check.ErrorOf(c.Mutex(strconv.Itoa(i)).Lock(t.Context())))
	})
	sent := func(i int) int { return help.CommandCalls(nodes[i], "evalsha") }
	var before, batches []int
	for i, k := range over {
		before, batches = append(before, sent(i)), append(batches, k.Count("mutex confirm"))
	}
	for i, k := range over {
		var renewals int
		locktest.Eventually(t, "the leases were extended", func() bool {
			renewals = sent(i) - before[i]
			return renewals >= leases
		})
		batches := k.Count("mutex confirm") - batches[i]
		t.Logf("node %d: %d renewals in %d pipelines", i, renewals, batches)
		check.That(t, batches <= renewals/4, "node %d: %d renewals in %d pipelines, want fewer", i, renewals, batches)
	}
}

// TestQuorumFullPool: a node that refuses a slot names one of the holders, and does not read all of them for
// that.
func TestQuorumFullPool(t *testing.T) {
	t.Parallel()
	const slots = 40
	nodes := help.StartNodes(t, 3)
	pool := help.OpenQuorum(t, nodes, help.Sluggish()).SlotPool("p", slots, redlatch.SlotOptions{})
	for range slots {
		check.Value(pool.Acquire(t.Context())).OK(t)
	}
	reads := func() (n int) {
		for _, s := range nodes {
			n += help.CommandCalls(s, "hget")
		}
		return n
	}
	before := reads()
	check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
	n := reads() - before
	check.That(t, n < slots, "a refusal by 3 nodes takes %d reads of holders", n)
}

// slowNode is a node of a quorum, in memory, that answers after a while.
type slowNode struct {
	conn.Conn
	name string
	by   atomic.Int64 // a time
}

// Target implements [conn.Conn].
func (n *slowNode) Target() conn.Target { return conn.Target{Addr: n.name} }

// Eval implements [conn.Conn].
func (n *slowNode) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	help.Rest(ctx, time.Duration(n.by.Load()))
	return n.Conn.Eval(ctx, calls...)
}

// TestQuorumTryEndsInTime: nodes are slow, and no two of them have a common slot to give, so a try asks
// again and again. It asks nothing more once RequestTimeout has passed.
func TestQuorumTryEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience, slots = 3 * time.Second, 24
		nodes, slow := make([]conn.Conn, 3), make([]*slowNode, 3)
		for i := range nodes {
			slow[i] = &slowNode{Conn: redlatchtest.InMemory(t).Conn(), name: strconv.Itoa(i)}
			nodes[i] = slow[i]
		}
		c := check.Value(redlatch.NewQuorum(nodes, redlatch.Options{RequestTimeout: patience, Lock: redlatch.LockOptions{TTL: help.Lasting}})).OK(t)
		defer func() { check.Nil(t, "Close", locktest.CloseLeaving(c)) }()
		pool := c.SlotPool("s", slots, redlatch.SlotOptions{})
		var held []*redlatch.Slot
		for range slots {
			held = append(held, check.Value(pool.Acquire(t.Context())).OK(t))
		}
		synctest.Wait()
		for _, l := range held {
			slot := check.Value(l.ID()).OK(t)
			node := slow[slot%3] // which alone gives it again
			for _, command := range [][]string{
				{"ZREM", locktest.StateKey("s"), l.Owner()},
				{"HDEL", help.InsideKey("s"), l.Owner()},
				{"SETBIT", help.BitsKey("s"), strconv.Itoa(slot), "0"},
			} {
				r := node.Conn.Eval(t.Context(), conn.Call{Script: wire.CommandOf, Args: command})[0]
				check.Must(t, r.Err == nil, "%q: %v", command, r.Err)
			}
		}
		for _, n := range slow {
			n.by.Store(int64(patience / 4))
		}
		start := time.Now()
		_, err := pool.TryAcquire(t.Context())
		check.Error(t, "TryAcquire", err, redlatch.ErrTaken)
		took := time.Since(start)
		check.That(t, took <= patience*4/3 && took >= patience, "TryAcquire took %v, want %v and a third at most", took, patience)
		for _, n := range slow {
			n.by.Store(0)
		}
	})
}
