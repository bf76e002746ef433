package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
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

// TestWaiterTellsAnOutage: who waits behind a cut connection waits on, and says so once, and once
// when it is over; not for each request.
func TestWaiterTellsAnOutage(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		o, seen := restless()
		c := s.Client(t, o)
		held := help.Enter(t, help.LockOf(s.Client(t, help.Brisk(help.Lasting)), kind))
		waits := help.GoEnter(t.Context(), help.LockOf(c, kind))
		seen.Await(t, redlatch.EventWait, held.Name(), 0)
		for n := range 2 {
			s.Cut(c)
			seen.Await(t, redlatch.EventUnreachable, held.Name(), n)
			time.Sleep(30 * o.RequestTimeout) // many requests fail
			wantOutages(t, seen, held.Name(), n+1, n)
			s.Mend(c)
			seen.Await(t, redlatch.EventReachable, held.Name(), n)
			wantOutages(t, seen, held.Name(), n+1, n+1)
		}
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, waits))
		if n := len(seen.Of(redlatch.EventWait, held.Name())); n != 1 {
			t.Errorf("the wait was told %d times, want 1", n)
		}
		check.Nil(t, "Close", locktest.CloseLeaving(c))
		seen.WantEnds(t)
	})
}

// TestWaiterTellsAnOutageThatLosesItsPlace: the server comes back without a line. This is a real one:
// it takes no connections while it is gone.
func TestWaiterTellsAnOutageThatLosesItsPlace(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := restless()
		o.RequestTimeout = 4 * time.Second // a pause of the machine is no outage
		held := help.Enter(t, help.LockOf(locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), kind))
		waits := help.GoEnter(t.Context(), help.LockOf(locktest.Open(t, s.URL(), o), kind))
		seen.Await(t, redlatch.EventWait, held.Name(), 0) // a waiter without an answer fails instead
		s.Kill()
		seen.Await(t, redlatch.EventUnreachable, held.Name(), 0)
		s.Restart()
		l := help.Await(t, waits)
		wantOutages(t, seen, held.Name(), 1, 1)
		locktest.Release(t, l)
	})
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
			if err := help.AwaitError(t, waits); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, want that it was cancelled", err)
			}
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
		var nodes []*redlatchtest.Memory
		for range 3 {
			nodes = append(nodes, redlatchtest.InMemory(t))
		}
		client := func(o redlatch.Options) *redlatch.Client {
			var over []conn.Conn
			for i, node := range nodes {
				over = append(over, memory.Addressed{Conn: node.Conn(), Addr: fmt.Sprint("node ", i)})
			}
			c := check.Value(redlatch.NewQuorum(over, o)).OK(t)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		o, seen := restless()
		held := locktest.Lock(t, client(help.Brisk(help.Lasting)).Mutex("a"))
		waits := help.GoLock(t.Context(), client(o).Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", 0)
		nodes[0].Hang()
		time.Sleep(5 * o.RequestTimeout)
		wantOutages(t, seen, "a", 0, 0) // two of three do
		began := time.Now()
		nodes[1].Hang()
		seen.Await(t, redlatch.EventUnreachable, "a", 0)
		if took := time.Since(began); took < o.RequestTimeout {
			t.Errorf("the outage was told after %v, want %v at least", took, o.RequestTimeout)
		}
		time.Sleep(5 * o.RequestTimeout)
		nodes[0].Resume()
		nodes[1].Resume()
		seen.Await(t, redlatch.EventReachable, "a", 0)
		wantOutages(t, seen, "a", 1, 1)
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, waits))
	})
}
