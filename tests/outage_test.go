package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// restless are options with which an outage is noticed soon, and does not end a lease.
func restless() (redlatch.Options, *events) {
	o := brisk(lasting)
	o.RequestTimeout = time.Second
	return watched(o)
}

// wantOutages checks how often a waiter was told of an outage, and of its end.
func wantOutages(t *testing.T, seen *events, name string, begun, ended int) {
	t.Helper()
	began, over := seen.of(redlatch.EventUnreachable, name), seen.of(redlatch.EventReachable, name)
	if len(began) != begun || len(over) != ended {
		t.Fatalf("%d outages and %d ends were told, want %d and %d", len(began), len(over), begun, ended)
	}
	for _, e := range began {
		if !errors.Is(e.Err, redlatch.ErrUnreachable) || e.Waited <= 0 {
			t.Errorf("%+v, want what is wrong", e)
		}
	}
	for _, e := range over {
		if e.Err != nil || e.Waited <= 0 {
			t.Errorf("%+v, want no error", e)
		}
	}
}

// eachKindInMemory runs a test for every kind of lock that has a line, each in a bubble of its own.
func eachKindInMemory(t *testing.T, test func(t *testing.T, s *redlatchtest.Memory, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inMemory(t, func(t *testing.T, s *redlatchtest.Memory) { test(t, s, i) })
		})
	}
}

// TestWaiterTellsAnOutage: who waits behind a cut connection waits on, and says so once, and once
// when it is over; not for each request.
func TestWaiterTellsAnOutage(t *testing.T) {
	eachKindInMemory(t, func(t *testing.T, s *redlatchtest.Memory, kind int) {
		o, seen := restless()
		c := s.Client(t, o)
		held := enter(t, of(s.Client(t, brisk(lasting)), kind))
		waits := goEnter(t.Context(), of(c, kind))
		seen.await(t, redlatch.EventWait, held.Name(), 0)
		for n := range 2 {
			s.Cut(c)
			seen.await(t, redlatch.EventUnreachable, held.Name(), n)
			time.Sleep(30 * o.RequestTimeout) // many requests fail
			wantOutages(t, seen, held.Name(), n+1, n)
			s.Mend(c)
			seen.await(t, redlatch.EventReachable, held.Name(), n)
			wantOutages(t, seen, held.Name(), n+1, n+1)
		}
		release(t, held)
		release(t, await(t, waits))
		if n := len(seen.of(redlatch.EventWait, held.Name())); n != 1 {
			t.Errorf("the wait was told %d times, want 1", n)
		}
		if err := closeLeaving(c); err != nil {
			t.Errorf("Close = %v", err)
		}
		seen.wantEnds(t)
	})
}

// TestWaiterTellsAnOutageThatLosesItsPlace: the server comes back without a line. This is a real one:
// it takes no connections while it is gone.
func TestWaiterTellsAnOutageThatLosesItsPlace(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := restless()
		o.RequestTimeout = 4 * time.Second // a pause of the machine is no outage
		held := enter(t, of(open(t, s.URL(), brisk(lasting)), kind))
		waits := goEnter(t.Context(), of(open(t, s.URL(), o), kind))
		seen.await(t, redlatch.EventWait, held.Name(), 0) // a waiter without an answer fails instead
		s.Kill()
		seen.await(t, redlatch.EventUnreachable, held.Name(), 0)
		s.Restart()
		l := await(t, waits)
		wantOutages(t, seen, held.Name(), 1, 1)
		release(t, l)
	})
}

// TestWaiterThatEndsInAnOutage tells no end of it but its own.
func TestWaiterThatEndsInAnOutage(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		o, seen := restless()
		c := s.Client(t, o)
		held := lock(t, s.Client(t, brisk(lasting)).Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		first, second := goLock(ctx, c.Mutex("a")), goLock(ctx, c.Mutex("a"))
		seen.await(t, redlatch.EventWait, "a", 1)
		s.Hang()
		seen.await(t, redlatch.EventUnreachable, "a", 0)
		cancel()
		for _, waits := range []<-chan outcome{first, second} {
			if err := awaitError(t, waits); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, want that it was cancelled", err)
			}
		}
		wantOutages(t, seen, "a", 1, 0) // one of the two stood in line
		s.Resume()
		release(t, held)
	})
}

// addressed is a connection to one of several servers in memory.
type addressed struct {
	conn.Conn
	addr string
}

func (a addressed) Target() conn.Target { return conn.Target{Addr: a.addr, Pipelined: true} }

// TestQuorumWaiterTellsAnOutage: a majority of the nodes is gone, and comes back.
func TestQuorumWaiterTellsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var nodes []*redlatchtest.Memory
		for range 3 {
			nodes = append(nodes, redlatchtest.InMemory(t))
		}
		client := func(o redlatch.Options) *redlatch.Client {
			var over []conn.Conn
			for i, node := range nodes {
				over = append(over, addressed{node.Conn(), fmt.Sprint("node ", i)})
			}
			c, err := redlatch.NewQuorum(over, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		o, seen := restless()
		held := lock(t, client(brisk(lasting)).Mutex("a"))
		waits := goLock(t.Context(), client(o).Mutex("a"))
		seen.await(t, redlatch.EventWait, "a", 0)
		nodes[0].Hang()
		time.Sleep(5 * o.RequestTimeout)
		wantOutages(t, seen, "a", 0, 0) // two of three do
		began := time.Now()
		nodes[1].Hang()
		seen.await(t, redlatch.EventUnreachable, "a", 0)
		if took := time.Since(began); took < o.RequestTimeout {
			t.Errorf("the outage was told after %v, want %v at least", took, o.RequestTimeout)
		}
		time.Sleep(5 * o.RequestTimeout)
		nodes[0].Resume()
		nodes[1].Resume()
		seen.await(t, redlatch.EventReachable, "a", 0)
		wantOutages(t, seen, "a", 1, 1)
		release(t, held)
		release(t, await(t, waits))
	})
}
