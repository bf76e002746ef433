package tests

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
	"github.com/redlatch/redlatch/internal/redistest"
)

// together runs f for each of n numbers at the same time.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// TestRequestsGoTogether: the more goroutines a client has at work, the fewer requests it takes for
// each.
func TestRequestsGoTogether(t *testing.T) {
	t.Parallel()
	const goroutines, turns = 100, 20
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	release(t, lock(t, c.Mutex("first words")))
	s.Do("CONFIG", "RESETSTAT")
	together(goroutines, func(i int) {
		last := int64(0)
		for range turns {
			l := lock(t, c.Mutex(strconv.Itoa(i)))
			if l.Token() <= last {
				t.Errorf("token %d after %d, want more", l.Token(), last)
			}
			last = l.Token()
			release(t, l)
		}
	})
	if n := evalshas(s.Do("INFO", "commandstats")); n > goroutines*turns {
		t.Errorf("%d requests for %d acquisitions and releases, want fewer than one for two", n, goroutines*turns*2)
	}
	for i := range goroutines {
		wantNothingLeft(t, s, strconv.Itoa(i))
	}
}

// takeSome has one client hold every tenth of n mutexes, and another, whose events are seen, wait
// for it.
func takeSome(t *testing.T, n int, holder, other *redlatch.Client, seen *events) (held map[int]*redlatch.Lease, waiting map[int]<-chan outcome) {
	t.Helper()
	held, waiting = make(map[int]*redlatch.Lease), make(map[int]<-chan outcome)
	for i := 0; i < n; i += 10 {
		held[i] = lock(t, holder.Mutex(strconv.Itoa(i)))
		waiting[i] = goLocks(t, t.Context(), other.Mutex(strconv.Itoa(i)), seen, 1)[0]
	}
	return held, waiting
}

// TestBundleOfWhichSomeAreTaken: what one of many finds does not touch the others.
func TestBundleOfWhichSomeAreTaken(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), o)
	held, waiting := takeSome(t, n, c, other, seen)
	leases := make([]*redlatch.Lease, n)
	together(n, func(i int) {
		var err error
		leases[i], err = c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := held[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and it is taken: %t", i, err, taken)
		}
	})
	for i, l := range held {
		leases[i] = l
	}
	together(n, func(i int) { release(t, leases[i]) })
	for _, result := range waiting { // let in by the releases
		release(t, await(t, result))
	}
	for i := range n {
		wantNothingLeft(t, s, strconv.Itoa(i))
	}
}

// TestBundleDoesNotOvertake: mutexes are free, and somebody is in line for some of them. It is
// their turn.
func TestBundleDoesNotOvertake(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	c, other, third := open(t, s.URL(), sluggish()), open(t, s.URL(), o), open(t, s.URL(), sluggish())
	_, waiting := takeSome(t, n, third, other, seen)
	for i := range waiting {
		s.Do("DEL", stateKey(strconv.Itoa(i)))
	}
	together(n, func(i int) {
		_, err := c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := waiting[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and somebody is in line for it: %t", i, err, taken)
		}
	})
	for _, result := range waiting {
		release(t, await(t, result))
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
			o, seen := watched(brisk(lasting))
			o.RequestTimeout = patience
			if extended {
				o.Lock.TTL = 6 * time.Second
			}
			c := open(t, s.URL(), o)
			leases := make([]*redlatch.Lease, n)
			together(n, func(i int) { leases[i] = lock(t, c.Mutex(strconv.Itoa(i))) })
			s.Do("DEL", stateKey(strconv.Itoa(bad)))
			s.Do("HSET", stateKey(strconv.Itoa(bad)), "field", "value")
			if extended {
				wantLost(t, leases[bad])
				eventually(t, "the others are extended", func() bool { return seen.count(redlatch.EventExtended) >= n-1 })
			}
			// The releases begin in order, while the server answers none. The first leave by
			// themselves, and that of the bad mutex goes in a bundle behind others.
			s.Pause()
			var all sync.WaitGroup
			for i, l := range leases {
				all.Go(func() {
					err := l.Release(context.Background())
					if i != bad && err != nil {
						t.Errorf("Release of %d = %v, want nil", i, err)
					}
					if i == bad && err == nil {
						t.Errorf("Release of the one that was overwritten = nil")
					}
				})
				<-l.Context().Done() // just before its request
			}
			s.Resume()
			all.Wait()
			together(n, func(i int) {
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
	c := open(t, s.URL(), sluggish())
	release(t, lock(t, c.Mutex("first words")))
	s.Pause()
	start := time.Now()
	together(50, func(i int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Millisecond)
		defer cancel()
		if _, err := c.Mutex(strconv.Itoa(i)).TryLock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryLock = %v, want context.DeadlineExceeded", err)
		}
	})
	if took := time.Since(start); took > patience/3 { // one request of theirs would go on for so long
		t.Errorf("they came back after %v", took)
	}
	s.Resume()
	for i := range 50 {
		awaitFree(t, s, strconv.Itoa(i))
	}
}

// TestBurstIsBounded: thousands of goroutines ask for something at once. What is under way together
// shares a time limit, so it is bounded, as protocol.md says: a burst fails on no server that
// works, however long all of it takes.
func TestBurstIsBounded(t *testing.T) {
	t.Parallel()
	const n, most = 3_000, 2048 + 32 // and those that leave by themselves
	var attempts atomic.Int64
	flights := &airport{Conn: dial(t, redistest.Start(t).Addr()), gate: make(chan struct{})}
	o := sluggish()
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventAttempt && attempts.Add(1) == n {
			close(flights.gate)
		}
	}
	m := wrap(t, flights, o).RWMutex("a")
	together(n, func(i int) {
		if _, err := m.TryRLock(t.Context()); err != nil {
			t.Errorf("reader %d got %v, want a lease", i, err)
		}
	})
	if got := flights.most.Load(); got > most {
		t.Errorf("%d requests were under way at once, want %d at most", got, most)
	}
}
