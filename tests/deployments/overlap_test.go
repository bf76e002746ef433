package deployments

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// runsVariable says how often each case below is run. The table in docs/guarantees.md is what `make
// overlaps` prints.
const runsVariable = "REDLATCH_TESTS_RUNS"

// overlapTTL is that of the leases below: long enough to see an overlap.
const overlapTTL = time.Second

// failing is a deployment with two clients, and how it fails.
type failing = func(t *testing.T) (old, new *redlatch.Client, fail func())

// failure is one way in which a deployment fails, while somebody holds a lock.
type failure struct {
	deployment, fault string
	excluded          bool // two must not hold at once
	run               failing
}

// moreFailures are those that only some systems can have.
var moreFailures []failure

// one is one server that fails.
func one(start func(testing.TB, ...string) *redistest.Server, fail func(*redistest.Server), args ...string) failing {
	return func(t *testing.T) (old, new *redlatch.Client, f func()) {
		s := start(t, args...)
		return locktest.Open(t, s.URL(), help.Hasty(overlapTTL)), locktest.Open(t, s.URL(), help.Hasty(overlapTTL)), func() { fail(s) }
	}
}

// quorum is n nodes of which some fail.
func quorum(n int, fail func([]*redistest.Server)) failing {
	return func(t *testing.T) (old, new *redlatch.Client, f func()) {
		nodes := help.StartNodes(t, n)
		return help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), func() { fail(nodes) }
	}
}

// each fails some nodes in the same way.
func each(nodes []*redistest.Server, fail func(*redistest.Server)) {
	for _, node := range nodes {
		fail(node)
	}
}

func failures() []failure {
	restart := (*redistest.Server).Restart
	return append([]failure{
		{"one server", "killed, restarted with its append-only file", true, one(redistest.Start, restart, "--appendonly", "yes", "--appendfsync", "always")},
		{"one server", "killed, restarted without data", false, one(redistest.Start, restart)},
		{"one server", "FLUSHALL", false, one(redistest.Start, func(s *redistest.Server) { s.Do("FLUSHALL") })},
		{"master and replica", "promoted before it had the lock", false, replicated(false)},
		{"master and replica, `Replicas: 1`", "promoted; the lock was acknowledged", true, replicated(true)},
		{"quorum of 5", "2 nodes killed", true, quorum(5, func(nodes []*redistest.Server) { each(nodes[:2], (*redistest.Server).Kill) })},
		{"quorum of 5", "2 nodes restarted without data", true, quorum(5, func(nodes []*redistest.Server) { each(nodes[:2], restart) })},
		{"quorum of 5", "4 nodes restarted without data", true, quorum(5, func(nodes []*redistest.Server) { each(nodes[1:], restart) })},
		{"quorum of 3", "all nodes restarted without data, within a TTL", false, quorum(3, func(nodes []*redistest.Server) { each(nodes, restart) })},
		{"quorum of 5", "all keys of 3 nodes deleted by hand, but not their right to vote", false, quorum(5, func(nodes []*redistest.Server) {
			each(nodes[:3], func(node *redistest.Server) { node.Do("DEL", locktest.StateKey("a"), help.FenceKey("a")) })
		})},
	}, moreFailures...)
}

// replicated is a master that is cut off from its replica, or not, and then stopped while the
// replica is promoted. The clients reach whichever is the master.
func replicated(acknowledged bool) failing {
	return func(t *testing.T) (old, new *redlatch.Client, fail func()) {
		master := redistest.Start(t)
		link := wire.StartProxy(t, master)
		host, port, _ := strings.Cut(link.Listen, ":")
		replica := redistest.Start(t)
		replica.Do("REPLICAOF", host, port)
		replica.AwaitInfo("replication", "master_link_status:up") // the master says online before that
		front := wire.StartProxy(t, master)
		o := help.Hasty(overlapTTL)
		if acknowledged {
			o.Lock.Replicas = 1
		}
		old, new = locktest.Open(t, front.URL(), o), locktest.Open(t, "redis://"+replica.Addr(), help.Hasty(overlapTTL))
		if !acknowledged {
			link.Swallow(wire.Replies) // what the master writes from now on does not arrive
		}
		return old, new, func() {
			master.Kill()
			replica.Do("REPLICAOF", "NO", "ONE")
		}
	}
}

// TestOverlaps has one client hold a lock while its deployment fails, and another acquire it as
// soon as it can. It counts the runs in which both held at once, and the writes of the old holder
// after the first write of the new one: all of them, and those that a resource took which looks at
// tokens.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	runs := 1
	if text := os.Getenv(runsVariable); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", runsVariable, err)
		}
	}
	for _, f := range failures() {
		t.Run(f.deployment+", "+f.fault, func(t *testing.T) {
			t.Parallel()
			overlaps, stale, taken := 0, 0, 0
			for range runs {
				late, accepted := overlap(t, f)
				if late > 0 {
					overlaps++
				}
				stale, taken = stale+late, taken+accepted
			}
			t.Logf("| %s | %s | %d of %d | %d | %d |", f.deployment, f.fault, overlaps, runs, stale, taken)
			check.That(t, taken <= 0, "%d writes were taken after a newer one, want none with the token", taken)
			check.That(t, !f.excluded || overlaps <= 0, "two held at once in %d of %d runs, want none", overlaps, runs)
		})
	}
}

// overlap is one run. It returns how many writes came from the old holder, while its lease said
// that it was held, after the first of the new one; and how many of these a resource took that
// looks at tokens.
func overlap(t *testing.T, f failure) (late, accepted int) {
	old, next, fail := f.run(t)
	var resource help.HighWater
	var begun atomic.Bool
	held, err := old.Mutex("a").Lock(t.Context())
	for end := time.Now().Add(locktest.Patience); err != nil && time.Now().Before(end); {
		held, err = old.Mutex("a").Lock(t.Context()) // on a busy machine a replica may be late, and so may a reply
	}
	check.Must(t, err == nil, "Lock = %v", err)
	token := held.Token()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for held.Held() {
			after := begun.Load()
			took := resource.Admit(token)
			if after && held.Held() {
				late++
				if took {
					accepted++
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	fail()
	for end := time.Now().Add(2 * overlapTTL); time.Now().Before(end); {
		l, err := next.Mutex("a").TryLock(t.Context())
		if err != nil {
			continue
		}
		if l.Token() <= token && l.Held() {
			t.Errorf("token %d after %d, want more", l.Token(), token)
		}
		if resource.Admit(l.Token()) && held.Held() {
			begun.Store(true)
		}
		retry.Sleep(l.Context(), overlapTTL/2)
		_ = l.Release(context.Background())
		break
	}
	_ = held.Release(context.Background())
	<-done
	return late, accepted
}
