package tests

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// nat stands between clients and a server. It can forget the connections that it has, as a NAT
// does, or a host that loses its power: they are silent from then on, without a reset. New ones are
// fine.
type nat struct {
	net.Listener
	server string
	age    atomic.Int64 // how often it has forgotten
	pumps  sync.WaitGroup
	mu     sync.Mutex
	open   []net.Conn
}

// startNAT starts a NAT before a server. It is stopped with the test.
func startNAT(t testing.TB, s *redistest.Server) *nat {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nat{Listener: l, server: s.Addr()}
	n.pumps.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.mu.Lock()
		for _, c := range n.open {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.pumps.Wait()
	})
	return n
}

func (n *nat) url() string { return "redis://" + n.Addr().String() }

// forget makes every connection silent for ever.
func (n *nat) forget() { n.age.Add(1) }

func (n *nat) accept() {
	for {
		client, err := n.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", n.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		n.mu.Lock()
		n.open = append(n.open, client, server)
		n.mu.Unlock()
		born := n.age.Load()
		n.pumps.Go(func() { n.pump(client, server, born) })
		n.pumps.Go(func() { n.pump(server, client, born) })
	}
}

func (n *nat) pump(from, to net.Conn, born int64) {
	buffer := make([]byte, 32<<10)
	for {
		got, err := from.Read(buffer)
		if n.age.Load() != born { // the other side hears nothing any more, and of the end neither
			if err != nil {
				return
			}
			continue
		}
		if err != nil {
			_ = to.Close()
			return
		}
		_, _ = to.Write(buffer[:got])
	}
}

// eachWay runs a test with a client that sends little, whose connection rueidis reads when it
// expects a reply, with a client that has sent much at once, whose connection it reads all the time,
// and with a client that has sent much one by one, which has a connection for single requests.
func eachWay(t *testing.T, test func(t *testing.T, open func(*nat, redlatch.Options) *redlatch.Client)) {
	ways := map[string]struct{ times, atOnce int }{"Lone": {1, 1}, "Busy": {1, 64}, "Lane": {200, 1}}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(n *nat, o redlatch.Options) *redlatch.Client {
				c := open(t, n.url(), o)
				for range way.times {
					var all sync.WaitGroup
					for i := range way.atOnce {
						all.Go(func() { release(t, lock(t, c.Mutex("warm "+strconv.Itoa(i)))) })
					}
					all.Wait()
				}
				return c
			})
		})
	}
}

// TestSilentConnectionFailsNoCall has all connections of a client die in silence. It resent into
// the same hole for 12 s, and each call of that time failed, though a new connection would have
// been answered. Every kind of call must come through within its own patience.
func TestSilentConnectionFailsNoCall(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, open func(*nat, redlatch.Options) *redlatch.Client) {
		// A call of each kind ends with ErrUnreachable when RequestTimeout has passed, so one that
		// succeeds was in time.
		o := redlatch.Options{RequestTimeout: 6 * time.Second, Lock: redlatch.LockOptions{TTL: lasting}}
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
				n := startNAT(t, redistest.Start(t))
				c := open(n, o)
				held := lock(t, c.Mutex("held"))
				n.forget()
				if err := call(c, held); err != nil {
					t.Errorf("over a connection that died: %v", err)
				}
				release(t, held)
			})
		}
	})
}

// TestSilentConnectionLosesNoLease: a lease of nine seconds outlives the connection that extended
// it. It was lost.
func TestSilentConnectionLosesNoLease(t *testing.T) {
	t.Parallel()
	holdThrough(t, 9*time.Second, func(t *testing.T, n *nat, _ *redlatch.Client, seen *events) {
		n.forget()
		seen.await(t, redlatch.EventExtendFailed, "a", 0)
	})
}

// TestSecondSilentConnectionLosesNoLease: the connection that took the place of a dead one dies,
// too, sooner than one may be given up again. A longer lease outlives that.
func TestSecondSilentConnectionLosesNoLease(t *testing.T) {
	t.Parallel()
	holdThrough(t, 10*time.Second, func(t *testing.T, n *nat, c *redlatch.Client, _ *events) {
		n.forget()
		release(t, lock(t, c.Mutex("b"))) // over the connection that takes its place
		n.forget()
	})
}

