package tests

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// failoverTTL outlasts a failover.
const failoverTTL = 15 * time.Second

// TestFailoverWhileManyContend: the master is replaced, by order and by a crash, while 32 workers
// of 4 clients take turns. All of them get their turns, one at a time as far as the tokens tell,
// and tokens go on growing.
func TestFailoverWhileManyContend(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*redistest.Sentinels){
		"by order": func(g *redistest.Sentinels) { g.Failover() },
		"by a crash": func(g *redistest.Sentinels) {
			master := g.Master()
			master.Kill()
			g.AwaitPromotion(master)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinels(t)
			ctx := within(t, 2*patience)
			u := &turns{over: make(chan struct{})}
			for range 4 {
				c := open(t, g.URL(), brisk(failoverTTL))
				for range 8 {
					u.take(t, ctx, c.Mutex("a"))
				}
			}
			u.more(t, 200)
			replace(g)
			u.more(t, 200)
			u.end()
		})
	}
}

// TestLeaseThatTheNewMasterKnowsGoesOn: a failover that lost nothing is not seen by whoever holds
// the lock, and the line is kept.
func TestLeaseThatTheNewMasterKnowsGoesOn(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	holder, waiter := open(t, g.URL(), brisk(lasting)), open(t, g.URL(), brisk(lasting))
	l := lock(t, holder.Mutex("a"))
	next := goLock(within(t, patience), waiter.Mutex("a"))
	eventually(t, "the waiter is in line", func() bool { return g.Master().Do("ZCARD", queueKey("a")) == "1" })
	master := g.Master()
	for _, node := range g.Nodes { // WAIT would be for the writes of its own connection
		eventually(t, "lease and ticket on all nodes", func() bool {
			return node.Do("GET", stateKey("a")) == l.Owner() && node.Do("ZCARD", queueKey("a")) == "1"
		})
	}
	master.Kill()
	g.AwaitPromotion(master)
	eventually(t, "an extend by the new master", func() bool {
		err := l.Extend(t.Context())
		if errors.Is(err, redlatch.ErrNotHeld) {
			t.Fatalf("Extend = %v", err)
		}
		return err == nil
	})
	token := l.Token()
	if token == 0 || l.Context().Err() != nil {
		t.Fatalf("the lease is lost: %v", l.Err())
	}
	release(t, l)
	successor := await(t, next)
	if successor.Token() <= token {
		t.Errorf("token %d after %d, want more", successor.Token(), token)
	}
	release(t, successor)
}

// TestLeaseThatTheNewMasterDoesNotKnowIsLost: what was not replicated is gone. Its holder is told
// by its next extend, and its token is older than that of whoever came meanwhile.
func TestLeaseThatTheNewMasterDoesNotKnowIsLost(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	holder, other := open(t, g.URL(), brisk(lasting)), open(t, g.URL(), brisk(lasting))
	release(t, lock(t, other.Mutex("b"))) // its connection leads to the old master
	master := g.Master()
	for _, node := range g.Nodes[1:] {
		node.Pause()
	}
	master.Do("CLIENT", "KILL", "TYPE", "replica") // else the replicas would read what comes now when they wake
	l := lock(t, holder.Mutex("a"))
	token := l.Token()
	master.Kill()
	for _, node := range g.Nodes[1:] {
		node.Resume()
	}
	g.AwaitPromotion(master)
	var next *redlatch.Lease
	eventually(t, "an acquisition from the new master", func() bool {
		got, err := other.Mutex("a").TryLock(within(t, patience))
		next = got
		return err == nil
	})
	if next.Token() <= token {
		t.Errorf("token %d after %d, want more", next.Token(), token)
	}
	eventually(t, "an extend tells the old holder", func() bool { return errors.Is(l.Extend(t.Context()), redlatch.ErrNotHeld) })
	if lost := wantLost(t, l); lost.Reason == redlatch.LossNotRenewed {
		t.Errorf("the lease was lost by its deadline: %v", lost)
	}
	_ = next.Release(t.Context()) // the sentinels may have changed their minds once more
}

// TestAcquisitionWaitsForReplicas: with LockOptions.Replicas, a lock that is granted, at once or
// out of the line, is on the replicas; and where they do not acknowledge it, it is given back and
// the error says so.
func TestAcquisitionWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	replica.AwaitInfo("replication", "master_link_status:up")
	o := brisk(lasting)
	o.Lock.Replicas = 1
	hasty := open(t, master.URL(), o)
	o.RequestTimeout = patience // a third of which the replica has for its acknowledgement
	c, other := open(t, master.URL(), o), open(t, master.URL(), o)

	first := lock(t, c.Mutex("a"))
	next := goLock(within(t, patience), other.Mutex("a"))
	eventually(t, "a waiter", func() bool { return master.Do("ZCARD", queueKey("a")) == "1" })
	release(t, first)
	second := await(t, next)
	if got := replica.Do("GET", stateKey("a")); got != second.Owner() {
		t.Errorf("the replica has the owner %q, want %q", got, second.Owner())
	}
	release(t, second)

	replica.Pause()
	_, err := hasty.Mutex("a").TryLock(t.Context())
	if !errors.Is(err, redlatch.ErrNotReplicated) {
		t.Errorf("TryLock while the replica hangs = %v, want ErrNotReplicated", err)
	}
	replica.Resume()
	awaitFree(t, master, "a")
	if _, err := c.Mutex("a").With(redlatch.LockOptions{Replicas: -2}).TryLock(t.Context()); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("TryLock with -2 replicas = %v, want ErrInvalid", err)
	}
}

// TestLeaseThatReplicasAcknowledgedLateIsWhole: Redis has each acquisition for its TTL from the moment
// at which the wait for replicas began. The lease had its own from the moment before the acquisition,
// and only what the replicas left of that.
func TestLeaseThatReplicasAcknowledgedLateIsWhole(t *testing.T) {
	t.Parallel()
	const ttl, delay = 6 * time.Second, 6 * time.Second * 3 / 4
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	slow := startProxy(t, master)
	host, port, _ := strings.Cut(slow.Listen, ":")
	replica := redistest.Start(t, "--replicaof", host, port)
	replica.AwaitInfo("replication", "master_link_status:up")
	o := redlatch.Options{RequestTimeout: patience, Lock: redlatch.LockOptions{TTL: ttl, Replicas: 1, Renew: redlatch.Off}}
	c := open(t, master.URL(), o)
	release(t, lock(t, c.Mutex("a"))) // so that the server knows the scripts
	slow.delay(replies, delay)
	began := time.Now()
	l := lock(t, c.Mutex("a"))
	slow.heal()
	// A lease that counts from before the acquisition ends ttl after that.
	if length := l.Deadline().Sub(began); length < delay+ttl/2 {
		t.Errorf("the lease ends %v after its acquisition began, which waited %v for replicas, want another %v", length, delay, ttl)
	}
	release(t, l)
}
