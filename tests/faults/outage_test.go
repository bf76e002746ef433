package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// restless are options with which an outage is noticed soon, and does not end a lease.
func restless() (redlatch.Options, *help.Events) {
	o := help.Brisk(help.Lasting)
	o.RequestTimeout = time.Second
	return help.Watched(o)
}

// wantOutages checks how often a waiter was told of an outage, and of its end.
func wantOutages(t *testing.T, seen *help.Events, name string, begun, ended int) {
	t.Helper()
	began, over := seen.Of(redlatch.EventUnreachable, name), seen.Of(redlatch.EventReachable, name)
	check.Must(t, len(began) == begun && len(over) == ended, "%d outages and %d ends were told, want %d and %d", len(began), len(over), begun, ended)
	for _, e := range began {
		check.That(t, errors.Is(e.Err, redlatch.ErrUnreachable) && e.Waited > 0, "%+v, want what is wrong", e)
	}
	for _, e := range over {
		check.That(t, e.Err == nil && e.Waited > 0, "%+v, want no error", e)
	}
}

// TestWaiterThatEndsInAnOutage tells no end of it but its own.
func TestWaiterThatEndsInAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := restless()
		c := s.Client(t, o)
		held := locktest.Lock(t, s.Client(t, help.Brisk(help.Lasting)).Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := help.GoLock(ctx, c.Mutex("a")), help.GoLock(ctx, c.Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", 1)
		s.Hang()
		seen.Await(t, redlatch.EventUnreachable, "a", 0)
		cancel()
		for _, waits := range []<-chan help.Outcome{first, second} {
			check.Error(t, "Lock", help.AwaitError(t, waits), context.Canceled)
		}
		wantOutages(t, seen, "a", 1, 0) // one of the two stood in line
		s.Resume()
		locktest.Release(t, held)
	})
}

// TestQuorumWaiterTellsAnOutage: a majority of the nodes is gone, and comes back.
func TestQuorumWaiterTellsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		course := memory.NewCourse(t, 3)
		o, seen := restless()
		c, links := course.Client(t, o)
		held := locktest.Lock(t, course.Far.Mutex("a"))
		waits := help.GoLock(t.Context(), c.Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", 0)
		links[0].Harm(wire.Swallowed, wire.Every)
		time.Sleep(5 * o.RequestTimeout)
		wantOutages(t, seen, "a", 0, 0) // two of three do
		began := time.Now()
		links[1].Harm(wire.Swallowed, wire.Every)
		seen.Await(t, redlatch.EventUnreachable, "a", 0)
		if took := time.Since(began); took < o.RequestTimeout {
			t.Errorf("the outage was told after %v, want %v at least", took, o.RequestTimeout)
		}
		time.Sleep(5 * o.RequestTimeout)
		links[0].Harm(wire.Swallowed, wire.None)
		links[1].Harm(wire.Swallowed, wire.None)
		seen.Await(t, redlatch.EventReachable, "a", 0)
		wantOutages(t, seen, "a", 1, 1)
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, waits))
	})
}

// TestSilentConnectionFailsNoCall has all connections of a client die in silence. It resent into
// the same hole for 12 s, and each call of that time failed, though a new connection would have
// been answered. Every kind of call must come through within its own patience.
func TestSilentConnectionFailsNoCall(t *testing.T) {
	t.Parallel()
	wire.EachWay(t, func(t *testing.T, open func(*wire.Proxy, redlatch.Options) *redlatch.Client) {
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
				n := wire.StartProxy(t, redistest.Start(t))
				c := open(n, o)
				held := locktest.Lock(t, c.Mutex("held"))
				n.Forget()
				check.Nil(t, "a call over a connection that died", call(c, held))
				locktest.Release(t, held)
			})
		}
	})
}

// TestSilentConnectionLosesNoLease: a lease outlives the connection that extended it, in which it was lost;
// and a longer one also the next connection, which dies sooner than one may be given up again. Each is
// extended after the fault, and held until it is released.
func TestSilentConnectionLosesNoLease(t *testing.T) {
	t.Parallel()
	wire.EachWay(t, func(t *testing.T, open func(*wire.Proxy, redlatch.Options) *redlatch.Client) {
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprint("twice ", twice), func(t *testing.T) {
				t.Parallel()
				n := wire.StartProxy(t, redistest.Start(t))
				var seen help.Events
				o := redlatch.Options{Hook: seen.Hook, Lock: redlatch.LockOptions{TTL: 9 * time.Second}}
				if twice {
					o.Lock.TTL = 10 * time.Second
				}
				c := open(n, o)
				l := locktest.Lock(t, c.Mutex("a"))
				n.Forget()
				if twice {
					locktest.Release(t, locktest.Lock(t, c.Mutex("b"))) // over the connection that takes its place
					n.Forget()
				} else {
					seen.Await(t, redlatch.EventExtendFailed, "a", 0)
				}
				seen.Await(t, redlatch.EventExtended, "a", 0)
				check.That(t, l.Held(), "the lease is not held: %v", l.Err())
				locktest.Release(t, l)
			})
		}
	})
}

