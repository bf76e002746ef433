package conntest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// replicated returns the connection as one that can wait for replicas, or ends the test.
func replicated(t *testing.T, c conn.Conn) conn.Replicated {
	t.Helper()
	r, ok := c.(conn.Replicated)
	if !ok {
		t.Skip("the adapter does not implement conn.Replicated")
	}
	return r
}

func (s suite) evalReplicatedCountsReplicas(t *testing.T) {
	master, adapter := s.start(t, "--repl-diskless-sync-delay", "0")
	c := replicated(t, adapter)
	script := unseen(count.Text)
	var replica *redistest.Server
	for want := range 2 {
		r, acks := c.EvalReplicated(within(t, patience), conn.Call{Script: script, Keys: []string{"k"}}, want, patience)
		check.Must(t, r.Err == nil && r.Reply.Int == int64(want+1) && acks == want, "with %d replicas: %+v and %d acknowledgements, want %d and as many", want, r, acks, want+1)
		if want == 0 {
			host, port, _ := net.SplitHostPort(master.Addr())
			replica = redistest.Start(t, "--replicaof", host, port)
			replica.AwaitInfo("replication", "master_link_status:up")
		}
	}
	r, acks := c.EvalReplicated(within(t, patience), conn.Call{Script: script, Keys: []string{"k"}}, 2, 50*time.Millisecond)
	check.That(t, r.Err == nil && acks == 1, "asking for one more than there is: %+v and %d acknowledgements, want one and no error", r, acks)
	r, _ = c.EvalReplicated(within(t, patience), conn.Call{Script: conn.NewScript("bad", "return redis.call('LPUSH', KEYS[1], 'v')"), Keys: []string{"k"}}, 1, patience)
	check.That(t, r.Err != nil, "of a script that fails: %+v, want its error", r)

	replica.Pause()
	r, acks = c.EvalReplicated(within(t, patience), conn.Call{Script: script, Keys: []string{"k"}}, 1, 50*time.Millisecond)
	check.That(t, r.Err == nil && acks == 0, "with a replica that hangs: %+v and %d acknowledgements, want none: WAIT goes over the connection of the script", r, acks)
}

func (c cluster) evalReplicatedFindsTheNode(t *testing.T) {
	co := replicated(t, c.connect(t))
	for i := range 20 { // on all three nodes
		call := conn.Call{Script: count, Keys: []string{fmt.Sprint("replicated", i)}}
		r, acks := co.EvalReplicated(within(t, patience), call, 0, patience)
		check.That(t, r.Err == nil && r.Reply.Int == 1 && acks == 0, "key %d: %+v and %d acknowledgements, want 1 and none", i, r, acks)
	}

	// WAIT at another node would count the replicas of that one.
	const calls = 20
	_, home, _ := c.owner("replicated")
	before := waits(t, home)
	var all sync.WaitGroup // a wait that is in vain takes Redis 100 ms
	for range calls {
		all.Go(func() {
			r, _ := co.EvalReplicated(within(t, patience), conn.Call{Script: echo, Keys: []string{"replicated"}, Args: []string{"x"}}, 1, time.Millisecond)
			check.Nil(t, "EvalReplicated", r.Err)
		})
	}
	all.Wait()
	n := waits(t, home) - before
	check.That(t, n >= calls, "of %d waits, %d came to the node that has the key", calls, n)
}

// waits returns how often a node was asked to wait for replicas.
func waits(t *testing.T, node *redistest.Server) (n int) {
	t.Helper()
	_, stats, found := strings.Cut(node.Do("INFO", "commandstats"), "cmdstat_wait:calls=")
	if found {
		stats, _, _ = strings.Cut(stats, ",")
		n = check.Value(strconv.Atoi(stats)).OK(t)
	}
	return n
}

// evalReplicatedFollowsASlotThatMoves makes the call go elsewhere: first only for now (ASK), then
// for good (MOVED).
func (c cluster) evalReplicatedFollowsASlotThatMoves(t *testing.T) {
	co := replicated(t, c.connect(t))
	const key = "replicated:moving"
	c.moveAndBack(key, func(when string, n int64) {
		t.Helper()
		call := conn.Call{Script: count, Keys: []string{key}}
		r, _ := co.EvalReplicated(within(t, patience), call, 0, patience)
		check.That(t, r.Err == nil && r.Reply.Int == n, "%s: %+v, want %d", when, r, n)
	})
}
