package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
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

// wantNothingLeft checks that of all that redlatch kept in Redis only fences and the records of
// clients are left.
func wantNothingLeft(t reporter, s *redistest.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "nothing is left of "+name, func() bool {
			return s.Do("EXISTS", stateKey(name), queueKey(name), clientsKey(name), insideKey(name), bitsKey(name)) == "0"
		})
	}
}

// wantExpiry checks that every key on a server that only redlatch uses ends by itself: what a
// process leaves behind when it dies must not stay for ever. It does not hold for the epoch of a
// quorum.
func wantExpiry(t reporter, s *redistest.Server) {
	t.Helper()
	if forever := s.Do("EVAL", `local forever = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then forever[#forever + 1] = key end
end
return forever`, "0"); forever != "" {
		t.Fatalf("these keys never expire:\n%s", forever)
	}
}

// TestFirstComeFirstServed: FIFO by whole seconds let a later waiter in first (go-redislock);
// everybody else in the field has no order.
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
				err := c.Mutex("a").Do(within(t, 4*patience), func(_ context.Context, l *redlatch.Lease) error { // it waits for all others
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
	over := dial(t, s.Addr())
	t.Cleanup(func() { _ = over.Close() })
	var served, workersServed, next order // owners, who they are, and who is the first in line meanwhile
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
					look := over.Eval(within(t, patience), conn.Call{Script: commandOf, Args: []string{"ZRANGE", queueKey("a"), "0", "0"}})[0]
					if look.Err != nil {
						t.Errorf("the first in line: %v", look.Err)
					}
					ticket := look.Reply.Text
					served.add(l.Owner())
					workersServed.add(fmt.Sprint(i, " ", j))
					next.add(ticket[strings.LastIndexByte(ticket, '\t')+1:])
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
	// All stood in line, so each has a turn before any has its second.
	first := slices.Compact(slices.Sorted(slices.Values(workersServed.list()[:clients*workers])))
	if len(first) != clients*workers {
		t.Errorf("%d of %d waiters had one of the first %d turns, want all", len(first), clients*workers, clients*workers)
	}
	// From then on they come back when they come back. None that is the first in line is passed over.
	got, expected := served.list(), next.list()
	for i := range len(got) - 1 {
		if expected[i] != "" && got[i+1] != expected[i] {
			t.Errorf("turn %d went to %s, want %s, which was the first in line", i+1, got[i+1], expected[i])
		}
	}
}

// TestCancelledWaitersLeaveNoTrace: those who gave up lowered everybody's times in Redisson's fair
// queue, or stayed in it (redisson#1104, #6150).
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
		ctx, cancel := context.WithCancel(within(t, 4*patience)) // it waits for all others
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

// TestCancelAtTheMomentOfTheGrant: redis/rueidis#1010 leaks a lock when a call is cancelled;
// spring-integration#9412 believed it had acquired.
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
		// The grant takes a round trip and the cancellation none, so it has to come a little later
		// to meet it.
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

// TestBusyLineIsKept: a line is gone an hour after the last heartbeat. Where everybody is served
// before a heartbeat is due, and the line is never empty, nobody kept it: after an hour it was
// deleted under those who waited.
func TestBusyLineIsKept(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), inOrder(sluggish())), kind)
		held := enter(t, l)
		next := goEnter(t.Context(), l)
		queued(t, s, l.Name, 1)
		for _, key := range []string{queueKey(l.Name), clientsKey(l.Name)} {
			s.Do("PEXPIRE", key, "60000") // an hour is nearly over
		}
		for range 3 {
			behind := goEnter(t.Context(), l)
			queued(t, s, l.Name, 2)
			release(t, held)
			held, next = await(t, next), behind
		}
		for _, key := range []string{queueKey(l.Name), clientsKey(l.Name)} {
			if ms, err := strconv.Atoi(s.Do("PTTL", key)); err != nil || ms < 600_000 {
				t.Errorf("PTTL %s = %d ms, %v, want more again than a minute: the line is in use", key, ms, err)
			}
		}
		release(t, held)
		release(t, await(t, next))
		free(t, s, l.Name)
	})
}