// TestSilentSubscriptionIsReplaced: a client that only listens sends nothing that could go
// unanswered. It finds out by its own checks, within twice RequestTimeout.
func TestSilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := wire.StartProxy(t, s)
	o := help.Sluggish()
	o.RequestTimeout = 3 * time.Second
	c := locktest.Open(t, n.URL(), o)
	help.Hearing(t, s, c)
	id := strings.TrimSpace(s.Do("CLIENT", "LIST", "TYPE", "pubsub"))
	n.Forget()
	took := check.Took(func() {
		locktest.Eventually(t, "another subscription", func() bool {
			list := s.Do("CLIENT", "LIST", "TYPE", "pubsub")
			return strings.Count(list, "\n") > 0 && strings.Count(list, "id=") > strings.Count(id, "id=")
		})
	})
	// And the time to subscribe.
	check.That(t, took <= 8*time.Second, "a subscription over a connection that died was replaced after %v, want twice 3s at most", took)
}

// TestSilentConnectionOfGoRedis: the connections are the program's own, and die by its ReadTimeout.
// Requests that are resent after that use new ones, and a lease outlives a pool that died.
func TestSilentConnectionOfGoRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := wire.StartProxy(t, s)
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
		"Paused": func(s *redistest.Server) func() { // which still accepts connections
			s.Do("CLIENT", "PAUSE", "60000", "WRITE")
			return func() { s.Do("CLIENT", "UNPAUSE") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "Paused" {
				redistest.Needs(t, "pause of writes alone")
			}
			s, c := locktest.Start(t, redlatch.Options{RequestTimeout: 1200 * time.Millisecond, Lock: redlatch.LockOptions{TTL: help.Lasting}})
			l := locktest.Lock(t, c.Mutex("a"))
			before := help.CountInfo(s, "total_connections_received")
			thaw := freeze(s)
			const calls = 3
			began := time.Now()
			for range calls {
				check.Error(t, "TryLock at a server that hangs", help.AwaitError(t, help.GoTryLock(t.Context(), c.Mutex("b"))), redlatch.ErrUnreachable)
			}
			hung := time.Since(began)
			thaw()
			locktest.Eventually(t, "an extend", func() bool { return !errors.Is(l.Extend(t.Context()), redlatch.ErrUnreachable) })
			check.That(t, l.Held(), "the lease was lost: %v", l.Err())
			help.InsistRelease(t, l)
			const own = 3 // of this test's commands
			// Connections are given up once in a RequestTimeout at most, and the client has one or two.
			if n, most := help.CountInfo(s, "total_connections_received")-before-own, 2*(1+int(hung/(1200*time.Millisecond))); n > most { // each call has three requests or more
				t.Errorf("%d connections were made while the server hung for %v, want %d at most", n, hung, most)
			}
		})
	}
}

// TestSlotLeftInAnOutage: no request of a client arrives until its lease on a slot has ended. Its
// program has released the slot, has given up the acquisition or the Detach, or does not hear of the
// grant. No holder has vanished, so the slot does not rest. Before, it rested for the quarantine.
func TestSlotLeftInAnOutage(t *testing.T) {
	t.Parallel()
	type acquire = func(context.Context) (*redlatch.Slot, error)
	givesUp := func(t *testing.T, what string, link *wire.Lossy, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		check.Error(t, what, call(ctx), redlatch.ErrUnreachable)
		link.Harm(wire.Unsent, wire.Every)
	}
	for name, leave := range map[string]func(*testing.T, *redlatch.SlotPool, *wire.Lossy, acquire) acquire{
		"released": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			slot := check.Value(pool.TryAcquire(t.Context())).OK(t)
			link.Harm(wire.Unsent, wire.Every)
			check.Error(t, "Release", slot.Release(t.Context()), redlatch.ErrUnreachable)
			return pool.TryAcquire
		},
		"undone": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			link.Harm(wire.Unheard, wire.First)
			givesUp(t, "TryAcquire", link, func(ctx context.Context) error { return check.ErrorOf(pool.TryAcquire(ctx)) })
			return pool.TryAcquire
		},
		"detached": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			link.Harm(wire.Unheard, wire.First) // so that it gets another owner
			slot := check.Value(pool.TryAcquire(t.Context())).OK(t)
			link.Harm(wire.Unheard, wire.Second) // after an extend
			givesUp(t, "Detach", link, func(ctx context.Context) error { return check.ErrorOf(slot.Detach(ctx)) })
			return pool.TryAcquire
		},
		"unheard": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, first acquire) acquire {
			slot, got := check.Value(first(t.Context())).OK(t), make(chan *redlatch.Slot, 1)
			go func() { got <- check.Value(pool.Acquire(t.Context())).OK(t) }()
			time.Sleep(time.Second)
			link.Mute(true)
			link.Harm(wire.Unsent, wire.Every)
			locktest.Release(t, slot.Lease)
			return func(context.Context) (*redlatch.Slot, error) {
				select {
				case slot := <-got:
					return slot, nil
				default:
					return nil, redlatch.ErrTaken
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				link, o := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}, redlatch.SlotOptions{Quarantine: time.Hour}
				pool := wire.Wrap(t, link, redlatch.Options{}).SlotPool("p", 1, o)
				acquire := leave(t, pool, link, s.Client(t, redlatch.Options{}).SlotPool("p", 1, o).TryAcquire)
				time.Sleep(2 * time.Minute)
				link.Mute(false)
				link.Harm(wire.Unsent, wire.None)
				time.Sleep(10 * time.Second)
				locktest.Release(t, check.Value(acquire(t.Context())).OK(t).Lease)
			})
		})
	}
}
