package tests

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/access"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestKilledWaiterIsSkipped: dead waiters stay in Redisson's fair queue for minutes, and the others
// spin meanwhile (redisson#5019).
func TestKilledWaiterIsSkipped(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	wantKilledWaiterSkipped(t, s, s.URL())
}

// wantKilledWaiterSkipped has a waiter be killed, and the lock be handed to the one behind it by
// the next release.
func wantKilledWaiterSkipped(t *testing.T, s *redistest.Server, url string) {
	t.Helper()
	c := open(t, url, inOrder(sluggish()))
	held := lock(t, c.Mutex("a"))
	dead := start(t, job{URL: url, Name: "a", TTL: lasting, Heartbeat: time.Minute})
	queued(t, s, "a", 1)
	result := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 2)
	dead.kill()
	eventually(t, "the server sees the connection closed", func() bool {
		return !strings.Contains(s.Do("PUBSUB", "CHANNELS"), dead.client)
	})
	release(t, held)
	release(t, await(t, result))
	awaitFree(t, s, "a")
}

// TestKilledHolderCostsItsRemainingTTL: an unlock that never comes must not leave waiters asleep
// (redisson#3730, #3829, #763).
func TestKilledHolderCostsItsRemainingTTL(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	s := redistest.Start(t)
	holder := start(t, job{URL: s.URL(), Name: "a", TTL: ttl, Heartbeat: time.Minute})
	token := holder.next().Token
	// The heartbeat and its own TTL are long, so it is the holder's TTL that wakes the waiter.
	result := goLock(t.Context(), open(t, s.URL(), sluggish()).Mutex("a"))
	queued(t, s, "a", 1)
	holder.kill()
	l := await(t, result)
	if l.Token() <= token {
		t.Errorf("token %d after %d, want more", l.Token(), token)
	}
	release(t, l)
}

// TestSuspendedHolderWakesWithoutItsLock: the process that a collector's pause or a laptop's lid
// stops in the middle of its work.
func TestSuspendedHolderWakesWithoutItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// The TTL outlasts a pause of the machine: the holder has the lock when it tells its token.
	holder := start(t, job{URL: s.URL(), Name: "a", TTL: 3 * time.Second, Heartbeat: time.Minute})
	var resource highWater
	old := holder.next()
	if !old.Held || !resource.admit(old.Token) {
		t.Fatalf("the holder reports %+v, want it to hold the lock", old)
	}
	result := goLock(t.Context(), open(t, s.URL(), sluggish()).Mutex("a"))
	queued(t, s, "a", 1)
	holder.suspend()
	l := await(t, result)
	if l.Token() <= old.Token || !resource.admit(l.Token()) {
		t.Errorf("the next token is %d after %d, want more, and admitted", l.Token(), old.Token)
	}

	holder.ask()
	holder.resume()
	woken := holder.next()
	if woken.Token != 0 || woken.Held || !woken.Done || !woken.Lost {
		t.Errorf("after waking it reports %+v, want token 0, not held, context done, lost", woken)
	}
	if resource.admit(old.Token) {
		t.Errorf("the resource took a write with the old token %d after one with %d", old.Token, l.Token())
	}
	release(t, l)
}

// TestSuspendedWaiterCostsItsHorizon has the first in line be granted without being able to use it:
// its connection is open, so publishing to it succeeds, and it never acts.
func TestSuspendedWaiterCostsItsHorizon(t *testing.T) {
	t.Parallel()
	const heartbeat = 300 * time.Millisecond
	s := redistest.Start(t)
	o := inOrder(sluggish())
	o.Heartbeat = heartbeat // the next in line looks as often
	c := open(t, s.URL(), o)
	held := lock(t, c.Mutex("a"))
	stuck := start(t, job{URL: s.URL(), Name: "a", TTL: lasting, Heartbeat: heartbeat})
	eventually(t, "the worker waits and listens", func() bool {
		return len(line(s, "a")) == 1 && strings.Contains(s.Do("PUBSUB", "CHANNELS"), stuck.client)
	})
	result := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 2)
	stuck.suspend()
	release(t, held)
	// The time for which it is believed alive may be over by the time we look, but not its TTL of an hour.
	if owner := s.Do("GET", stateKey("a")); strings.Contains(owner, stuck.client) {
		if left, _ := strconv.Atoi(s.Do("PTTL", stateKey("a"))); time.Duration(left)*time.Millisecond > 3*heartbeat {
			t.Errorf("granted for %d ms to a client that is believed alive for %v at most", left, 3*heartbeat)
		}
	}
	l := await(t, result)
	token := l.Token()
	if err := l.Extend(t.Context()); err != nil { // what was granted lasts as long as the client is believed alive, and this machine may be busy
		t.Fatalf("Extend = %v", err)
	}

	stuck.resume()
	queued(t, s, "a", 1) // it does not believe in that grant, but stands in line again
	release(t, l)
	if got := stuck.next(); !got.Held || got.Token <= token {
		t.Errorf("the worker reports %+v, want it to hold the lock with a token above %d", got, token)
	}
}

// TestWaiterBelievedDeadIsPassedOver: one that is out of reach costs nothing once that is known,
// and has its old place when it is back.
func TestWaiterBelievedDeadIsPassedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), inOrder(sluggish()))
	held := lock(t, c.Mutex("a"))
	stuck := start(t, job{URL: s.URL(), Name: "a", TTL: lasting, Heartbeat: 100 * time.Millisecond})
	queued(t, s, "a", 1)
	second := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 2)
	goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 3)
	behind := line(s, "a")[2]

	stuck.suspend()
	address := "{redlatch:" + stuck.client + "}:grants"
	eventually(t, "the time for which it is believed alive is over", func() bool {
		until, err := strconv.Atoi(s.Do("ZSCORE", clientsKey("a"), address))
		if err != nil {
			t.Fatal(err)
		}
		seconds, _, _ := strings.Cut(s.Do("TIME"), "\n")
		now, err := strconv.Atoi(seconds)
		return err == nil && now*1000 > until
	})
	release(t, held)
	l := await(t, second)
	stuck.resume()
	eventually(t, "it has its place back", func() bool {
		owners := line(s, "a")
		return len(owners) == 2 && strings.Contains(owners[0], stuck.client) && owners[1] == behind
	})
	release(t, l)
	if got := stuck.next(); !got.Held {
		t.Errorf("the worker reports %+v, want it to hold the lock", got)
	}
}

// TestKilledWaiterIsSkippedByAUserWhoMayNotAsk: a user with the rights that an earlier version
// needed may not run PUBSUB. The scripts then rely on what PUBLISH counts, and a waiter that was
// killed costs nothing either.
func TestKilledWaiterIsSkippedByAUserWhoMayNotAsk(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.AllowUser("redlatch", append(append([]string{"on", ">" + secret}, access.Rules("redlatch:", false)...), "-pubsub")...)
	wantKilledWaiterSkipped(t, s, fmt.Sprintf("redis://redlatch:%s@%s", secret, s.Addr()))
}