// TestClientsThatLeftAreForgotten: the addresses of clients that waited once were kept for as long
// as a line was not empty. The next client that comes clears them away.
func TestClientsThatLeftAreForgotten(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, other := open(t, s.URL(), inOrder(sluggish())), open(t, s.URL(), inOrder(sluggish()))
		held := enter(t, of(one, kind))
		first := goEnter(t.Context(), of(one, kind))
		queued(t, s, held.Name(), 1)
		s.Do("EVAL", "for i = 1, 300 do redis.call('ZADD', KEYS[1], i, 'address' .. i) end", "1", clientsKey(held.Name()))
		second := goEnter(t.Context(), of(other, kind))
		queued(t, s, held.Name(), 2)
		if n := s.Do("ZCARD", clientsKey(held.Name())); n != "2" {
			t.Errorf("%s clients are remembered, want the 2 that wait", n)
		}
		release(t, held)
		release(t, await(t, first))
		release(t, await(t, second))
		free(t, s, held.Name())
	})
}

// manyDie puts n tickets at the head of a mutex's line whose clients were killed: long ago, or just
// now, so that they are believed alive and nobody hears them.
func manyDie(do func(...string) string, name string, n int, until time.Time) {
	for from := 1; from <= n; from += 1000 {
		command := []string{"ZADD", queueKey(name)}
		for i := from; i < from+1000 && i <= n; i++ {
			ticket := fmt.Sprintf("Hmutex\t{redlatch:DEAD%d}:grants\t30000\t\trl-DEAD%d-%d", i%8, i%8, i)
			command = append(command, strconv.Itoa(i), ticket)
		}
		do(command...)
	}
	for i := range 8 {
		do("ZADD", clientsKey(name), strconv.FormatInt(until.UnixMilli(), 10), fmt.Sprintf("{redlatch:DEAD%d}:grants", i))
	}
	do("PEXPIRE", queueKey(name), "3600000")
	do("PEXPIRE", clientsKey(name), "3600000")
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
			c := open(t, s.URL(), inOrder(sluggish()))
			held := lock(t, c.Mutex("a"))
			manyDie(s.Do, "a", n, time.Now().Add(until))
			release(t, held)
			left, err := strconv.Atoi(s.Do("ZCARD", queueKey("a")))
			if dropped := n - left; err != nil || dropped > atOnce {
				t.Errorf("one release dropped %d tickets, %v, want %d at most", dropped, err, atOnce)
			}
			held, err = c.Mutex("a").TryLock(t.Context())
			if err != nil {
				t.Fatalf("TryLock = %v, want a lease: only the dead are in line", err)
			}

			beating := &counting{Conn: dial(t, s.Addr())}
			next := goLock(t.Context(), wrap(t, beating, beats(500*time.Millisecond)).Mutex("a"))
			queued(t, s, "a", 1)
			manyDie(s.Do, "a", n, time.Now().Add(until))
			before := beating.count("mutex await")
			release(t, held)
			l := await(t, next)
			t.Logf("%d heartbeats", beating.count("mutex await")-before)
			release(t, l)
			wantNothingLeft(t, s, "a")
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
			inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
				over := &counting{Conn: s.Conn()}
				c := wrap(t, over, redlatch.Options{RequestTimeout: limit})
				manyDie(func(args ...string) string { return commandIn(t, s, args...) }, "a", dead, time.Now().Add(-time.Second))
				l, err := acquire(t.Context(), c.Mutex("a"))
				if err != nil {
					t.Fatalf("%s = %v, want a lease: only the dead are in line", name, err)
				}
				if n := over.count("mutex acquire"); n < dead/atOnce || n > dead/atOnce+2 {
					t.Errorf("%s took %d requests, want one for each %d of the dead", name, n, atOnce)
				}
				release(t, l)
			})
		})
	}
}
