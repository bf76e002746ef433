package deployments

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
			ctx := locktest.Within(t, 2*locktest.Patience)
			u := &help.Turns{Over: make(chan struct{})}
			for range 4 {
				c := locktest.Open(t, g.URL(), help.Brisk(help.FailoverTTL))
				for range 8 {
					u.Take(t, ctx, c.Mutex("a"))
				}
			}
			u.More(t, 200)
			replace(g)
			u.More(t, 200)
			u.End()
		})
	}
}

// TestLeaseThatTheNewMasterDoesNotKnowIsLost: what was not replicated is gone. Its holder is told
// by its next extend, and its token is older than that of whoever came meanwhile.
func TestLeaseThatTheNewMasterDoesNotKnowIsLost(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	holder, other := locktest.Open(t, g.URL(), help.Brisk(help.Lasting)), locktest.Open(t, g.URL(), help.Brisk(help.Lasting))
	locktest.Release(t, locktest.Lock(t, other.Mutex("b"))) // its connection leads to the old master
	master := g.Master()
	for _, node := range g.Nodes[1:] {
		node.Pause()
	}
	master.Do("CLIENT", "KILL", "TYPE", "replica") // else the replicas would read what comes now when they wake
	l := locktest.Lock(t, holder.Mutex("a"))
	token := l.Token()
	master.Kill()
	for _, node := range g.Nodes[1:] {
		node.Resume()
	}
	g.AwaitPromotion(master)
	var next *redlatch.Lease
	locktest.Eventually(t, "an acquisition from the new master", func() bool {
		got, err := other.Mutex("a").TryLock(locktest.Within(t, locktest.Patience))
		next = got
		return err == nil
	})
	check.That(t, next.Token() > token, "token %d after %d, want more", next.Token(), token)
	locktest.Eventually(t, "an extend tells the old holder", func() bool { return errors.Is(l.Extend(t.Context()), redlatch.ErrNotHeld) })
	if lost := help.WantLost(t, l); lost.Reason == redlatch.LossNotRenewed {
		t.Errorf("the lease was lost by its deadline: %v", lost)
	}
	_ = next.Release(t.Context()) // the sentinels may have changed their minds once more
}
