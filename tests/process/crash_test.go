package process

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestKilledHolderCostsItsRemainingTTL: an unlock that never comes must not leave waiters asleep
// (redisson#3730, #3829, #763).
func TestKilledHolderCostsItsRemainingTTL(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := redistest.Start(t)
	holder := worker.Start(t, worker.Job{URL: s.URL(), Name: "a", TTL: ttl, Heartbeat: time.Minute})
	token := holder.Next().Token
	// The heartbeat and its own TTL are long, so it is the holder's TTL that wakes the waiter.
	result := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	holder.Kill()
	help.WantNext(t, result, token)
}

// TestSuspendedWaiterCostsItsHorizon has the first in line be granted without being able to use it:
// its connection is open, so publishing to it succeeds, and it never acts.
func TestSuspendedWaiterCostsItsHorizon(t *testing.T) {
	t.Parallel()
	const heartbeat = 300 * time.Millisecond
	s := redistest.Start(t)
	o := help.InOrder(help.Sluggish())
	o.Heartbeat = heartbeat // the next in line looks as often
	c := locktest.Open(t, s.URL(), o)
	held := locktest.Lock(t, c.Mutex("a"))
	stuck := worker.Start(t, worker.Job{URL: s.URL(), Name: "a", TTL: help.Lasting, Heartbeat: heartbeat})
	locktest.Eventually(t, "the worker waits and listens", func() bool {
		return len(locktest.Line(s, "a")) == 1 && strings.Contains(s.Do("PUBSUB", "CHANNELS"), stuck.Client)
	})
	result := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 2)
	stuck.Suspend()
	locktest.Release(t, held)
	// The time for which it is believed alive may be over by the time we look, but not its TTL of an hour.
	if owner := s.Do("GET", locktest.StateKey("a")); strings.Contains(owner, stuck.Client) {
		if left, _ := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a"))); time.Duration(left)*time.Millisecond > 3*heartbeat {
			t.Errorf("granted for %d ms to a client that is believed alive for %v at most", left, 3*heartbeat)
		}
	}
	l := help.Await(t, result)
	token := l.Token()
	if err := l.Extend(t.Context()); err != nil { // what was granted lasts as long as the client is believed alive, and this machine may be busy
		t.Fatalf("Extend = %v", err)
	}

	stuck.Resume()
	locktest.InLine(t, s, "a", 1) // it does not believe in that grant, but stands in line again
	locktest.Release(t, l)
	if got := stuck.Next(); !got.Held || got.Token <= token {
		t.Errorf("the worker reports %+v, want it to hold the lock with a token above %d", got, token)
	}
}

// TestWaiterBelievedDeadIsPassedOver: one that is out of reach costs nothing once that is known,
// and has its old place when it is back.
func TestWaiterBelievedDeadIsPassedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.InOrder(help.Sluggish()))
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

// TestKilledWaiterIsSkippedByAUserWhoMayNotAsk: a user with the rights that an earlier version
// needed may not run PUBSUB. The scripts then rely on what PUBLISH counts, and a waiter that was
// killed costs nothing either.
func TestKilledWaiterIsSkippedByAUserWhoMayNotAsk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.AllowUser("redlatch", append(append([]string{"on", ">" + help.Secret}, access.Rules("redlatch:", false)...), "-pubsub")...)
	url := fmt.Sprintf("redis://redlatch:%s@%s", help.Secret, s.Addr())
	c := locktest.Open(t, url, help.InOrder(help.Sluggish()))
	held := locktest.Lock(t, c.Mutex("a"))
	dead := worker.Start(t, worker.Job{URL: url, Name: "a", TTL: help.Lasting, Heartbeat: time.Minute})
	locktest.InLine(t, s, "a", 1)
	result := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 2)
	dead.Kill()
	locktest.Eventually(t, "the server sees the connection closed", func() bool {
		return !strings.Contains(s.Do("PUBSUB", "CHANNELS"), dead.Client)
	})
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, result))
	help.AwaitFree(t, s, "a")
}
