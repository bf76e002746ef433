package kinds

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestCancelledWaitersLeaveNoTrace: those who gave up lowered everybody's times in Redisson's fair
// queue, or stayed in it (redisson#1104, #6150).
func TestCancelledWaitersLeaveNoTrace(t *testing.T) {
	t.Parallel()
	const waiters = 32
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := redistest.Start(t)
	all := help.Several(t, s, 4, help.InOrder(help.Sluggish()))
	held := locktest.Lock(t, all[0].Mutex("a"))
	var served help.Order
	var wg sync.WaitGroup
	arrived := make([]string, waiters)
	cancels := make([]context.CancelFunc, waiters)
	for i := range waiters {
		ctx, cancel := context.WithCancel(locktest.Within(t, 4*locktest.Patience)) // it waits for all others
		cancels[i] = cancel
		wg.Go(func() {
			err := all[i%len(all)].Mutex("a").Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
				served.Add(l.Owner())
				return nil
			})
			if err != nil && !help.IsAll(err, redlatch.ErrTaken, context.Canceled) {
				t.Errorf("Do = %v, want nil, or ErrTaken and context.Canceled", err)
			}
		})
		locktest.InLine(t, s, "a", i+1)
		arrived[i] = locktest.Line(s, "a")[i]
	}
	var want []string
	for i, cancel := range cancels {
		if random.IntN(2) == 0 {
			cancel()
		} else {
			want = append(want, arrived[i])
		}
	}
	locktest.InLine(t, s, "a", len(want))
	locktest.Release(t, held)
	wg.Wait()
	if got := served.List(); !slices.Equal(got, want) {
		t.Errorf("seed %d: served in the order\n%v\nwant those who stayed in theirs\n%v", seed, got, want)
	}
	help.WantNothingLeft(t, s, "a")
	for _, cancel := range cancels {
		cancel()
	}
}

// TestCancelAtTheMomentOfTheGrant: redis/rueidis#1010 leaks a lock when a call is cancelled;
// spring-integration#9412 believed it had acquired.
func TestCancelAtTheMomentOfTheGrant(t *testing.T) {
	t.Parallel()
	const rounds = 400
	s := redistest.Start(t)
	a, b := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	help.Hearing(t, s, b)
	granted := 0
	for range rounds {
		held := locktest.Lock(t, a.Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		result := help.GoLock(ctx, b.Mutex("a"))
		locktest.InLine(t, s, "a", 1)
		released := make(chan error, 1)
		begin := make(chan struct{})
		go func() {
			<-begin
			released <- held.Release(context.Background())
		}()
		// The grant takes a round trip and the cancellation none, so it has to come a little later
		// to meet it.
		later := time.NewTimer(time.Duration(rand.Int64N(int64(600 * time.Microsecond))))
		close(begin)
		<-later.C
		cancel()
		check.OK(t, "Release", help.Receive(t, released, "Release"))
		if got := help.Receive(t, result, "Lock"); got.Err == nil {
			granted++
			if owner := s.Do("GET", locktest.StateKey("a")); owner != got.Lease.Owner() || got.Lease.Token() == 0 {
				t.Errorf("Lock returned a lease of %s with token %d, and %q holds the lock", got.Lease.Owner(), got.Lease.Token(), owner)
			}
			locktest.Release(t, got.Lease)
		}
		help.AwaitFree(t, s, "a") // the TTL is an hour: what is lost here stays lost
	}
	t.Logf("%d of %d were granted before they were cancelled", granted, rounds)
	help.WantNothingLeft(t, s, "a")
}

// TestBusyLineIsKept: a line is gone an hour after the last heartbeat. Where everybody is served
// before a heartbeat is due, and the line is never empty, nobody kept it: after an hour it was
// deleted under those who waited.
func TestBusyLineIsKept(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := help.LockOf(locktest.Open(t, s.URL(), help.InOrder(help.Sluggish())), kind)
		held := help.Enter(t, l)
		next := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 1)
		for _, key := range []string{help.QueueKey(l.Name), help.ClientsKey(l.Name)} {
			s.Do("PEXPIRE", key, "60000") // an hour is nearly over
		}
		for range 3 {
			behind := help.GoEnter(t.Context(), l)
			locktest.InLine(t, s, l.Name, 2)
			locktest.Release(t, held)
			held, next = help.Await(t, next), behind
		}
		for _, key := range []string{help.QueueKey(l.Name), help.ClientsKey(l.Name)} {
			if ms, err := strconv.Atoi(s.Do("PTTL", key)); err != nil || ms < 600_000 {
				t.Errorf("PTTL %s = %d ms, %v, want more again than a minute: the line is in use", key, ms, err)
			}
		}
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, next))
		help.AwaitNothingLeft(t, s, l.Name)
	})
}

