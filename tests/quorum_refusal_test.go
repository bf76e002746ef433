package tests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestQuorumHeld: a lock is held and every node is well. With an even number of nodes, the refusals
// that decide were fewer than a majority, and the nodes that were not waited for counted as silent;
// so a held lock was "no answer", and late. The same happened on every quorum to a wait whose time
// was over.
func TestQuorumHeld(t *testing.T) {
	t.Parallel()
	ofSizes(t, []int{3, 4, 5, 6}, func(t *testing.T, n int) {
		nodes := startNodes(t, n)
		c := openQuorum(t, nodes, sluggish())
		o, seen := watched(sluggish())
		o.RequestTimeout = time.Hour // if a try waited for more than the refusals, it would do so for minutes
		other := openQuorum(t, nodes, o)
		held := lock(t, c.Mutex("a"))
		eventually(t, "the owner on all nodes", func() bool { return on(nodes, "a", held.Owner()) == n })
		for n := 0; n < 5 && !t.Failed(); n++ {
			err := awaitError(t, goTryLock(t.Context(), other.Mutex("a")))
			wantTaken(t, "TryLock", err)
			if !strings.Contains(err.Error(), held.Owner()) {
				t.Errorf("TryLock = %v, want an error that names the owner %s", err, held.Owner())
			}
			limit := timed{t.Context(), make(chan struct{})}
			waits := goLocks(t, limit, other.Mutex("a"), seen, 1)[0]
			close(limit.over)
			err = awaitError(t, waits)
			wantTaken(t, "Lock", err)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock = %v, want context.DeadlineExceeded", err)
			}
		}
		release(t, held)
	})
}

// TestQuorumHeldAtABareMajority: the lock is held at exactly as many nodes as it takes, and every
// node answers. Half of an even number of nodes decide that a client is not let in, and do not tell
// whether one owner is at a majority. The client took that for a tie, and went on trying, often for
// seconds; one in line asked the nodes several times a second.
func TestQuorumHeldAtABareMajority(t *testing.T) {
	t.Parallel()
	ofSizes(t, []int{4, 6}, func(t *testing.T, n int) {
		const tries = 20
		nodes := startNodes(t, n)
		proxies, urls := links(t, nodes)
		majority := n/2 + 1
		o := sluggish()
		o.RequestTimeout = 5 * time.Second
		c := openURLs(t, urls, o)
		release(t, lock(t, c.Mutex("first of all"))) // and all nodes vote
		for _, p := range proxies[majority:] {
			p.swallow(requests)
		}
		held := lock(t, c.Mutex("a"))
		if got := on(nodes, "a", held.Owner()); got != majority {
			t.Fatalf("the owner is at %d nodes, want %d", got, majority)
		}
		o, seen := watched(sluggish())
		m := openQuorum(t, nodes, o).Mutex("a")
		asked := func() (all int) {
			for _, node := range nodes {
				all += commandCalls(node, "evalsha")
			}
			return all
		}
		_, err := m.TryLock(t.Context())
		wantTaken(t, "TryLock", err)
		before := asked()
		for range tries {
			_, err := m.TryLock(t.Context())
			wantTaken(t, "TryLock", err)
		}
		// A vote at each node, and a word of leaving at those that let the client in. A busy machine
		// makes some answers late.
		if got := asked() - before; got > tries*3*n {
			t.Errorf("%d requests for %d tries at %d nodes, want %d at most", got, tries, n, tries*3*n)
		}
		before = asked()
		limit := timed{t.Context(), make(chan struct{})}
		waits := goLocks(t, limit, m, seen, 1)[0]
		rest(t.Context(), 2*time.Second) // in which it could ask too often
		close(limit.over)
		wantTaken(t, "Lock", awaitError(t, waits))
		if got := asked() - before; got > 8*n {
			t.Errorf("%d requests of a waiter for 2 s at %d nodes, with a heartbeat of a minute, want %d at most", got, n, 8*n)
		}
		for _, p := range proxies {
			p.heal() // else Close would wait for them
		}
	})
}

// wantTaken checks that an error says that a lock is held, and nothing of silent nodes.
func wantTaken(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrUnreachable) ||
		strings.Contains(err.Error(), "no answer") {
		t.Errorf("%s of a lock that is held = %v, want ErrTaken, and no node without an answer", call, err)
	}
}

// TestQuorumHeldBeyondAMinority: a lock is held and as many nodes hang as the quorum stands. It is
// taken, not out of reach; with one more that hangs, no client can tell any more.
func TestQuorumHeldBeyondAMinority(t *testing.T) {
	t.Parallel()
	ofSizes(t, []int{3, 4, 5}, func(t *testing.T, n int) {
		nodes := startNodes(t, n)
		c := openQuorum(t, nodes, sluggish())
		held := lock(t, c.Mutex("a"))
		eventually(t, "the owner on all nodes", func() bool { return on(nodes, "a", held.Owner()) == n })
		minority := (n - 1) / 2
		for _, node := range nodes[:minority] {
			node.Pause()
		}
		_, err := openQuorum(t, nodes, sluggish()).Mutex("a").TryLock(t.Context())
		wantTaken(t, "TryLock", err)
		other := openQuorum(t, nodes, hasty(lasting))
		nodes[minority].Pause()
		_, err = other.Mutex("a").TryLock(t.Context())
		if !errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock without a majority = %v, want ErrUnreachable alone", err)
		}
		for _, node := range nodes[:minority+1] {
			node.Resume()
		}
		release(t, held)
	})
}

