package faults

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestSilentConnectionFailsNoCall has all connections of a client die in silence. It resent into
// the same hole for 12 s, and each call of that time failed, though a new connection would have
// been answered. Every kind of call must come through within its own patience.
func TestSilentConnectionFailsNoCall(t *testing.T) {
	t.Parallel()
	wire.EachWay(t, func(t *testing.T, open func(*wire.NAT, redlatch.Options) *redlatch.Client) {
		// A call of each kind ends with ErrUnreachable when RequestTimeout has passed, so one that
		// succeeds was in time.
		o := redlatch.Options{RequestTimeout: 6 * time.Second, Lock: redlatch.LockOptions{TTL: help.Lasting}}
		for name, call := range map[string]func(c *redlatch.Client, held *redlatch.Lease) error{
			"TryLock": func(c *redlatch.Client, _ *redlatch.Lease) error {
				_, err := c.Mutex("a").TryLock(t.Context())
				return err
			},
			"Extend":  func(_ *redlatch.Client, held *redlatch.Lease) error { return held.Extend(t.Context()) },
			"Release": func(_ *redlatch.Client, held *redlatch.Lease) error { return held.Release(t.Context()) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := wire.StartNAT(t, redistest.Start(t))
				c := open(n, o)
				held := locktest.Lock(t, c.Mutex("held"))
				n.Forget()
				if err := call(c, held); err != nil {
					t.Errorf("over a connection that died: %v", err)
				}
				locktest.Release(t, held)
			})
		}
	})
}

// TestSilentConnectionLosesNoLease: a lease of nine seconds outlives the connection that extended
// it. It was lost.
func TestSilentConnectionLosesNoLease(t *testing.T) {
	t.Parallel()
	holdThrough(t, 9*time.Second, func(t *testing.T, n *wire.NAT, _ *redlatch.Client, seen *help.Events) {
		n.Forget()
		seen.Await(t, redlatch.EventExtendFailed, "a", 0)
	})
}

// TestSecondSilentConnectionLosesNoLease: the connection that took the place of a dead one dies,
// too, sooner than one may be given up again. A longer lease outlives that.
func TestSecondSilentConnectionLosesNoLease(t *testing.T) {
	t.Parallel()
	holdThrough(t, 10*time.Second, func(t *testing.T, n *wire.NAT, c *redlatch.Client, _ *help.Events) {
		n.Forget()
		locktest.Release(t, locktest.Lock(t, c.Mutex("b"))) // over the connection that takes its place
		n.Forget()
	})
}

// holdThrough holds a lease on "a" with this TTL, each way, through a fault of its connection. The
// lease must be extended after the fault, and held until it is released.
func holdThrough(t *testing.T, ttl time.Duration, fault func(t *testing.T, n *wire.NAT, c *redlatch.Client, seen *help.Events)) {
	wire.EachWay(t, func(t *testing.T, open func(*wire.NAT, redlatch.Options) *redlatch.Client) {
		s := redistest.Start(t)
		n := wire.StartNAT(t, s)
		var seen help.Events
		c := open(n, redlatch.Options{Hook: seen.Hook, Lock: redlatch.LockOptions{TTL: ttl}})
		l := locktest.Lock(t, c.Mutex("a"))
		fault(t, n, c, &seen)
		seen.Await(t, redlatch.EventExtended, "a", 0)
		check.That(t, l.Held(), "the lease is not held: %v", l.Err())
		locktest.Release(t, l)
	})
}

// TestSilentSubscriptionIsReplaced: a client that only listens sends nothing that could go
// unanswered. It finds out by its own checks, within twice RequestTimeout.
func TestSilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := wire.StartNAT(t, s)
	c := locktest.Open(t, n.URL(), sluggishBut(3*time.Second))
	help.Hearing(t, s, c)
	id := strings.TrimSpace(s.Do("CLIENT", "LIST", "TYPE", "pubsub"))
	n.Forget()
	began, late := time.Now(), measureLateness(t)
	locktest.Eventually(t, "another subscription", func() bool {
		list := s.Do("CLIENT", "LIST", "TYPE", "pubsub")
		return strings.Count(list, "\n") > 0 && strings.Count(list, "id=") > strings.Count(id, "id=")
	})
	if took, late := time.Since(began), late(); took-late > 8*time.Second { // and the time to subscribe
		t.Errorf("a subscription over a connection that died was replaced after %v, of which the machine was late by %v, want twice 3s at most", took, late)
	}
}

