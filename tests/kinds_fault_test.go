package tests

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// eachKind runs a test for every kind of lock that has a line, each on a server of its own.
func eachKind(t *testing.T, test func(t *testing.T, s *redistest.Server, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t), i)
		})
	}
}

// of is the lock of a kind, as a client knows it. Its name is that of the kind.
func of(c *redlatch.Client, kind int) kindtest.Lock { return kindtest.Locks(c, "")[kind] }

func enter(t *testing.T, l kindtest.Lock) *redlatch.Lease {
	t.Helper()
	lease, err := l.Acquire(within(t, patience))
	if err != nil {
		t.Fatalf("%s: %v, want a lease", l.Kind, err)
	}
	return lease
}

func goEnter(ctx context.Context, l kindtest.Lock) <-chan outcome {
	return goAcquire(func() (*redlatch.Lease, error) { return l.Acquire(ctx) })
}

// free waits until nothing is left of a name but what outlives it on purpose.
func free(t *testing.T, s *redistest.Server, name string) {
	t.Helper()
	wantNothingLeft(t, s, name)
}

// wantSuccessor checks that the next holder has a larger token, and that nothing is left once it is
// gone.
func wantSuccessor(t *testing.T, s *redistest.Server, next <-chan outcome, token int64) {
	t.Helper()
	l := await(t, next)
	if l.Token() <= token {
		t.Errorf("token %d after %d, want more", l.Token(), token)
	}
	release(t, l)
	free(t, s, l.Name())
}

// leisurely are options of a client whose requests are lost, and are answered in time by a machine
// that pauses.
func leisurely() redlatch.Options {
	o := brisk(lasting)
	o.RequestTimeout = 9 * time.Second
	return o
}

// TestEveryKindHolderIsKilled: the next gets in when the lease of a holder that was killed is over;
// for a slot, when its rest is. Nothing but that lets it in while the test is patient.
func TestEveryKindHolderIsKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), lasts(lasting)), kind)
		holder := start(t, job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: time.Second, Heartbeat: 500 * time.Millisecond})
		held := holder.next()
		holder.kill() // before there is a line: on a slow machine the lease ends first
		wantSuccessor(t, s, goEnter(t.Context(), l), held.Token)
	})
}

// TestEveryKindHolderIsSuspended: a holder that is stopped past its TTL wakes without its lock, and
// its token is older than the next one's.
func TestEveryKindHolderIsSuspended(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), lasts(lasting)), kind)
		holder := start(t, job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: time.Second, Heartbeat: 500 * time.Millisecond})
		held := holder.next()
		holder.suspend()
		successor := enter(t, l)
		holder.resume()
		holder.ask()
		if got := holder.next(); got.Held || got.Token != 0 || !got.Lost {
			t.Errorf("the holder that was suspended reports %+v, want that it lost the lock", got)
		}
		if successor.Token() <= held.Token {
			t.Errorf("token %d after %d, want more", successor.Token(), held.Token)
		}
		release(t, successor)
	})
}

// TestEveryKindNewcomerFindsTheLine: when a lease ends without a word while another process is in
// line, a process that tries then does not get in before it. It finds the line, and wakes it.
func TestEveryKindNewcomerFindsTheLine(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		all := several(t, s, 3, inOrder(sluggish()))
		held := enter(t, of(all[0], kind))
		name, token := held.Name(), held.Token()
		next := goEnter(t.Context(), of(all[1], kind))
		queued(t, s, name, 1)
		s.Do("DEL", stateKey(name), insideKey(name), bitsKey(name))
		if _, err := of(all[2], kind).Try(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Fatalf("Try while another process is in line = %v, want ErrTaken", err)
		}
		wantSuccessor(t, s, next, token)
	})
}

// TestEveryKindWaiterIsKilled: a waiter that died is passed over at once.
func TestEveryKindWaiterIsKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), inOrder(sluggish())), kind)
		held := enter(t, l)
		token := held.Token()
		dead := start(t, job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: lasting, Heartbeat: time.Minute})
		queued(t, s, l.Name, 1)
		next := goEnter(t.Context(), l)
		queued(t, s, l.Name, 2)
		dead.kill()
		eventually(t, "the server knows that the waiter is gone", func() bool {
			return s.Do("PUBSUB", "NUMSUB", "{redlatch:"+dead.client+"}:grants") == "{redlatch:"+dead.client+"}:grants\n0"
		})
		release(t, held)
		wantSuccessor(t, s, next, token)
	})
}