// TestClientsThatLeftAreForgotten: the addresses of clients that waited once were kept for as long
// as a line was not empty. The next client that comes clears them away.
func TestClientsThatLeftAreForgotten(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, other := locktest.Open(t, s.URL(), help.InOrder(help.Sluggish())), locktest.Open(t, s.URL(), help.InOrder(help.Sluggish()))
		held := help.Enter(t, help.LockOf(one, kind))
		first := help.GoEnter(t.Context(), help.LockOf(one, kind))
		locktest.InLine(t, s, held.Name(), 1)
		s.Do("EVAL", "for i = 1, 300 do redis.call('ZADD', KEYS[1], i, 'address' .. i) end", "1", help.ClientsKey(held.Name()))
		second := help.GoEnter(t.Context(), help.LockOf(other, kind))
		locktest.InLine(t, s, held.Name(), 2)
		if n := s.Do("ZCARD", help.ClientsKey(held.Name())); n != "2" {
			t.Errorf("%s clients are remembered, want the 2 that wait", n)
		}
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, first))
		locktest.Release(t, help.Await(t, second))
		help.AwaitNothingLeft(t, s, held.Name())
	})
}

// manyDie puts n tickets at the head of a mutex's line whose clients were killed: long ago, or just
// now, so that they are believed alive and nobody hears them.
func manyDie(do func(...string) string, name string, n int, until time.Time) {
	for from := 1; from <= n; from += 1000 {
		command := []string{"ZADD", help.QueueKey(name)}
		for i := from; i < from+1000 && i <= n; i++ {
			ticket := fmt.Sprintf("Hmutex\t{redlatch:DEAD%d}:grants\t30000\t\trl-DEAD%d-%d", i%8, i%8, i)
			command = append(command, strconv.Itoa(i), ticket)
		}
		do(command...)
	}
	for i := range 8 {
		do("ZADD", help.ClientsKey(name), strconv.FormatInt(until.UnixMilli(), 10), fmt.Sprintf("{redlatch:DEAD%d}:grants", i))
	}
	do("PEXPIRE", help.QueueKey(name), "3600000")
	do("PEXPIRE", help.ClientsKey(name), "3600000")
}

// TestManyDeadTickets: one release looked at all tickets of a line whose clients had died, 100,000
// in 1.7 s, in which the server answered no other client. A script may drop so many and no more;
// yet a living waiter behind them gets in at its next heartbeat, and a try is not refused on their
// account.
func TestManyDeadTickets(t *testing.T) {
	t.Parallel()
	const n, atOnce = 50_000, 11_000
	for name, until := range map[string]time.Duration{"long ago": -time.Second, "just now": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := locktest.Open(t, s.URL(), help.InOrder(help.Sluggish()))
			held := locktest.Lock(t, c.Mutex("a"))
			manyDie(s.Do, "a", n, time.Now().Add(until))
			locktest.Release(t, held)
			left, err := strconv.Atoi(s.Do("ZCARD", help.QueueKey("a")))
			if dropped := n - left; err != nil || dropped > atOnce {
				t.Errorf("one release dropped %d tickets, %v, want %d at most", dropped, err, atOnce)
			}
			held = check.Value(c.Mutex("a").TryLock(t.Context())).From(t, "TryLock")

			beating := &wire.Counting{Conn: wire.Dial(t, s.Addr())}
			next := help.GoLock(t.Context(), wire.Wrap(t, beating, help.Beats(500*time.Millisecond)).Mutex("a"))
			locktest.InLine(t, s, "a", 1)
			manyDie(s.Do, "a", n, time.Now().Add(until))
			before := beating.Count("mutex await")
			locktest.Release(t, held)
			l := help.Await(t, next)
			t.Logf("%d heartbeats", beating.Count("mutex await")-before)
			locktest.Release(t, l)
			help.WantNothingLeft(t, s, "a")
		})
	}
}

// TestFreeLockBehindManyDeadTickets: so many dead stand in line that a dozen requests have to drop
// them. Each goes on where the one before ended, without an ever longer pause, so a caller gets in
// before its time is over, also one that only tries. Scripts take no time here: the pauses alone
// count. Those of seven resends, if they grew, would be longer than the time that the caller has.
func TestFreeLockBehindManyDeadTickets(t *testing.T) {
	t.Parallel()
	const dead, atOnce, limit = 70_000, 10_000, 600 * time.Millisecond
	for name, acquire := range map[string]func(ctx context.Context, m *redlatch.Mutex) (*redlatch.Lease, error){
		"Lock":    func(ctx context.Context, m *redlatch.Mutex) (*redlatch.Lease, error) { return m.Lock(ctx) },
		"TryLock": func(ctx context.Context, m *redlatch.Mutex) (*redlatch.Lease, error) { return m.TryLock(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				over := &wire.Counting{Conn: s.Conn()}
				c := wire.Wrap(t, over, redlatch.Options{RequestTimeout: limit})
				manyDie(s.Do, "a", dead, time.Now().Add(-time.Second))
				l, err := acquire(t.Context(), c.Mutex("a"))
				check.Must(t, err == nil, "%s = %v, want a lease: only the dead are in line", name, err)
				if n := over.Count("mutex acquire"); n < dead/atOnce || n > dead/atOnce+2 {
					t.Errorf("%s took %d requests, want one for each %d of the dead", name, n, atOnce)
				}
				locktest.Release(t, l)
			})
		})
	}
}
