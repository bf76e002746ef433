package promises

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestLeaseThatTheNewMasterKnowsGoesOn: a failover that lost nothing is not seen by whoever holds
// the lock, and the line is kept.
func TestLeaseThatTheNewMasterKnowsGoesOn(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	holder, waiter := locktest.Open(t, g.URL(), help.Brisk(help.Lasting)), locktest.Open(t, g.URL(), help.Brisk(help.Lasting))
	l := locktest.Lock(t, holder.Mutex("a"))
	next := help.GoLock(locktest.Within(t, locktest.Patience), waiter.Mutex("a"))
	locktest.Eventually(t, "the waiter is in line", func() bool { return g.Master().Do("ZCARD", help.QueueKey("a")) == "1" })
	master := g.Master()
	for _, node := range g.Nodes { // WAIT would be for the writes of its own connection
		locktest.Eventually(t, "lease and ticket on all nodes", func() bool {
			return node.Do("GET", locktest.StateKey("a")) == l.Owner() && node.Do("ZCARD", help.QueueKey("a")) == "1"
		})
	}
	master.Kill()
	g.AwaitPromotion(master)
	locktest.Eventually(t, "an extend by the new master", func() bool {
		err := l.Extend(t.Context())
		check.Must(t, !errors.Is(err, redlatch.ErrNotHeld), "Extend = %v", err)
		return err == nil
	})
	token := l.Token()
	if token == 0 || l.Context().Err() != nil {
		t.Fatalf("the lease is lost: %v", l.Err())
	}
	locktest.Release(t, l)
	help.WantNext(t, next, token)
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
	o := help.Brisk(help.Lasting)
	o.Lock.Replicas = 1
	hasty := locktest.Open(t, master.URL(), o)
	o.RequestTimeout = locktest.Patience // a third of which the replica has for its acknowledgement
	c, other := locktest.Open(t, master.URL(), o), locktest.Open(t, master.URL(), o)

	first := locktest.Lock(t, c.Mutex("a"))
	next := help.GoLock(locktest.Within(t, locktest.Patience), other.Mutex("a"))
	locktest.Eventually(t, "a waiter", func() bool { return master.Do("ZCARD", help.QueueKey("a")) == "1" })
	locktest.Release(t, first)
	second := help.Await(t, next)
	check.Equal(t, replica.Do("GET", locktest.StateKey("a")), second.Owner(), "the replica has the owner")
	locktest.Release(t, second)

	replica.Pause()
	_, err := hasty.Mutex("a").TryLock(t.Context())
	if !errors.Is(err, redlatch.ErrNotReplicated) {
		t.Errorf("TryLock while the replica hangs = %v, want ErrNotReplicated", err)
	}
	replica.Resume()
	help.AwaitFree(t, master, "a")
	if _, err := c.Mutex("a").With(redlatch.LockOptions{Replicas: -2}).TryLock(t.Context()); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("TryLock with -2 replicas = %v, want ErrInvalid", err)
	}
}