// TestEveryKindLostReplies: a request whose reply was lost means one when it is sent again,
// whatever it asks.
func TestEveryKindLostReplies(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		p := startProxy(t, s)
		c := open(t, p.url(), sluggish())
		l := of(c, kind)
		warm := enter(t, l)
		if err := warm.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		release(t, warm)

		p.swallow(replies)
		result := goEnter(t.Context(), l)
		eventually(t, "it is inside", func() bool { return s.Do("EXISTS", stateKey(l.Name)) == "1" })
		p.heal()
		lease := await(t, result)
		info, err := c.Inspect(t.Context(), l.Name)
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != lease.Token() {
			t.Errorf("Inspect = %+v, %v, want one holder with token %d", info.Holders, err, lease.Token())
		}
		other := of(open(t, s.URL(), sluggish()), kind)
		token := lease.Token()
		next := goEnter(t.Context(), other)
		queued(t, s, l.Name, 1)
		if err := lease.Extend(t.Context()); err != nil { // the connection is up again: else the release would not arrive at all
			t.Fatalf("Extend = %v", err)
		}

		p.swallow(replies)
		released := make(chan error, 1)
		go func() { released <- lease.Release(context.Background()) }()
		successor := await(t, next)
		p.heal()
		if err := receive(t, released, "the release"); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		if successor.Token() <= token || !successor.Held() {
			t.Errorf("the successor has token %d after %d, held %t", successor.Token(), token, successor.Held())
		}
		release(t, successor)
		free(t, s, l.Name)
	})
}

// TestEveryKindCallerGivesUp: what a request that got no reply may have left is undone when the
// caller gives up.
func TestEveryKindCallerGivesUp(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		p := startProxy(t, s)
		l := of(open(t, p.url(), leisurely()), kind)
		warm := enter(t, l)
		if err := warm.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		release(t, warm)
		p.swallow(replies)
		ctx, cancel := context.WithCancel(t.Context())
		result := goEnter(ctx, l)
		eventually(t, "it is inside", func() bool { return s.Do("EXISTS", stateKey(l.Name)) == "1" })
		cancel()
		if err := awaitError(t, result); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire = %v, want context.Canceled", err)
		}
		p.heal()
		free(t, s, l.Name)
	})
}

// TestEveryKindServerForgets: the server loses everything while one holds and another waits. The
// waiter gets in with a larger token, and the holder is told.
func TestEveryKindServerForgets(t *testing.T) {
	forget := map[string]func(*redistest.Server){
		"flush":   func(s *redistest.Server) { s.Do("FLUSHALL") },
		"restart": func(s *redistest.Server) { s.Restart() },
	}
	t.Parallel()
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
				// The holder is told at its next extend, after a third of the TTL: a pause of the
				// machine does not cost it the lease. The waiter finds out at its heartbeat.
				one, other := open(t, s.URL(), brisk(9*time.Second)), open(t, s.URL(), brisk(lasting))
				held := enter(t, of(one, kind))
				token := held.Token()
				next := goEnter(t.Context(), of(other, kind))
				queued(t, s, held.Name(), 1)
				forget(s)
				wantSuccessor(t, s, next, token)
				wantLost(t, held)
			})
		})
	}
}

// TestEveryKindSubscriptionIsLost: a grant that is published while the waiter's subscription is
// down is found by asking.
func TestEveryKindSubscriptionIsLost(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
		held := enter(t, of(one, kind))
		token := held.Token()
		next := goEnter(t.Context(), of(other, kind))
		queued(t, s, held.Name(), 1)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		release(t, held)
		wantSuccessor(t, s, next, token)
	})
}

// TestEveryKindCancelledWaitersLeaveNoTrace also has the line go on behind them.
func TestEveryKindCancelledWaitersLeaveNoTrace(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), inOrder(sluggish())), kind)
		held := enter(t, l)
		token := held.Token()
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled []<-chan outcome
		for i := range 5 {
			cancelled = append(cancelled, goEnter(ctx, l))
			queued(t, s, l.Name, i+1)
		}
		next := goEnter(t.Context(), l)
		queued(t, s, l.Name, 6)
		cancel()
		for _, result := range cancelled {
			if err := awaitError(t, result); !errors.Is(err, context.Canceled) {
				t.Errorf("acquire = %v, want context.Canceled", err)
			}
		}
		queued(t, s, l.Name, 1)
		release(t, held)
		wantSuccessor(t, s, next, token)
	})
}

