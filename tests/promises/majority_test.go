package promises

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestQuorumAdopt: over a quorum, with a node that is gone since the lease was detached. All kinds
// that a quorum has.
func TestQuorumAdopt(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting)), help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
		var texts []string
		var tokens []int64
		for _, l := range kindtest.Locks(c, "") {
			if l.Kind == "mutex" || l.Kind == "slotpool" || l.Kind == "election" {
				lease := help.Enter(t, l)
				tokens = append(tokens, lease.Token())
				texts = append(texts, help.Detach(t, lease))
			}
		}
		texts = append(texts, help.DetachRun(t, trial.Hourly(c, "job")))
		check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
		nodes[0].Kill()
		for i, text := range texts {
			l := help.Adopt(t, other, text)
			if i < len(tokens) && l.Token() != tokens[i] {
				t.Errorf("%s: token %d, want %d", l.Name(), l.Token(), tokens[i])
			}
			help.WantOver(t, other, text)
			check.Nil(t, fmt.Sprintf("%s: Extend", l.Name()), l.Extend(t.Context()))
			if i == 0 {
				check.Error(t, "TryLock beside a lease that was adopted", check.ErrorOf(other.Mutex(l.Name()).TryLock(t.Context())), redlatch.ErrTaken)
			}
			check.Nil(t, fmt.Sprintf("%s: Release", l.Name()), l.Release(t.Context()))
			if i < len(tokens) {
				locktest.Eventually(t, l.Name()+" is free", func() bool { return nodes[1].Do("EXISTS", locktest.StateKey(l.Name())) == "0" })
			}
		}
	})
}

// TestQuorumForgetfulNode: a lease is held by a bare majority, and a node of that restarts empty.
// It must not vote for anybody else, until the lease can no longer be held; and then it does.
func TestQuorumForgetfulNode(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		proxies, urls := wire.Links(t, nodes)
		c, other := help.OpenURLs(t, urls, help.Hasty(help.QuorumTTL)), help.OpenQuorum(t, nodes, help.Hasty(help.QuorumTTL))
		before := help.Turn(t, other.Mutex("a")) // the nodes have the right to vote
		minority := (n - 1) / 2
		for _, p := range proxies[n-minority:] {
			p.Swallow(wire.Requests)
		}
		held := help.InsistLock(t, c.Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}).Lock)
		token := held.Token()
		check.That(t, token > before, "token %d after %d, want more", token, before)
		nodes[0].Restart() // nor do those know of the lease that it was swallowed of
		for held.Held() {
			if l, err := other.Mutex("a").TryLock(t.Context()); err == nil && held.Held() {
				t.Fatalf("token %d is held beside token %d", l.Token(), token)
			} else if err == nil {
				_ = l.Release(t.Context())
			}
		}
		if second := help.Turn(t, other.Mutex("a")); second <= token {
			t.Errorf("token %d after %d, want more", second, token)
		}
		locktest.Eventually(t, "the node that restarted has the right to vote", func() bool {
			help.Turn(t, other.Mutex("a"))
			return nodes[0].Do("HEXISTS", "{redlatch:mutex}:epoch", "run") == "1"
		})
		for _, node := range nodes[1 : 1+minority] {
			node.Kill()
		}
		help.Turn(t, other.Mutex("a"))
	})
}

// TestQuorumWritesTheTokenBack: two nodes count differently, and the smaller one must know the
// token before it is used, since the other may not be there next time.
func TestQuorumWritesTheTokenBack(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	proxies, urls := wire.Links(t, nodes)
	c := help.OpenURLs(t, urls, help.Hasty(help.Lasting))
	help.InsistRelease(t, help.InsistLock(t, c.Mutex("a").Lock))
	// Numbers begin at the clock, in microseconds: an hour is ahead of what any of the nodes would
	// begin with.
	ahead := time.Now().Add(time.Hour).UnixMicro()
	nodes[0].Do("SET", help.FenceKey("a"), strconv.FormatInt(ahead, 10))
	proxies[2].Swallow(wire.Requests)
	first := help.InsistLock(t, c.Mutex("a").Lock)
	token := first.Token()
	// One more than the node ahead had, or a few more if an attempt failed.
	if token <= ahead || token > ahead+100 || help.LastNumber(t, nodes[1], "a") < token {
		t.Errorf("token %d, and %d at the node that was behind, want one just above %d at both", token, help.LastNumber(t, nodes[1], "a"), ahead)
	}
	help.InsistRelease(t, first)
	proxies[2].Heal()
	proxies[0].Swallow(wire.Requests)
	second := help.InsistLock(t, c.Mutex("a").Lock)
	check.That(t, second.Token() > token, "token %d after %d, want more", second.Token(), token)
	help.InsistRelease(t, second)
	proxies[0].Heal() // else Close would wait for it
}

// TestQuorumHeldBeyondAMinority: a lock is held and as many nodes hang as the quorum stands. It is
// taken, not out of reach; with one more that hangs, no client can tell any more.
func TestQuorumHeldBeyondAMinority(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c := help.OpenQuorum(t, nodes, help.Sluggish())
		held := locktest.Lock(t, c.Mutex("a"))
		locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, "a", held.Owner()) == n })
		minority := (n - 1) / 2
		for _, node := range nodes[:minority] {
			node.Pause()
		}
		_, err := help.OpenQuorum(t, nodes, help.Sluggish()).Mutex("a").TryLock(t.Context())
		help.WantTaken(t, "TryLock", err)
		other := help.OpenQuorum(t, nodes, help.Hasty(help.Lasting))
		nodes[minority].Pause()
		_, err = other.Mutex("a").TryLock(t.Context())
		if !errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock without a majority = %v, want ErrUnreachable alone", err)
		}
		for _, node := range nodes[:minority+1] {
			node.Resume()
		}
		locktest.Release(t, held)
	})
}

// TestQuorumMutex: the life of a lease on all nodes.
func TestQuorumMutex(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c, other := help.OpenQuorum(t, nodes, help.Sluggish()), help.OpenQuorum(t, nodes, help.Sluggish())
		first := locktest.Lock(t, c.Mutex("a"))
		locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, "a", first.Owner()) == n })
		check.Error(t, "TryLock of a mutex that is held", check.ErrorOf(other.Mutex("a").TryLock(t.Context())), redlatch.ErrTaken)
		check.Nil(t, "Extend", first.Extend(t.Context()))
		info, err := other.Inspect(t.Context(), "a")
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Owner != first.Owner() || info.Holders[0].Token != first.Token() {
			t.Errorf("Inspect = %+v, %v, want the holder with its token", info, err)
		}
		next := help.GoLock(locktest.Within(t, locktest.Patience), other.Mutex("a"))
		locktest.Eventually(t, "a waiter", func() bool { return nodes[0].Do("ZCARD", help.QueueKey("a")) == "1" })
		token := first.Token()
		locktest.Release(t, first)
		help.WantNext(t, next, token)
		for _, node := range nodes {
			locktest.Eventually(t, "nothing left but the token", func() bool {
				return node.Do("EXISTS", locktest.StateKey("a"), help.QueueKey("a"), help.ClientsKey("a")) == "0"
			})
		}
	})
}