// TestQuorumWaitEndsInARound: the time to wait is over while a round is under way. The nodes had no
// time to answer it, and that is no silence; what the round before came to stands.
func TestQuorumWaitEndsInARound(t *testing.T) {
	t.Parallel()
	ofSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		nodes := startNodes(t, n)
		proxies, urls := links(t, nodes)
		held := lock(t, openQuorum(t, nodes, sluggish()).Mutex("a"))
		eventually(t, "the owner on all nodes", func() bool { return on(nodes, "a", held.Owner()) == n })
		var armed atomic.Bool
		o := sluggish()
		o.Hook = func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventWait && armed.Load() {
				for _, p := range proxies {
					p.swallow(replies)
				}
			}
		}
		c := openURLs(t, urls, o)
		meet(t, c, nodes)
		armed.Store(true)
		limit := timed{t.Context(), make(chan struct{})}
		waits := goLock(limit, c.Mutex("a"))
		for _, node := range nodes { // so the second round has arrived
			queued(t, node, "a", 1)
		}
		close(limit.over)
		err := awaitError(t, waits)
		for _, p := range proxies {
			p.heal()
		}
		wantTaken(t, "Lock", err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v, want context.DeadlineExceeded", err)
		}
		release(t, held)
	})
}

// TestQuorumErrorTellsOfEachNode: the error of an acquisition is all that there is to read at
// night. It tells of each node how it stands: that it let the owner in, refused it, hangs, is away,
// or does not vote.
func TestQuorumErrorTellsOfEachNode(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 5)
	proxies, urls := links(t, nodes)
	c := openURLs(t, urls, hasty(lasting))
	insistRelease(t, insistLock(t, c.Mutex("b").Lock)) // the nodes have the right to vote
	nodes[1].Do("SET", stateKey("a"), "somebody", "PX", "3600000")
	proxies[2].swallow(requests)
	nodes[3].Kill()
	nodes[4].Restart()
	eventually(t, "an error that tells how each node stood", func() bool { // to a machine that pauses, nodes are silent
		_, err := c.Mutex("a").TryLock(t.Context())
		if !errors.Is(err, redlatch.ErrUnreachable) {
			t.Fatalf("TryLock = %v, want ErrUnreachable", err)
		}
		return toldOf(t, err, proxies,
			" let it in",
			" refused it, held by somebody for another ",
			"no answer ", // within 400ms; or in time, if its connection notices that first
			": ",
			" does not vote",
		)
	})
}

// toldOf reports whether an error has these words of the nodes behind the proxies, each after the
// address of its node. It must be one line.
func toldOf(t *testing.T, err error, proxies []*proxy, words ...string) bool {
	t.Helper()
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("an error of several lines: %q", err)
	}
	_, nodes, _ := strings.Cut(err.Error(), ": ") // after the list of all addresses
	for i, want := range words {
		told := slices.ContainsFunc(strings.Split(nodes, "; "), func(told string) bool {
			_, about, ok := strings.Cut(told, proxies[i].Listen)
			return ok && strings.Contains(about, want)
		})
		if !told {
			t.Logf("the error is %q, want %q of %s", err, want, proxies[i].Listen)
			return false
		}
	}
	return true
}

// TestQuorumExtendTellsOfEachNode: an extend that no majority answered says which node did what.
func TestQuorumExtendTellsOfEachNode(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	proxies, urls := links(t, nodes)
	c := openURLs(t, urls, hasty(lasting))
	held := insistLock(t, c.Mutex("a").Lock)
	eventually(t, "the owner on all nodes", func() bool { return on(nodes, "a", held.Owner()) == 3 })
	proxies[1].swallow(requests)
	nodes[2].Kill()
	eventually(t, "an error that tells how each node stood", func() bool {
		err := held.Extend(t.Context())
		if !errors.Is(err, redlatch.ErrUnreachable) {
			t.Fatalf("Extend = %v, want ErrUnreachable", err)
		}
		return toldOf(t, err, proxies, " said yes", ": ", ": ")
	})
}

// TestQuorumOfServersThatCannotVote has nodes whose scripts cannot tell which process they run in,
// as those of some hosted services, and nodes that turn out to be clusters.
func TestQuorumOfServersThatCannotVote(t *testing.T) {
	t.Parallel()
	var mute, clusters []string
	for range 3 {
		s := redistest.Start(t)
		s.AllowUser("locker", "on", ">secret", "~*", "&*", "+@all", "-info")
		mute = append(mute, "redis://locker:secret@"+s.Addr())
		clusters = append(clusters, redistest.StartCluster(t, 1)[0].URL())
	}
	c, err := redlatch.OpenQuorum(t.Context(), mute, redlatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	l, err := c.Mutex("a").TryLock(t.Context())
	if err == nil || errors.Is(err, redlatch.ErrTaken) || !strings.Contains(err.Error(), "such a server cannot be a node of a quorum") {
		t.Errorf("TryLock = %v, %v, want an error that says that the server cannot be a node", l, err)
	}
	if c, err := redlatch.OpenQuorum(t.Context(), clusters, redlatch.Options{}); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("OpenQuorum over clusters = %v, %v, want ErrInvalid", c, err)
	}
}