// measureLateness begins to measure by how much timers are late on a machine that is busy or pauses.
// The function that it returns ends that, and returns the sum.
func measureLateness(t *testing.T) (end func() time.Duration) {
	const step = 10 * time.Millisecond
	over, sum := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var late time.Duration
		for last := time.Now(); ; {
			select {
			case <-over:
				sum <- late
				return
			case <-time.After(step):
			}
			now := time.Now()
			late += now.Sub(last) - step
			last = now
		}
	}()
	return sync.OnceValue(func() time.Duration {
		close(over)
		return <-sum
	})
}

// sluggishBut is sluggish with a RequestTimeout.
func sluggishBut(d time.Duration) redlatch.Options {
	o := help.Sluggish()
	o.RequestTimeout = d
	return o
}

// TestSilentConnectionOfGoRedis: the connections are the program's own, and die by its ReadTimeout.
// Requests that are resent after that use new ones, and a lease outlives a pool that died.
func TestSilentConnectionOfGoRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := wire.StartNAT(t, s)
	rdb := redis.NewClient(&redis.Options{Addr: n.Addr().String(), ReadTimeout: 500 * time.Millisecond, PoolSize: 3, MinIdleConns: 3})
	t.Cleanup(func() { _ = rdb.Close() })
	var seen help.Events
	c := wire.Wrap(t, redlatchgoredis.New(rdb), redlatch.Options{Hook: seen.Hook, Lock: redlatch.LockOptions{TTL: 9 * time.Second}})
	held := locktest.Lock(t, c.Mutex("held"))
	locktest.Eventually(t, "a full pool", func() bool { return rdb.PoolStats().TotalConns == 3 })
	extended := len(seen.Of(redlatch.EventExtended, "held"))
	n.Forget()
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	seen.Await(t, redlatch.EventExtended, "held", extended)
	locktest.Release(t, held)
}

// TestFrozenServerSeesNoStorm: to a client, a server that hangs looks like a connection that died.
// A new connection does not help then, and if clients made one after the other, it would find them
// all when it goes on. The lease survives, as it did.
func TestFrozenServerSeesNoStorm(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]func(*redistest.Server) (thaw func()){
		"Stopped": func(s *redistest.Server) func() {
			s.Pause()
			return s.Resume
		},
		"Paused": func(s *redistest.Server) func() { // which still answers who connects
			s.Do("CLIENT", "PAUSE", "60000", "WRITE")
			return func() { s.Do("CLIENT", "UNPAUSE") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "Paused" {
				redistest.Needs(t, "pause of writes alone")
			}
			s := redistest.Start(t)
			c := locktest.Open(t, s.URL(), redlatch.Options{RequestTimeout: 1200 * time.Millisecond, Lock: redlatch.LockOptions{TTL: help.Lasting}})
			l := locktest.Lock(t, c.Mutex("a"))
			connections := func() int {
				for field := range strings.Lines(s.Do("INFO", "stats")) {
					if n, ok := strings.CutPrefix(strings.TrimSpace(field), "total_connections_received:"); ok {
						count, _ := strconv.Atoi(n)
						return count
					}
				}
				t.Fatal("INFO stats counts no connections")
				return 0
			}
			before := connections()
			thaw := freeze(s)
			const calls = 3
			began := time.Now()
			for range calls {
				if err := help.AwaitError(t, help.GoTryLock(t.Context(), c.Mutex("b"))); !errors.Is(err, redlatch.ErrUnreachable) {
					t.Errorf("TryLock at a server that hangs = %v", err)
				}
			}
			hung := time.Since(began)
			thaw()
			locktest.Eventually(t, "an extend", func() bool { return !errors.Is(l.Extend(t.Context()), redlatch.ErrUnreachable) })
			check.That(t, l.Held(), "the lease was lost: %v", l.Err())
			help.InsistRelease(t, l)
			const own = 3 // of this test's commands
			// Connections are given up once in a RequestTimeout at most, and the client has one or two.
			if n, most := connections()-before-own, 2*(1+int(hung/(1200*time.Millisecond))); n > most { // each call has three requests or more
				t.Errorf("%d connections were made while the server hung for %v, want %d at most", n, hung, most)
			}
		})
	}
}
