package deployments

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestQuorumRollingRestart: every node restarts empty, one after the other, under one lease: it is
// taken in again by those that forgot it. A node rests for a TTL before it votes again, by its own
// clock, so the clocks of these nodes are set ahead when they rest.
func TestQuorumRollingRestart(t *testing.T) {
	t.Parallel()
	nodes := []*redistest.Server{redistest.StartWithClock(t), redistest.StartWithClock(t), redistest.StartWithClock(t)}
	c, other := help.OpenQuorum(t, nodes, help.Sluggish()), help.OpenQuorum(t, nodes, help.Sluggish())
	locktest.Lock(t, other.Mutex("first of all"))
	ctx, cancel := context.WithCancel(t.Context())
	waits := help.GoLock(ctx, c.Mutex("first of all")) // so the client listens
	term := check.Value(c.Election("e").Campaign(t.Context(), "one")).OK(t)
	token := term.Token()
	// A word that a lease was taken by force has its client extend it at once, which shows that it
	// was not.
	extend := func() {
		for _, node := range nodes {
			node.Do("PUBLISH", help.GrantsChannel(c), "revoke\t"+term.Owner()+"\tnot a note")
		}
		check.Must(t, term.Held(), "lost: %v", term.Err())
	}
	ahead := time.Duration(0)
	for _, node := range slices.Concat(nodes, nodes[:1]) {
		node.Restart()
		locktest.Eventually(t, "the node that restarted rests", func() bool {
			extend()
			return node.Do("HEXISTS", "{redlatch:election}:epoch", "resting") == "1"
		})
		ahead += 2 * help.Lasting
		node.StepClock(ahead)
		locktest.Eventually(t, "the leader on the node that restarted", func() bool {
			extend()
			return node.Do("HEXISTS", help.InsideKey("e"), term.Owner()) == "1"
		})
	}
	cancel()
	if o := help.Receive(t, waits, "the waiter"); o.Err == nil { // the nodes forgot that lock, too
		_ = o.Lease.Release(t.Context()) // and may have forgotten it again since
	}
	check.That(t, term.Token() == token, "token %d, want %d as before", term.Token(), token)
	check.Nil(t, "Release", term.Release(t.Context()))
	for _, node := range nodes {
		locktest.Eventually(t, "no owner left inside", func() bool { return node.Do("EXISTS", locktest.StateKey("e"), help.InsideKey("e")) == "0" })
	}
	next, err := c.Election("e").Campaign(t.Context(), "two")
	check.Must(t, err == nil && next.Token() > token, "Campaign = %v with token %d, want more than %d", err, next.Token(), token)
	locktest.Release(t, next)
}

func init() {
	step := func(d time.Duration) func(*redistest.Server) {
		return func(s *redistest.Server) { s.StepClock(d) }
	}
	moreFailures = append(moreFailures,
		failure{"one server", "clock set ahead by a minute", false, one(redistest.StartWithClock, step(time.Minute))},
		failure{"one server", "clock set back by a minute", true, one(redistest.StartWithClock, step(-time.Minute))},
		failure{"quorum of 5", "clock of one node set ahead by a minute", false, func(t *testing.T) (old, new *redlatch.Client, f func()) {
			odd := redistest.StartWithClock(t)
			nodes := append(help.StartNodes(t, 4), odd)
			return help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), func() { odd.StepClock(time.Minute) }
		}},
	)
}
