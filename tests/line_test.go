package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// several returns n clients of a server.
func several(t testing.TB, s *redistest.Server, n int, o redlatch.Options) []*redlatch.Client {
	t.Helper()
	clients := make([]*redlatch.Client, n)
	for i := range clients {
		clients[i] = open(t, s.URL(), o)
	}
	return clients
}

// order remembers in which order something happened.
type order struct {
	mu   sync.Mutex // guards done
	done []string
}

func (o *order) add(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = append(o.done, owner)
}

func (o *order) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.done)
}

// wantNothingLeft checks that of all that redlatch kept in Redis only fences and the records of clients are left.
func wantNothingLeft(t reporter, s *redistest.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "nothing is left of "+name, func() bool {
			return s.Do("EXISTS", stateKey(name), queueKey(name), clientsKey(name), insideKey(name), bitsKey(name)) == "0"
		})
	}
}

// TestFirstComeFirstServed: FIFO by whole seconds let a later waiter in first (go-redislock); everybody else in the field has no order.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	const clients, workers = 8, 16
	s := redistest.Start(t)
	all := several(t, s, clients, inOrder(sluggish()))
	held := lock(t, all[0].Mutex("a"))
	var served order
	var wg sync.WaitGroup
	for _, c := range all {
		for range workers {
			wg.Go(func() {
				err := c.Mutex("a").Do(within(t, patience), func(_ context.Context, l *redlatch.Lease) error {
					served.add(l.Owner())
					return nil
				})
				if err != nil {
					t.Errorf("Do = %v", err)
				}
			})
		}
	}
	queued(t, s, "a", clients*workers)
	arrived := line(s, "a")
	release(t, held)
	wg.Wait()
	if got := served.list(); !slices.Equal(got, arrived) {
		t.Errorf("served in the order\n%v\nwant the order of arrival\n%v", got, arrived)
	}
	wantNothingLeft(t, s, "a")
}

// TestNobodyStarves: of the best peers with 128 waiters one got 28 turns and another none.
func TestNobodyStarves(t *testing.T) {
	t.Parallel()
	const clients, workers, turns = 8, 16, 4
	s := redistest.Start(t)
	var served order
	var wg sync.WaitGroup
	held := lock(t, open(t, s.URL(), inOrder(sluggish())).Mutex("a"))
	for i, c := range several(t, s, clients, inOrder(sluggish())) {
		for j := range workers {
			wg.Go(func() {
				for range turns {
					l, err := c.Mutex("a").Lock(within(t, patience))
					if err != nil {
						t.Errorf("Lock = %v", err)
						return
					}
					served.add(fmt.Sprint(i, j))
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
			})
		}
	}
	queued(t, s, "a", clients*workers)
	release(t, held)
	wg.Wait()
	// Whoever was served is back in line long before everybody else had their turn; 2 allows for a goroutine that was slow to come back.
	got := served.list()
	for at := clients * workers; at <= len(got)-clients*workers; at += clients * workers {
		count := make(map[string]int)
		for _, who := range got[:at] {
			count[who]++
		}
		fewest, most := turns, 0
		for _, n := range count {
			fewest, most = min(fewest, n), max(most, n)
		}
		if len(count) != clients*workers || most-fewest > 2 {
			t.Errorf("after %d turns %d waiters had between %d and %d, want %d with a difference of 2 at most",
				at, len(count), fewest, most, clients*workers)
		}
	}
}

// TestCancelledWaitersLeaveNoTrace: those who gave up lowered everybody's times in Redisson's fair queue, or stayed in it (redisson#1104,
// #6150).
func TestCancelledWaitersLeaveNoTrace(t *testing.T) {
	t.Parallel()
	const waiters = 32
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := redistest.Start(t)
	all := several(t, s, 4, inOrder(sluggish()))
	held := lock(t, all[0].Mutex("a"))
	var served order
	var wg sync.WaitGroup
	arrived := make([]string, waiters)
	cancels := make([]context.CancelFunc, waiters)
	for i := range waiters {
		ctx, cancel := context.WithCancel(within(t, patience))
		cancels[i] = cancel
		wg.Go(func() {
			err := all[i%len(all)].Mutex("a").Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
				served.add(l.Owner())
				return nil
			})
			if err != nil && !isAll(err, redlatch.ErrTaken, context.Canceled) {
				t.Errorf("Do = %v, want nil, or ErrTaken and context.Canceled", err)
			}
		})
		queued(t, s, "a", i+1)
		arrived[i] = line(s, "a")[i]
	}
	var want []string
	for i, cancel := range cancels {
		if random.IntN(2) == 0 {
			cancel()
		} else {
			want = append(want, arrived[i])
		}
	}
	queued(t, s, "a", len(want))
	release(t, held)
	wg.Wait()
	if got := served.list(); !slices.Equal(got, want) {
		t.Errorf("seed %d: served in the order\n%v\nwant those who stayed in theirs\n%v", seed, got, want)
	}
	wantNothingLeft(t, s, "a")
	for _, cancel := range cancels {
		cancel()
	}
}

// TestCancelAtTheMomentOfTheGrant: redis/rueidis#1010 leaks a lock when a call is cancelled; spring-integration#9412 believed it had
// acquired.
func TestCancelAtTheMomentOfTheGrant(t *testing.T) {
	t.Parallel()
	const rounds = 400
	s := redistest.Start(t)
	a, b := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	hearing(t, s, b)
	granted := 0
	for range rounds {
		held := lock(t, a.Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		result := goLock(ctx, b.Mutex("a"))
		queued(t, s, "a", 1)
		released := make(chan error, 1)
		begin := make(chan struct{})
		go func() {
			<-begin
			released <- held.Release(context.Background())
		}()
		// The grant takes a round trip and the cancellation none, so it has to come a little later to meet it.
		later := time.NewTimer(time.Duration(rand.Int64N(int64(600 * time.Microsecond))))
		close(begin)
		<-later.C
		cancel()
		if err := receive(t, released, "Release"); err != nil {
			t.Fatalf("Release = %v", err)
		}
		if got := receive(t, result, "Lock"); got.err == nil {
			granted++
			if owner := s.Do("GET", stateKey("a")); owner != got.lease.Owner() || got.lease.Token() == 0 {
				t.Errorf("Lock returned a lease of %s with token %d, and %q holds the lock", got.lease.Owner(), got.lease.Token(), owner)
			}
			release(t, got.lease)
		}
		awaitFree(t, s, "a") // the TTL is an hour: what is lost here stays lost
	}
	t.Logf("%d of %d were granted before they were cancelled", granted, rounds)
	wantNothingLeft(t, s, "a")
}
