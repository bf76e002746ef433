package process

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
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

// takeSome has one client hold every tenth of n mutexes, and another, whose events are seen, wait
// for it.
func takeSome(t *testing.T, n int, holder, other *redlatch.Client, seen *help.Events) (held map[int]*redlatch.Lease, waiting map[int]<-chan help.Outcome) {
	t.Helper()
	held, waiting = make(map[int]*redlatch.Lease), make(map[int]<-chan help.Outcome)
	for i := 0; i < n; i += 10 {
		held[i] = locktest.Lock(t, holder.Mutex(strconv.Itoa(i)))
		waiting[i] = help.GoLocks(t, t.Context(), other.Mutex(strconv.Itoa(i)), seen, 1)[0]
	}
	return held, waiting
}

// TestBundleOfWhichSomeAreTaken: what one of many finds does not touch the others.
func TestBundleOfWhichSomeAreTaken(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o)
	held, waiting := takeSome(t, n, c, other, seen)
	leases := make([]*redlatch.Lease, n)
	help.Together(n, func(i int) {
		var err error
		leases[i], err = c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := held[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and it is taken: %t", i, err, taken)
		}
	})
	for i, l := range held {
		leases[i] = l
	}
	help.Together(n, func(i int) { locktest.Release(t, leases[i]) })
	for _, result := range waiting { // let in by the releases
		locktest.Release(t, help.Await(t, result))
	}
	for i := range n {
		help.WantNothingLeft(t, s, strconv.Itoa(i))
	}
}

// TestBundleDoesNotOvertake: mutexes are free, and somebody is in line for some of them. It is
// their turn.
func TestBundleDoesNotOvertake(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	c, other, third := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
	_, waiting := takeSome(t, n, third, other, seen)
	for i := range waiting {
		s.Do("DEL", locktest.StateKey(strconv.Itoa(i)))
	}
	help.Together(n, func(i int) {
		_, err := c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := waiting[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and somebody is in line for it: %t", i, err, taken)
		}
	})
	for _, result := range waiting {
		locktest.Release(t, help.Await(t, result))
	}
}

// TestBundleOfWhichOneCannotBeDone: a script stops at the first error. One of many mutexes
// is overwritten with a hash: only its holder may notice, at the extend and at the release.
func TestBundleOfWhichOneCannotBeDone(t *testing.T) {
	t.Parallel()
	const n, bad = 50, 30
	for _, extended := range []bool{false, true} {
		t.Run(fmt.Sprintf("extended=%t", extended), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o, seen := help.Watched(help.Brisk(help.Lasting))
			o.RequestTimeout = locktest.Patience
			if extended {
				o.Lock.TTL = 6 * time.Second
			}
			c := locktest.Open(t, s.URL(), o)
			leases := make([]*redlatch.Lease, n)
			help.Together(n, func(i int) { leases[i] = locktest.Lock(t, c.Mutex(strconv.Itoa(i))) })
			s.Do("DEL", locktest.StateKey(strconv.Itoa(bad)))
			s.Do("HSET", locktest.StateKey(strconv.Itoa(bad)), "field", "value")
			if extended {
				help.WantLost(t, leases[bad])
				locktest.Eventually(t, "the others are extended", func() bool { return seen.Count(redlatch.EventExtended) >= n-1 })
			}
			// The releases begin in order, while the server answers none. The first leave by
			// themselves, and that of the bad mutex goes in a bundle behind others.
			s.Pause()
			var all sync.WaitGroup
			for i, l := range leases {
				all.Go(func() {
					err := l.Release(context.Background())
					check.That(t, i == bad || err == nil, "Release of %d = %v, want nil", i, err)
					check.That(t, i != bad || err != nil, "Release of the one that was overwritten = nil")
				})
				<-l.Context().Done() // just before its request
			}
			s.Resume()
			all.Wait()
			help.Together(n, func(i int) {
				_, err := c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
				if i != bad && err != nil || i == bad && !errors.Is(err, redlatch.ErrWrongKind) {
					t.Errorf("TryLock of %d = %v", i, err)
				}
			})
		})
	}
}

// TestRequestInABatchHeedsItsContext: who waits for company, or in a batch that gets no answer,
// leaves when its time is up.
func TestRequestInABatchHeedsItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// Of one client, nothing but its context ends a request. The other cleans up soon after.
	o := help.Sluggish()
	o.RequestTimeout = time.Hour
	lasting := s.URL() + "?write_timeout=1h" // so no connection is given up for its silence
	clients := []*redlatch.Client{locktest.Open(t, lasting, o), locktest.Open(t, lasting, help.Brisk(help.Lasting))}
	for _, c := range clients {
		locktest.Release(t, locktest.Lock(t, c.Mutex("first words")))
	}
	s.Pause()
	back := make(chan struct{})
	go func() {
		defer close(back)
		help.Together(100, func(i int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i/2)*10*time.Millisecond)
			defer cancel()
			check.Error(t, "TryLock", check.ErrorOf(clients[i%2].Mutex(strconv.Itoa(i)).TryLock(ctx)), context.DeadlineExceeded)
		})
	}()
	help.Receive(t, back, "the wait of all")
	s.Resume()
	for i := 1; i < 100; i += 2 {
		help.AwaitFree(t, s, strconv.Itoa(i))
	}
}

// TestBurstIsBounded: thousands of goroutines ask for something at once. What is under way together
// shares a time limit, so it is bounded, as protocol.md says: a burst fails on no server that
// works, however long all of it takes.
func TestBurstIsBounded(t *testing.T) {
	t.Parallel()
	const n, most = 3_000, 2048 + 32 // and those that leave by themselves
	var attempts atomic.Int64
	flights := &wire.Airport{Conn: wire.Dial(t, redistest.Start(t).Addr()), Gate: make(chan struct{})}
	o := help.Sluggish()
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventAttempt && attempts.Add(1) == n {
			close(flights.Gate)
		}
	}
	m := wire.Wrap(t, flights, o).RWMutex("a")
	help.Together(n, func(i int) {
		check.Nil(t, fmt.Sprint("reader ", i), check.ErrorOf(m.TryRLock(t.Context())))
	})
	if got := flights.Most.Load(); got > most {
		t.Errorf("%d requests were under way at once, want %d at most", got, most)
	}
}