// holdThrough holds a lease on "a" with this TTL, each way, through a fault of its connection. The
// lease must be extended after the fault, and held until it is released.
func holdThrough(t *testing.T, ttl time.Duration, fault func(t *testing.T, n *nat, c *redlatch.Client, seen *events)) {
	eachWay(t, func(t *testing.T, open func(*nat, redlatch.Options) *redlatch.Client) {
		s := redistest.Start(t)
		n := startNAT(t, s)
		var seen events
		c := open(n, redlatch.Options{Hook: seen.hook, Lock: redlatch.LockOptions{TTL: ttl}})
		l := lock(t, c.Mutex("a"))
		fault(t, n, c, &seen)
		seen.await(t, redlatch.EventExtended, "a", 0)
		if !l.Held() {
			t.Errorf("the lease is not held: %v", l.Err())
		}
		release(t, l)
	})
}

// TestSilentConnectionOfAWaiter: the grant vanishes with the connection over which the waiter would
// hear it, and over which it would ask. It must have the lock when it has asked, at its next
// heartbeat, and before its lease is over.
func TestSilentConnectionOfAWaiter(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, openBehind func(*nat, redlatch.Options) *redlatch.Client) {
		s := redistest.Start(t)
		n := startNAT(t, s)
		// A lease that is granted to a waiter lasts three heartbeats at first.
		o := redlatch.Options{Heartbeat: 3 * time.Second, Lock: redlatch.LockOptions{TTL: lasting}}
		a, b := open(t, s.URL(), o), openBehind(n, o)
		hearing(t, s, b)
		wantHandOver(t, s, a, b, n.forget)
	})
}

// TestSilentSubscriptionIsReplaced: a client that only listens sends nothing that could go
// unanswered. It finds out by its own checks, within twice RequestTimeout.
func TestSilentSubscriptionIsReplaced(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := startNAT(t, s)
	c := open(t, n.url(), sluggishBut(3*time.Second))
	hearing(t, s, c)
	id := strings.TrimSpace(s.Do("CLIENT", "LIST", "TYPE", "pubsub"))
	n.forget()
	began, late := time.Now(), measureLateness(t)
	eventually(t, "another subscription", func() bool {
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
	o := sluggish()
	o.RequestTimeout = d
	return o
}

// TestSilentConnectionOfGoRedis: the connections are the program's own, and die by its ReadTimeout.
// Requests that are resent after that use new ones, and a lease outlives a pool that died.
func TestSilentConnectionOfGoRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	n := startNAT(t, s)
	rdb := redis.NewClient(&redis.Options{Addr: n.Addr().String(), ReadTimeout: 500 * time.Millisecond, PoolSize: 3, MinIdleConns: 3})
	t.Cleanup(func() { _ = rdb.Close() })
	var seen events
	c := wrap(t, redlatchgoredis.New(rdb), redlatch.Options{Hook: seen.hook, Lock: redlatch.LockOptions{TTL: 9 * time.Second}})
	held := lock(t, c.Mutex("held"))
	eventually(t, "a full pool", func() bool { return rdb.PoolStats().TotalConns == 3 })
	extended := len(seen.of(redlatch.EventExtended, "held"))
	n.forget()
	release(t, lock(t, c.Mutex("a")))
	seen.await(t, redlatch.EventExtended, "held", extended)
	release(t, held)
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
			c := open(t, s.URL(), redlatch.Options{RequestTimeout: 1200 * time.Millisecond, Lock: redlatch.LockOptions{TTL: lasting}})
			l := lock(t, c.Mutex("a"))
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
				if err := awaitError(t, goTryLock(t.Context(), c.Mutex("b"))); !errors.Is(err, redlatch.ErrUnreachable) {
					t.Errorf("TryLock at a server that hangs = %v", err)
				}
			}
			hung := time.Since(began)
			thaw()
			eventually(t, "an extend", func() bool { return !errors.Is(l.Extend(t.Context()), redlatch.ErrUnreachable) })
			if !l.Held() {
				t.Errorf("the lease was lost: %v", l.Err())
			}
			insistRelease(t, l)
			const own = 3 // of this test's commands
			// Connections are given up once in a RequestTimeout at most, and the client has one or two.
			if n, most := connections()-before-own, 2*(1+int(hung/(1200*time.Millisecond))); n > most { // each call has three requests or more
				t.Errorf("%d connections were made while the server hung for %v, want %d at most", n, hung, most)
			}
		})
	}
}
