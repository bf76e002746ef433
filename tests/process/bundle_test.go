package process

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestRequestsGoTogether: the more goroutines a client has at work, the fewer requests it takes for
// each.
func TestRequestsGoTogether(t *testing.T) {
	t.Parallel()
	const goroutines, turns = 100, 5
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		s.Delay(time.Millisecond)
		sent := &tally{Conn: s.Conn()}
		c := wire.Wrap(t, sent, help.Sluggish())
		locktest.Release(t, locktest.Lock(t, c.Mutex("first words")))
		sent.calls.Store(0)
		locktest.Release(t, locktest.Lock(t, c.Mutex("alone")))
		check.Equal(t, sent.calls.Swap(0), 2, "requests for an acquisition and a release")
		help.Together(goroutines, func(i int) {
			last := int64(0)
			for range turns {
				l := locktest.Lock(t, c.Mutex(strconv.Itoa(i)))
				check.That(t, l.Token() > last, "token %d after %d, want more", l.Token(), last)
				last = l.Token()
				locktest.Release(t, l)
			}
		})
		n := sent.calls.Load()
		t.Logf("%d requests for %d acquisitions and releases", n, goroutines*turns*2)
		check.That(t, n <= goroutines*turns, "%d requests for %d acquisitions and releases, want fewer than one for two", n, goroutines*turns*2)
		other := s.Client(t, help.Sluggish())
		for i := range goroutines {
			locktest.Release(t, check.Value(other.Mutex(strconv.Itoa(i)).TryLock(t.Context())).OK(t))
		}
	})
}

// tally is a connection that counts the calls of scripts.
type tally struct {
	conn.Conn
	calls atomic.Int64
}

func (c *tally) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.calls.Add(int64(len(calls)))
	return c.Conn.Eval(ctx, calls...)
}

// TestBundleOfWhichSomeAreTaken: many mutexes are tried at once. Some of them are taken, which does not
// touch the others. Some are free, and a waiter of another client is in line: it is their turn.
func TestBundleOfWhichSomeAreTaken(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	c, other, third := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
	leases, waiting := make([]*redlatch.Lease, n), make(map[int]<-chan help.Outcome)
	for i := 0; i < n; i += 5 {
		name, free := strconv.Itoa(i), i%10 != 0
		if free {
			locktest.Lock(t, third.Mutex(name))
		} else {
			leases[i] = locktest.Lock(t, c.Mutex(name))
		}
		waiting[i] = help.GoLocks(t, t.Context(), other.Mutex(name), seen, 1)[0]
		if free {
			s.Do("DEL", locktest.StateKey(name))
		}
	}
	help.Together(n, func(i int) {
		l, err := c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := waiting[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and it is taken or waited for: %t", i, err, taken)
		}
		if err == nil {
			leases[i] = l
		}
	})
	help.Together(n, func(i int) {
		if leases[i] != nil {
			locktest.Release(t, leases[i])
		}
	})
	for _, result := range waiting { // let in by the releases, or by the tries
		locktest.Release(t, help.Await(t, result))
	}
	for i := range n {
		help.WantNothingLeft(t, s, strconv.Itoa(i))
	}
}
