package process

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestCrashedWaiterOfAFreeLockCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed: an acquisition, a release or a try that meets its ticket drops it." The holder
// crashed as well, so that no request has met the ticket. The first try gets in, and not only the
// second; and a tool that listens to everything does not make the dead look alive.
func TestCrashedWaiterOfAFreeLockCostsNothing(t *testing.T) {
	t.Parallel()
	help.WithAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for kind, name := range kindtest.Kinds() {
			for _, way := range []string{"wait", "try"} {
				t.Run(way+" "+name, func(t *testing.T) {
					t.Parallel()
					holder, crash := wire.StartMortal(t, s, help.Lasts(help.Lasting))
					help.Enter(t, kindtest.Locks(holder, way)[kind])
					c, process := wire.StartMortal(t, s, help.Lasts(help.Lasting))
					waiter := kindtest.Locks(c, way)[kind]
					process.Die(t, s, c, help.GoEnter(context.Background(), waiter), waiter.Name)
					crash.Kill()
					s.Do("DEL", locktest.StateKey(waiter.Name), help.InsideKey(waiter.Name), help.BitsKey(waiter.Name)) // its lease is over
					l := kindtest.Locks(locktest.Open(t, s.URL(), help.Lasts(help.Lasting)), way)[kind]
					help.WantFree(t, l, way)
					help.WantNothingLeft(t, s, l.Name)
				})
			}
		}
	})
}

// TestCrashedWaiterOfAnotherKindCostsNothing: a name was refused to another kind for as long as
// tickets of the dead were in line for it, up to an hour.
func TestCrashedWaiterOfAnotherKindCostsNothing(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := help.LockOf(locktest.Open(t, s.URL(), help.Lasts(help.Lasting)), kind)
		c, process := wire.StartMortal(t, s, help.Lasts(help.Lasting))
		before := c.Mutex(l.Name).Lock // as which the name was used before
		if l.Kind == "mutex" {
			before = c.ReentrantMutex(l.Name).Lock
		}
		wait := func() (*redlatch.Lease, error) { return before(context.Background()) }
		help.Await(t, help.GoAcquire(wait))
		process.Die(t, s, c, help.GoAcquire(wait), l.Name)
		s.Do("DEL", locktest.StateKey(l.Name), help.InsideKey(l.Name)) // the lease is over
		lease := check.Value(l.Try(t.Context())).From(t, "try")
		locktest.Release(t, lease)
	})
}

// TestCrashedWaiterCostsThoseBehindItAHeartbeat: "A waiter that stands behind it already, where
// there is room for it and nothing else happens, finds out at its heartbeat."
func TestCrashedWaiterCostsThoseBehindItAHeartbeat(t *testing.T) {
	t.Parallel()
	const heartbeat = 500 * time.Millisecond
	help.WithAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for name, r := range worker.Rooms() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dead := r.Behind(t, s, name, time.Minute)
				next := help.GoEnter(t.Context(), r.Lock(locktest.Open(t, s.URL(), help.Beats(heartbeat)), name))
				locktest.InLine(t, s, name, 2)
				dead.Kill()
				help.AwaitGone(t, s, dead.Client)
				began := time.Now()
				lease := help.Await(t, next)
				help.WantCost(t, began, heartbeat)
				locktest.Release(t, lease)
			})
		}
	})
}

// TestCrashedWaiterInAClusterCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed". In a cluster it listens to a sharded channel, which the node of the name
// knows.
func TestCrashedWaiterInAClusterCostsNothing(t *testing.T) {
	t.Parallel()
	nodes := help.NeedShards(t, redistest.StartCluster(t, 3))
	const name = "rwmutex"
	node := nodes[nodes[0].Slot(locktest.StateKey(name))*3/16384]
	url := help.ClusterURL(nodes)
	held := check.Value(locktest.Open(t, url, help.Lasts(help.Lasting)).RWMutex(name).RLock(t.Context())).OK(t)
	dead := worker.Start(t, worker.Job{URL: url, Name: name, Kind: 2, TTL: help.Lasting, Heartbeat: time.Minute})
	listens := func() bool { return strings.Contains(node.Do("PUBSUB", "SHARDCHANNELS"), dead.Client) }
	locktest.Eventually(t, "a writer waits and listens", func() bool { return len(locktest.Line(node, name)) == 1 && listens() })
	dead.Kill()
	locktest.Eventually(t, "the node knows that it is gone", func() bool { return !listens() })
	began := time.Now()
	c := locktest.Open(t, url, help.Lasts(help.Lasting))
	for _, read := range []func(context.Context) (*redlatch.Lease, error){c.RWMutex(name).TryRLock, c.RWMutex(name).RLock} {
		lease := check.Value(read(locktest.Within(t, locktest.Patience))).From(t, "reading beside a reader")
		locktest.Release(t, lease)
	}
	help.WantCost(t, began, 0)
	locktest.Release(t, held)
}

// TestWaiterBelievedDeadIsPassedOver: one that is out of reach costs nothing once that is known,
// and has its old place when it is back.
func TestWaiterBelievedDeadIsPassedOver(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.InOrder(help.Sluggish()))
	held := locktest.Lock(t, c.Mutex("a"))
	stuck := worker.Start(t, worker.Job{URL: s.URL(), Name: "a", TTL: help.Lasting, Heartbeat: 100 * time.Millisecond})
	locktest.InLine(t, s, "a", 1)
	second := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 2)
	help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 3)
	behind := locktest.Line(s, "a")[2]

	stuck.Suspend()
	address := "{redlatch:" + stuck.Client + "}:grants"
	locktest.Eventually(t, "the time for which it is believed alive is over", func() bool {
		until := check.Value(strconv.Atoi(s.Do("ZSCORE", help.ClientsKey("a"), address))).OK(t)
		seconds, _, _ := strings.Cut(s.Do("TIME"), "\n")
		now, err := strconv.Atoi(seconds)
		return err == nil && now*1000 > until
	})
	locktest.Release(t, held)
	l := help.Await(t, second)
	stuck.Resume()
	locktest.Eventually(t, "it has its place back", func() bool {
		owners := locktest.Line(s, "a")
		return len(owners) == 2 && strings.Contains(owners[0], stuck.Client) && owners[1] == behind
	})
	locktest.Release(t, l)
	if got := stuck.Next(); !got.Held {
		t.Errorf("the worker reports %+v, want it to hold the lock", got)
	}
}

// TestSuspendedWaiterBesideAHolderCostsItsHorizon: "If the connection still seems open, all this
// begins three of the dead waiter's heartbeats later." Others fit beside the holder.
func TestSuspendedWaiterBesideAHolderCostsItsHorizon(t *testing.T) {
	t.Parallel()
	const heartbeat = 400 * time.Millisecond
	s := redistest.Start(t)
	for name, r := range worker.Rooms() {
		for way, wait := range map[string]func(*testing.T, kindtest.Lock) <-chan help.Outcome{
			"try":  help.TryUntil,
			"wait": func(t *testing.T, l kindtest.Lock) <-chan help.Outcome { return help.GoEnter(t.Context(), l) },
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				stuck := r.Behind(t, s, way+name, heartbeat)
				stuck.Suspend()
				began := time.Now()
				lease := help.Await(t, wait(t, r.Lock(locktest.Open(t, s.URL(), help.Beats(heartbeat)), way+name)))
				help.WantCost(t, began, 4*heartbeat)
				locktest.Release(t, lease)
				stuck.Kill()
			})
		}
	}
}
