package kinds

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// lingering are options with which a lock stays with its client for all of a test, unless another
// client asks for it.
func lingering() redlatch.Options {
	o := help.Sluggish()
	o.Lock.Linger = o.Lock.TTL / 3
	return o
}

// mayBeKept returns a lease that its client may keep when it is released.
func mayBeKept(t *testing.T, acquire func(context.Context) (*redlatch.Lease, error)) (l *redlatch.Lease) {
	t.Helper()
	locktest.Eventually(t, "a lease may be kept", func() bool {
		l = check.Value(acquire(locktest.Within(t, locktest.Patience))).OK(t)
		kept := strings.Contains(l.LogValue().String(), "~") // since a program that asks for the owner has it not kept
		if !kept {
			locktest.Release(t, l)
		}
		return kept
	})
	return l
}

// keep has a client keep a lock, and returns the last token of it.
func keep(t *testing.T, acquire func(context.Context) (*redlatch.Lease, error)) int64 {
	t.Helper()
	l := mayBeKept(t, acquire)
	token := l.Token()
	locktest.Release(t, l)
	return token
}

// TestKeptLock: the client that keeps a lock takes it again by Lock and by a try, without a request and
// each time with a larger token. Inspect and List tell it from a lock in use. While a goroutine uses
// it, tries of the same client fail with ErrTaken and send no question. Close gives it back.
func TestKeptLock(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		over := &wire.Counting{Conn: s.Conn()}
		c := wire.Wrap(t, over, lingering())
		m := c.Mutex("a")
		token := keep(t, m.Lock)
		requests := func() int { return over.Count("mutex acquire") + over.Count("mutex release") }
		before := requests()
		for range 20 {
			for _, acquire := range []func(context.Context) (*redlatch.Lease, error){m.Lock, m.TryLock} {
				l := check.Value(acquire(t.Context())).OK(t)
				check.That(t, l.Token() > token && l.Context().Err() == nil, "a token of %d after %d, held %t", l.Token(), token, l.Held())
				token = l.Token()
				locktest.Release(t, l)
				check.That(t, !l.Held() && l.Context().Err() != nil, "a lease that is kept is held")
			}
		}
		check.Equal(t, requests(), before, "requests")

		kept := func() bool { return !check.Value(c.Inspect(t.Context(), "a")).OK(t).Holders[0].Kept.IsZero() }
		locktest.Eventually(t, "Inspect shows it as kept", kept)
		for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
			check.That(t, err == nil && !info.Holders[0].Kept.IsZero(), "List shows it as in use: %v", err)
		}
		used := locktest.Lock(t, m)
		locktest.Eventually(t, "Inspect shows it as in use", func() bool { return !kept() })
		check.Error(t, "a try of a lock in use", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
		check.Equal(t, over.Count("mutex ask"), 0, "questions to itself")
		err := check.ErrorOf(m.With(redlatch.LockOptions{MaxWait: time.Millisecond}).Lock(t.Context()))
		check.That(t, errors.Is(err, redlatch.ErrTaken) && !errors.Is(err, redlatch.ErrUnreachable), "Lock of a mutex that is in use = %v, want ErrTaken", err)
		locktest.Release(t, used)
		check.Nil(t, "Close", c.Close())
		check.Equal(t, s.Do("EXISTS", locktest.StateKey("a")), "0", "keys of a lock whose client is closed")
	})
}

// TestHolderBeganInThePast: a client that takes many tokens with a lock has the last of them a little
// ahead of the server's clock. Inspect does not say that the lease begins in the future.
func TestHolderBeganInThePast(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, lingering())
	l := locktest.Lock(t, c.Mutex("a"))
	s.Do("SET", locktest.SiblingKey("a", "fence"), strconv.FormatInt(l.Token()+1e9, 10), "EX", "60")
	info := check.Value(c.Inspect(t.Context(), "a")).OK(t)
	check.That(t, !info.Holders[0].Since.After(info.At), "held since %v, at %v", info.Holders[0].Since, info.At)
	locktest.Release(t, l)
}

