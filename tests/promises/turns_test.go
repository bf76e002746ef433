package promises

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestFirstComeFirstServed: FIFO by whole seconds let a later waiter in first (go-redislock);
// everybody else in the field has no order.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	const clients, workers = 8, 16
	s := redistest.Start(t)
	all := help.Several(t, s, clients, help.InOrder(help.Sluggish()))
	held := locktest.Lock(t, all[0].Mutex("a"))
	var served help.Order
	var wg sync.WaitGroup
	for _, c := range all {
		for range workers {
			wg.Go(func() {
				err := c.Mutex("a").Do(locktest.Within(t, 4*locktest.Patience), func(_ context.Context, l *redlatch.Lease) error { // it waits for all others
					served.Add(l.Owner())
					return nil
				})
				check.That(t, err == nil, "Do = %v", err)
			})
		}
	}
	locktest.InLine(t, s, "a", clients*workers)
	arrived := locktest.Line(s, "a")
	locktest.Release(t, held)
	wg.Wait()
	if got := served.List(); !slices.Equal(got, arrived) {
		t.Errorf("served in the order\n%v\nwant the order of arrival\n%v", got, arrived)
	}
	help.WantNothingLeft(t, s, "a")
}

// aheadOfTheClock makes the last token of a name larger than any that the clock gives, so that
// tokens are counted from here.
func aheadOfTheClock(s *redistest.Server, name string) (last int64) {
	last = time.Now().Add(time.Hour).UnixMicro()
	s.Do("SET", help.FenceKey(name), strconv.FormatInt(last, 10))
	return last
}

// TestRelayPassesOn: ten goroutines of a process wait for a mutex. It is acquired once for all of
// them, who have it in order, each with a larger token; and no token is given again.
func TestRelayPassesOn(t *testing.T) {
	t.Parallel()
	const n = 10
	s := redistest.Start(t)
	requests := &wire.Counting{Conn: wire.Dial(t, s.Addr())}
	o, seen := help.Watched(help.Sluggish())
	c := wire.Wrap(t, requests, o)
	m := c.Mutex("a")
	held := locktest.Lock(t, m)
	results := help.GoLocks(t, t.Context(), m, seen, n)
	token := aheadOfTheClock(s, "a")
	acquired := requests.Count("mutex acquire")
	locktest.Release(t, held)
	owner := ""
	for i, result := range results {
		l := help.Await(t, result)
		if l.Token() != token+1 {
			t.Errorf("the token of number %d is %d, want %d", i, l.Token(), token+1)
		}
		if token = l.Token(); i == 0 {
			owner = l.Owner()
		}
		if l.Owner() != owner || s.Do("GET", locktest.StateKey("a")) != owner {
			t.Errorf("number %d has the owner %s, and in Redis it is %s, want %s as the first", i, l.Owner(), s.Do("GET", locktest.StateKey("a")), owner)
		}
		if remaining := l.Remaining(); remaining < help.Lasting/2 {
			t.Errorf("number %d has %v left, want most of %v", i, remaining, help.Lasting)
		}
		locktest.Release(t, l)
		if l.Held() || l.Token() != 0 {
			t.Errorf("number %d has passed the mutex on, and still holds it", i)
		}
		check.Nil(t, "a second Release", l.Release(t.Context()))
	}
	// One without a place in line, since nobody hears grants yet; and one with.
	if got := requests.Count("mutex acquire") - acquired; got > 2 {
		t.Errorf("%d requests to acquire it, want 2 at most", got)
	}
	help.WantNothingLeft(t, s, "a")
	if next := locktest.Lock(t, locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a")); next.Token() <= token {
		t.Errorf("token %d after %d, want more", next.Token(), token)
	}
}
