package simulation

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

var processes = flag.Int("scale", 20, "how many processes TestScale has")

// traffic is what clients send.
type traffic struct {
	mu       sync.Mutex
	requests int
	scripts  map[string]int
	spans    map[time.Duration]int // requests in each 10 ms
}

// counted is a link whose requests are counted.
type counted struct {
	*wire.Link
	traffic *traffic
}

func (c counted) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.traffic.mu.Lock()
	c.traffic.requests++
	for _, call := range calls {
		c.traffic.scripts[call.Script.Name]++
	}
	c.traffic.spans[c.Net.Now()/(10*time.Millisecond)]++
	c.traffic.mu.Unlock()
	return c.Link.Eval(ctx, calls...)
}

// take returns how many requests and scripts there were since the last take, and how many requests in
// the busiest 10 ms.
func (c *traffic) take() (requests int, scripts map[string]int, burst int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.spans {
		burst = max(burst, n)
	}
	requests, scripts = c.requests, c.scripts
	c.requests, c.scripts, c.spans = 0, make(map[string]int), make(map[time.Duration]int)
	return requests, scripts, burst
}

// scaled is many processes beside one server. Each holds 10 locks, and waits for 10 of other processes.
type scaled struct {
	*testing.T
	net     *wire.Network
	server  *wire.Server
	traffic *traffic
	clients []*redlatch.Client

	works  atomic.Int64 // for how long a waiter works that was served
	grants atomic.Int64
	failed atomic.Int64
	back   atomic.Int64   // when the server is back
	served []atomic.Int64 // the first grant of each name that is waited for, after that
}

const (
	usedNames = 100 // that each process has used once
	heldNames = 10  // that it holds; the first is waited for
	waitNames = 10  // for which it waits
)

// each has all processes do something, and begin it within ten seconds.
func (s *scaled) each(do func(i int, c *redlatch.Client)) {
	var all sync.WaitGroup
	for i, c := range s.clients {
		all.Go(func() {
			time.Sleep(time.Duration(rand.Int64N(int64(10 * time.Second))))
			do(i, c)
		})
	}
	all.Wait()
}

// pass lets time pass, and returns how many requests each process sent, and how many scripts of a name.
func (s *scaled) pass(what string, span time.Duration, script string) (requests, scripts float64) {
	time.Sleep(span)
	n, by, burst := s.traffic.take()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Logf("%-8s %4v: %d requests, at most %d in 10 ms; %v; %d goroutines, %d MB", what, span, n, burst, by, runtime.NumGoroutine(), m.HeapAlloc>>20)
	return float64(n) / float64(len(s.clients)), float64(by[script]) / float64(len(s.clients))
}

// wait has a process lock a name of another one, again and again.
func (s *scaled) wait(ctx context.Context, m *redlatch.Mutex, of int) {
	for ctx.Err() == nil {
		lease, err := m.Lock(ctx)
		if err != nil {
			s.failed.Add(1)
			wire.Sleep(ctx, time.Second)
			continue
		}
		s.grants.Add(1)
		if now := int64(s.net.Now()); now > s.back.Load() {
			s.served[of].CompareAndSwap(0, now)
		}
		wire.Sleep(lease.Context(), time.Duration(s.works.Load()))
		_ = lease.Release(context.Background()) // after the failover some are lost
	}
}