// TestKeptLockGoesToOthers: a waiter and a try of another client get a lock that is only kept. One that is in
// use, or was detached, goes to a waiter when it is released, and a try is refused. So is a try where the
// keeper is dead, and says why. A client that may have missed that others ask gives all back.
func TestKeptLockGoesToOthers(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, lingering())
		over := &wire.Counting{Conn: s.Conn()}
		m, other := c.Mutex("a"), wire.Wrap(t, over, help.Sluggish()).Mutex("a")
		wantTaken := func(what, why string, says bool) {
			t.Helper()
			_, err := other.TryLock(t.Context())
			check.That(t, errors.Is(err, redlatch.ErrTaken) && strings.Contains(err.Error(), why) == says, "a try of a lock %s = %v", what, err)
		}
		token := keep(t, m.Lock)
		help.WantNext(t, help.GoLock(t.Context(), other), token)
		token = keep(t, m.Lock)
		help.WantNext(t, help.GoTryLock(t.Context(), other), token)

		token = keep(t, m.Lock)
		acquires, asks, began := over.Count("mutex acquire"), over.Count("mutex ask"), time.Now()
		help.WantNext(t, help.GoLock(t.Context(), other), token)
		check.That(t, over.Count("mutex acquire") == acquires+1 && over.Count("mutex ask") == asks && time.Since(began) < time.Second,
			"a waiter that listens has what is kept after %v, with other requests than one for a place in line", time.Since(began))

		token = keep(t, m.Lock)
		used := locktest.Lock(t, m)
		for range 2 {
			wantTaken("in use", "only keep", false)
		}
		waits := help.GoLock(t.Context(), other)
		locktest.InLine(t, s, "a", 1)
		locktest.Release(t, used)
		help.WantNext(t, waits, token)

		keep(t, m.Lock)
		text := help.Detach(t, locktest.Lock(t, m))
		wantTaken("that was detached", "only keep", false)
		locktest.Release(t, help.Adopt(t, c, text))

		keep(t, m.Lock)
		s.Cut(c)
		s.Mend(c)
		help.AwaitFree(t, s, "a")
		keep(t, m.Lock)
		owner := s.Do("GET", locktest.StateKey("a"))
		check.Nil(t, "Close", c.Close())
		s.Do("SET", locktest.StateKey("a"), owner, "PX", "60000")
		wantTaken("whose keeper is dead", "does not listen", true)
	})
}

// TestKeptCycleIsCheap: what a cycle of a lock that is kept costs can be counted. It is not parallel,
// as what others allocate would count.
func TestKeptCycleIsCheap(t *testing.T) {
	const most = 4 // of its acquisition, and none of its release
	_, c := locktest.Start(t, lingering())
	m, ctx := c.Mutex("a"), context.Background()
	keep(t, m.Lock)
	allocations := testing.AllocsPerRun(100, func() {
		l := check.Value(m.Lock(ctx)).OK(t)
		check.Nil(t, "Release", l.Release(ctx))
	})
	check.That(t, allocations <= most, "%v allocations for a cycle, want %d at most", allocations, most)
}