// TestEveryKindClose: who waits is told, who holds loses, and nothing of the client is left but
// what it held.
func TestEveryKindClose(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, err := redlatch.Open(t.Context(), s.URL(), inOrder(sluggish()))
		if err != nil {
			t.Fatal(err)
		}
		held := enter(t, of(c, kind))
		waits := goEnter(t.Context(), of(c, kind))
		queued(t, s, held.Name(), 1)
		if err := closeLeaving(c); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
		if err := awaitError(t, waits); !errors.Is(err, redlatch.ErrClosed) {
			t.Errorf("acquire = %v, want ErrClosed", err)
		}
		wantLost(t, held)
		if got := s.Do("EXISTS", queueKey(held.Name()), clientsKey(held.Name())); got != "0" {
			t.Error("a line is left behind")
		}
	})
}

// TestKindsExcludeEachOther: a name that is used for one kind, or that somebody waits for as one,
// is refused to all others, with both named, and nothing is changed.
func TestKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	hearing(t, s, c)
	once := func(ctx context.Context, name string) error {
		_, err := c.Job(name, redlatch.JobOptions{Window: time.Hour}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		return err
	}
	acquire := map[string]func(name string) error{
		"mutex":     func(n string) error { _, err := c.Mutex(n).Lock(t.Context()); return err },
		"reentrant": func(n string) error { _, err := c.ReentrantMutex(n).Lock(t.Context()); return err },
		"rwmutex":   func(n string) error { _, err := c.RWMutex(n).RLock(t.Context()); return err },
		"semaphore": func(n string) error { _, err := c.Semaphore(n, 3).Acquire(t.Context(), 1); return err },
		"slotpool": func(n string) error {
			_, err := c.SlotPool(n, 3, redlatch.SlotOptions{}).Acquire(t.Context())
			return err
		},
		"election": func(n string) error { _, err := c.Election(n).Campaign(t.Context(), "me"); return err },
		"job":      func(n string) error { return once(t.Context(), n) },
	}
	for kind, take := range acquire {
		if err := take(kind); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	dump := func() string {
		return s.Do("EVAL", `local all = {}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  if not string.find(key, ':client$') then all[#all + 1] = key .. redis.sha1hex(redis.call('DUMP', key)) end
end
return all`, "0")
	}
	before := dump()
	wantBoth := func(err error, want, got string) {
		t.Helper()
		kind := (*redlatch.KindError)(nil)
		if !errors.As(err, &kind) || kind.Want != want || kind.Got != got {
			t.Errorf("%s on a name of a %s = %v, want a KindError that names both", want, got, err)
		}
	}
	for there := range acquire {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	if after := dump(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	// No owner is inside any more, and a client that is believed alive waits.
	for i, l := range kindtest.Locks(c, "") {
		s.Do("DEL", stateKey(l.Name), insideKey(l.Name))
		s.Do("ZADD", queueKey(l.Name), strconv.Itoa(i+1), "A"+l.Kind+"\tsomebody\t30000\t1:3\trl-x-1")
		s.Do("ZADD", clientsKey(l.Name), "9000000000000", "somebody")
	}
	before = dump()
	for _, there := range kindtest.Kinds() {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	if after := dump(); after != before {
		t.Errorf("with a line, before:\n%s\nafter:\n%s", before, after)
	}
}

// TestEveryKindLeavesNothingForEver: the hash of who is inside was made anew for the next in line,
// and got no TTL as K lasted for longer than the next lease; when the next holder died, it stayed
// for ever.
func TestEveryKindLeavesNothingForEver(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		held := enter(t, of(open(t, s.URL(), sluggish()), kind))
		wantExpiry(t, s)
		o := sluggish()
		o.Lock.TTL /= 2
		holder, process := startMortal(t, s, o)
		next := goEnter(t.Context(), of(holder, kind))
		queued(t, s, held.Name(), 1)
		wantExpiry(t, s)
		ctx, giveUp := context.WithCancel(t.Context())
		behind := goEnter(ctx, of(open(t, s.URL(), sluggish()), kind)) // so that the line goes on
		queued(t, s, held.Name(), 2)
		release(t, held)
		await(t, next)
		wantExpiry(t, s)
		giveUp()
		awaitError(t, behind)
		process.kill()
	})
}