// TestScale checks the formulas of docs/performance.md: what is sent grows with what is held, waited for
// and worked on, and with nothing that only exists. After a failover, a server that is busy for 0.4 of
// the time catches up: it did not, since clients asked anew for what it had not answered yet.
func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scaled{
			T: t, net: wire.New(rand.New(rand.NewPCG(1, 1)), func(string, ...any) {}), traffic: new(traffic),
			served: make([]atomic.Int64, *processes),
		}
		s.works.Store(int64(24 * time.Hour))
		s.back.Store(int64(24 * time.Hour))
		s.server = wire.NewServer(s.net, 1)
		s.traffic.take()
		go s.net.Run()
		defer s.net.Finish()
		for i := range *processes {
			l := &wire.Link{
				Net: s.net, Served: func(*wire.Link, conn.Call, error) {}, Server: s.server, Client: fmt.Sprint(i), Number: i + 1,
				Delay: wire.Span{Least: 400 * time.Microsecond, Most: 600 * time.Microsecond}, State: wire.Works,
				Random: rand.New(rand.NewPCG(1, uint64(i))),
			}
			s.clients = append(s.clients, check.Value(redlatch.New(counted{l, s.traffic}, redlatch.Options{})).OK(t))
		}
		lock := func(c *redlatch.Client, of, n int) *redlatch.Lease {
			return check.Value(c.Mutex(fmt.Sprintf("%d-%d", of, n)).Lock(t.Context())).OK(t)
		}
		want := func(what string, got, least, most float64) {
			t.Helper()
			check.That(t, got >= least && got <= most, "%s: %.1f for each process, want %v to %v", what, got, least, most)
		}

		requests, _ := s.pass("idle", time.Minute, "")
		want("idle", requests, 0, 0)
		s.each(func(i int, c *redlatch.Client) {
			for n := range usedNames {
				_ = lock(c, i, heldNames+n).Release(t.Context())
			}
		})
		requests, _ = s.pass("using", 0, "")
		want("using a name", requests, 2*usedNames, 2*usedNames+2)
		requests, _ = s.pass("used", time.Minute, "")
		want("a minute after that", requests, 0, 2)

		held := make([]*redlatch.Lease, *processes)
		s.each(func(i int, c *redlatch.Client) {
			for n := range heldNames {
				if l := lock(c, i, n); n == 0 {
					held[i] = l
				}
			}
		})
		s.pass("taking", 0, "")
		requests, _ = s.pass("holding", time.Minute, "")
		want("a minute of holding", requests, 5, 9)

		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		s.each(func(i int, c *redlatch.Client) {
			for n := range waitNames {
				of := (i + n + 1) % *processes
				waiters.Go(func() { s.wait(ctx, c.Mutex(fmt.Sprintf("%d-0", of)), of) })
			}
		})
		s.pass("queueing", time.Second, "")
		requests, beats := s.pass("waiting", time.Minute, "mutex await")
		want("heartbeats in a minute", beats, waitNames*11, waitNames*14)
		want("requests in a minute of waiting", requests, waitNames*11, waitNames*14+40)

		s.works.Store(int64(time.Second))
		s.each(func(i int, _ *redlatch.Client) { _ = held[i].Release(t.Context()) })
		s.pass("begin", 20*time.Second, "")
		s.grants.Store(0)
		before, acquired := s.pass("working", 30*time.Second, "mutex acquire")
		grants := s.grants.Swap(0)
		want("acquisitions for each grant", acquired*float64(*processes)/float64(grants), 0.9, 1.1)

		// A script takes so long that the server is busy for 0.4 of the time, and 0.2 of that when it
		// comes with others.
		busy := time.Duration(0.4 / 1.2 * 30 * float64(time.Second) / before / float64(*processes))
		s.net.Call(func() { s.server.Takes = busy })
		s.pass("busy", 10*time.Second, "")
		s.net.Call(func() {
			older := s.server.Copy()
			s.net.After(50*time.Millisecond, s.server.Kill)
			s.net.After(time.Second, func() {
				s.back.Store(int64(s.net.Now()))
				s.server.Restart(older)
			})
		})
		s.pass("down", time.Second, "")
		for range 5 {
			s.pass("back", time.Second, "")
		}
		s.pass("back", 25*time.Second, "")
		s.grants.Store(0)
		after, _ := s.pass("as ever", 30*time.Second, "")
		var firsts []time.Duration
		for i := range s.served {
			firsts = append(firsts, time.Duration(s.served[i].Load()-s.back.Load()))
		}
		slices.Sort(firsts)
		t.Logf("%v for a script; first grants of names: from %v, median %v, to %v; %d acquisitions failed",
			busy, firsts[0], firsts[len(firsts)/2], firsts[len(firsts)-1], s.failed.Load())
		check.That(t, firsts[0] > 0, "a name has had no holder since the failover")
		want("requests half a minute after the failover, for each one before it", after/before, 0.8, 1.3)
		want("grants", float64(s.grants.Load())/float64(grants), 0.8, 1.2)

		cancel()
		waiters.Wait()
		s.each(func(_ int, c *redlatch.Client) { _ = c.Close() }) // leases are left
	})
}