// TestOwnerThatAnotherProcessHas: it reads beside the lease of that owner, and beside no later one of the
// same client, whether the program asks for the owner while it holds the lease, by Leases, or after that. Nor
// does the context of a lease that is done, under which the program may write again.
func TestOwnerThatAnotherProcessHas(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, lingering())
		m, other := c.RWMutex("a"), s.Client(t, help.Sluggish()).RWMutex("a")
		for _, when := range []string{"early", "by Leases", "late"} {
			l := mayBeKept(t, m.Lock)
			owner := ""
			switch when {
			case "early":
				owner = l.Owner()
			case "by Leases":
				owner = c.Leases()[0].Owner
			}
			locktest.Release(t, l)
			if when == "late" {
				owner = l.Owner()
			}
			l = check.Value(m.Lock(locktest.Within(t, locktest.Patience))).OK(t)
			_, err := other.TryRLock(redlatch.WithOwner(t.Context(), owner))
			check.Refusal(t, "TryRLock beside another writer", err, redlatch.ErrTaken)
			locktest.Release(t, l)
		}
		l := mayBeKept(t, m.Lock)
		done := context.WithoutCancel(l.Context())
		locktest.Release(t, l)
		l = check.Value(m.Lock(t.Context())).OK(t)
		_, err := m.TryRLock(done)
		check.Must(t, errors.Is(err, redlatch.ErrTaken), "TryRLock beside a writer = %v, want ErrTaken", err)
		locktest.Release(t, l)
		locktest.Release(t, check.Value(m.Lock(done)).OK(t))
	})
}

// TestUnkeptComesAfterReleased: while the hook is told that a lock was released and is kept, another
// goroutine of the client locks. The hook was told first that the lock is not kept any more.
func TestUnkeptComesAfterReleased(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o := lingering()
		told := make(chan redlatch.EventType, 1000)
		o.Hook = func(_ context.Context, e redlatch.Event) {
			if e.Kept {
				time.Sleep(time.Millisecond)
			}
			told <- e.Type
		}
		m := s.Client(t, o).Mutex("a")
		l := mayBeKept(t, m.Lock)
		for len(told) > 0 {
			<-told
		}
		go func() { _ = l.Release(context.Background()) }()
		synctest.Wait()
		locktest.Release(t, check.Value(m.Lock(t.Context())).OK(t))
		var all []redlatch.EventType
		for len(told) > 0 {
			all = append(all, <-told)
		}
		i, j := slices.Index(all, redlatch.EventReleased), slices.Index(all, redlatch.EventUnkept)
		check.That(t, i >= 0 && i < j, "the hook was told %q", all)
	})
}

// wantOpen checks that a holder was not told.
func wantOpen(t *testing.T, wanted <-chan struct{}, when string) {
	t.Helper()
	select {
	case <-wanted:
		t.Errorf("a holder is told that it is waited for %s", when)
	default:
	}
}

// TestWantedByItsOwnProcess: goroutines of the same client count, also those that send nothing to
// Redis, whether they come before or after the holder asks.
func TestWantedByItsOwnProcess(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Sluggish())
		m := s.Client(t, o).Mutex("a")
		first := locktest.Lock(t, m)
		wanted := first.Wanted()
		results := help.GoLocks(t, t.Context(), m, seen, 2)
		help.Receive(t, wanted, "the word of a goroutine")
		locktest.Release(t, first)
		second := help.Await(t, results[0])
		help.Receive(t, second.Wanted(), "the word of a goroutine that waited before")
		locktest.Release(t, second)
		third := help.Await(t, results[1])
		wanted = third.Wanted()
		time.Sleep(time.Second)
		wantOpen(t, wanted, "when no other is left")
		locktest.Release(t, third)
	})
}

// TestLateHeartbeatTellsNoHolder: a waiter has given up, and a copy of its last request arrives after
// that. No holder is told that it is waited for.
func TestLateHeartbeatTellsNoHolder(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		m := s.Client(t, redlatch.Options{}).Mutex("a")
		held := locktest.Lock(t, m)
		wanted := held.Wanted()
		time.Sleep(time.Second)
		late := script.Mutex.Await(check.Value(keys.Of("redlatch:", "a")).OK(t), "{redlatch:gone}:grants", time.Minute, time.Hour, []string{"a ticket"})
		check.OK(t, "await", s.Conn().Eval(t.Context(), late)[0].Err)
		time.Sleep(time.Second)
		wantOpen(t, wanted, "when the waiter has left")
		result := help.GoLock(t.Context(), m)
		help.Receive(t, wanted, "the word of a waiter that came after it")
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, result))
	})
}
