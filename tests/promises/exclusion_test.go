package promises

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestSuspendedHolderWakesWithoutItsLock: the process that a collector's pause or a laptop's lid
// stops in the middle of its work, past its TTL.
func TestSuspendedHolderWakesWithoutItsLock(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := help.LockOf(locktest.Open(t, s.URL(), help.Lasts(help.Lasting)), kind)
		// The TTL outlasts a pause of the machine: the holder has the lock when it tells its token.
		holder := worker.Start(t, worker.Job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: 3 * time.Second, Heartbeat: time.Minute})
		var resource help.HighWater
		old := holder.Next()
		check.Must(t, old.Held && resource.Admit(old.Token), "the holder reports %+v, want it to hold the lock", old)
		result := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 1)
		holder.Suspend()
		next := help.Await(t, result)
		check.That(t, next.Token() > old.Token && resource.Admit(next.Token()), "the next token is %d after %d, want more, and admitted", next.Token(), old.Token)
		holder.Ask()
		holder.Resume()
		woken := holder.Next()
		check.That(t, woken.Token == 0 && !woken.Held && woken.Done && woken.Lost, "after waking it reports %+v, want token 0, not held, context done, lost", woken)
		check.That(t, !resource.Admit(old.Token), "the resource took a write with the old token %d after one with %d", old.Token, next.Token())
		locktest.Release(t, next)
	})
}

// TestKindsExcludeEachOther: a name that is used for one kind, or that somebody waits for as one,
// is refused to all others, with both named, and nothing is changed.
func TestKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	help.Hearing(t, s, c)
	acquire := map[string]func(name string) error{
		"job": func(n string) error {
			work := func(context.Context, *redlatch.Lease) error { return nil }
			return check.ErrorOf(trial.Hourly(c, n).Do(t.Context(), work))
		},
		"countdown": func(n string) error {
			return check.ErrorOf(c.CountDownLatch(n).TrySetCount(t.Context(), 1, 0))
		},
	}
	for _, kind := range kindtest.Kinds() {
		acquire[kind] = func(n string) error {
			return check.ErrorOf(kindtest.Of(c, kind, n).Acquire(t.Context()))
		}
	}
	for kind, take := range acquire {
		check.OK(t, kind, take(kind))
	}
	dump := func() string {
		return s.Do("EVAL", `local all = {}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  if not string.find(key, ':client$') and not string.find(key, 'journal}:log$') then all[#all + 1] = key .. redis.sha1hex(redis.call('DUMP', key)) end
end
return all`, "0")
	}
	before := dump()
	wantBoth := func(err error, want, got string) {
		t.Helper()
		kind := (*redlatch.KindError)(nil)
		check.That(t, errors.As(err, &kind) && kind.Want == want && kind.Got == got, "%s on a name of a %s = %v, want a KindError that names both", want, got, err)
	}
	for there := range acquire {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	check.Equal(t, dump(), before, "the keys")
	// No owner is inside any more, and a client that is believed alive waits.
	for i, l := range kindtest.Locks(c, "") {
		s.Do("DEL", locktest.StateKey(l.Name), help.InsideKey(l.Name))
		s.Do("ZADD", help.QueueKey(l.Name), strconv.Itoa(i+1), "A"+l.Kind+"\tsomebody\t30000\t1:3\trl-x-1")
		s.Do("ZADD", help.ClientsKey(l.Name), "9000000000000", "somebody")
	}
	before = dump()
	for _, there := range kindtest.Kinds() {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	check.Equal(t, dump(), before, "the keys with a line")
}

// TestLateWriteIsRefusedByRedis has the guard in the server that holds the value.
func TestLateWriteIsRefusedByRedis(t *testing.T) {
	t.Parallel()
	worker.WantLateRefused(t, redistest.Start(t))
}

// TestTokensGrowOverEverything: counters restart at 1 with FLUSHALL, a restart or their own TTL
// (lynx-redis-lock), or are kept for ever (redisson#6510).
func TestTokensGrowOverEverything(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := locktest.Open(t, s.URL(), help.InOrder(help.Sluggish())), locktest.Open(t, s.URL(), help.InOrder(help.Sluggish()))
	var last int64
	acquired := func(after string, l *redlatch.Lease) *redlatch.Lease {
		t.Helper()
		if token := l.Token(); token <= last {
			t.Errorf("token %d after %d, over %s, want more", token, last, after)
		} else {
			last = token
		}
		return l
	}
	steps := []struct {
		what string
		do   func(*redlatch.Lease)
	}{
		{"a release", func(l *redlatch.Lease) { locktest.Release(t, l) }},
		{"an expiry", func(*redlatch.Lease) {
			s.Do("PEXPIRE", locktest.StateKey("a"), "1")
			help.AwaitFree(t, s, "a") // a waiter that comes before waits for the end of the lease
		}},
		{"a deleted key", func(*redlatch.Lease) { s.Do("DEL", locktest.StateKey("a")) }},
		{"a force-release", func(l *redlatch.Lease) {
			check.Nil(t, "ForceRelease", check.ErrorOf(b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: l.Owner()})))
		}},
		{"FLUSHALL", func(*redlatch.Lease) { s.Do("FLUSHALL") }},
		{"kill -9 and a restart without data", func(*redlatch.Lease) { s.Kill(); s.Restart() }},
		{"a deleted fence", func(l *redlatch.Lease) { s.Do("DEL", help.FenceKey("a")); locktest.Release(t, l) }},
		{"a fence ahead of the clock", func(l *redlatch.Lease) {
			s.Do("SET", help.FenceKey("a"), "4000000000000000")
			locktest.Release(t, l)
			last = 4000000000000000
		}},
		{"that, and again", func(l *redlatch.Lease) { locktest.Release(t, l) }},
	}
	l := acquired("nothing", locktest.Lock(t, a.Mutex("a")))
	for i, step := range steps {
		step.do(l)
		c := a
		if i%2 == 0 {
			c = b
		}
		l = acquired(step.what, locktest.Lock(t, c.Mutex("a")))
	}
	locktest.Release(t, l)
}

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

// TestRelayPassesOn: ten goroutines of a process wait for a mutex, each with a MaxWait of its own, as
// when a program computes it from a deadline. The client acquires the mutex once for all of them. They
// have it in order, each with a larger token, and no token is given again.
func TestRelayPassesOn(t *testing.T) {
	t.Parallel()
	const n = 10
	s := redistest.Start(t)
	requests := &wire.Counting{Conn: wire.Dial(t, s.Addr())}
	o, seen := help.Watched(help.Sluggish())
	c := wire.Wrap(t, requests, o)
	m := c.Mutex("a")
	held := locktest.Lock(t, m)
	var results []<-chan help.Outcome
	for i := range n {
		patient := m.With(redlatch.LockOptions{MaxWait: locktest.Patience + time.Duration(i)})
		results = append(results, help.GoLocks(t, t.Context(), patient, seen, 1)...)
	}
	token := time.Now().Add(time.Hour).UnixMicro() // the clock gives none so large, so they are counted from here
	s.Do("SET", help.FenceKey("a"), strconv.FormatInt(token, 10))
	acquired := requests.Count("mutex acquire")
	locktest.Release(t, held)
	owner := ""
	for i, result := range results {
		l := help.Await(t, result)
		check.That(t, l.Token() == token+1, "the token of number %d is %d, want %d", i, l.Token(), token+1)
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
		check.That(t, !l.Held() && l.Token() == 0, "number %d has passed the mutex on, and still holds it", i)
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
