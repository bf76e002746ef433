package kinds

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// lingering are options with which a lock stays with its client for all of a test, unless another
// client asks for it.
func lingering() redlatch.Options {
	o := help.Sluggish()
	o.Lock.Linger = o.Lock.TTL / 3
	return o
}

// keep has a client keep the mutex of that name, and returns the last token of it.
func keep(t *testing.T, s *redistest.Server, c *redlatch.Client, name string) (token int64) {
	t.Helper()
	locktest.Eventually(t, "the client keeps "+name, func() bool {
		l := locktest.Lock(t, c.Mutex(name))
		token = l.Token()
		locktest.Release(t, l)
		return strings.HasSuffix(s.Do("GET", locktest.StateKey(name)), "~")
	})
	return token
}

// mayBeKept returns a lease that its client may keep when it is released.
func mayBeKept(t *testing.T, acquire func(context.Context) (*redlatch.Lease, error)) (l *redlatch.Lease) {
	t.Helper()
	locktest.Eventually(t, "a lease may be kept", func() bool {
		l = check.Value(acquire(t.Context())).OK(t)
		kept := strings.Contains(l.LogValue().String(), "~") // since a program that asks for the owner has it not kept
		if !kept {
			locktest.Release(t, l)
		}
		return kept
	})
	return l
}

// keeping returns a server, a client that keeps the mutex "a" there, and the last token of it.
func keeping(t *testing.T) (*redistest.Server, *redlatch.Client, int64) {
	t.Helper()
	s, c := locktest.Start(t, lingering())
	return s, c, keep(t, s, c, "a")
}

// TestKeptLockIsTakenWithoutARequest: the next acquisitions of a client that keeps a lock ask Redis
// nothing, by Lock, Do and a try, and each has a larger token.
func TestKeptLockIsTakenWithoutARequest(t *testing.T) {
	t.Parallel()
	s, c, _ := keeping(t)
	m := c.Mutex("a")
	before := s.Commands()
	var token int64
	for range 20 {
		l := locktest.Lock(t, m)
		check.That(t, l.Token() > token, "a token of %d after %d", l.Token(), token)
		token = l.Token()
		check.That(t, l.Held() && l.Context().Err() == nil, "a lease that was kept is not held")
		locktest.Release(t, l)
		check.That(t, !l.Held() && l.Context().Err() != nil, "a lease that is kept is held")
		l = check.Value(m.TryLock(t.Context())).OK(t)
		check.That(t, l.Token() > token, "a token of %d after %d", l.Token(), token)
		token = l.Token()
		locktest.Release(t, l)
	}
	check.Equal(t, s.Commands()-before, 1, "commands, that of the count included")
	check.Nil(t, "Close", c.Close())
	check.Equal(t, s.Do("EXISTS", locktest.StateKey("a")), "0", "keys of a lock whose client is closed")
}

// TestKeptLockGoesToAWaiter: a waiter of another client gets a lock that is only kept at once, and one
// that is in use at its release; then the first client waits in line like any other.
func TestKeptLockGoesToAWaiter(t *testing.T) {
	t.Parallel()
	s, c, token := keeping(t)
	other := locktest.Open(t, s.URL(), lingering())
	l := locktest.Lock(t, other.Mutex("a"))
	check.That(t, l.Token() > token, "a token of %d after %d", l.Token(), token)
	locktest.Release(t, l)

	keep(t, s, c, "b")
	used := locktest.Lock(t, c.Mutex("b"))
	waits := help.GoLock(t.Context(), other.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	locktest.Release(t, used)
	l = help.Await(t, waits)
	check.That(t, l.Token() > token, "a token of %d after %d", l.Token(), token)
	locktest.Release(t, l)

	keep(t, s, c, "c")
	before := help.CommandCalls(s, "evalsha")
	l = locktest.Lock(t, other.Mutex("c"))
	check.Equal(t, help.CommandCalls(s, "evalsha")-before, 2, "requests of the waiter and of the client that gives it back")
	locktest.Release(t, l)
}

// TestKeptLockIsShown: Inspect and List tell a lock that is only kept from one that is in use.
func TestKeptLockIsShown(t *testing.T) {
	t.Parallel()
	_, c, _ := keeping(t)
	shown := func() bool { // as kept
		info := check.Value(c.Inspect(t.Context(), "a")).OK(t)
		return len(info.Holders) == 1 && !info.Holders[0].Kept.IsZero()
	}
	locktest.Eventually(t, "it is shown as kept", shown)
	for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
		check.OK(t, "List", err)
		check.That(t, !info.Holders[0].Kept.IsZero(), "List shows it as in use")
	}
	l := locktest.Lock(t, c.Mutex("a"))
	locktest.Eventually(t, "it is shown as in use", func() bool { return !shown() })
	locktest.Release(t, l)
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

// TestTryAsksForAKeptLock: a try gets a lock that is only kept. If it is in use, the try is refused.
func TestTryAsksForAKeptLock(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, lingering())
	other := locktest.Open(t, s.URL(), help.Sluggish())
	triesKept(t, func(name string) func(context.Context) (*redlatch.Lease, error) {
		keep(t, s, c, name)
		return other.Mutex(name).TryLock
	})

	keep(t, s, c, "b")
	used := locktest.Lock(t, c.Mutex("b"))
	for range 2 {
		locktest.Eventually(t, "a try is told that it is in use", func() bool {
			_, err := other.Mutex("b").TryLock(t.Context())
			check.Must(t, errors.Is(err, redlatch.ErrTaken), "a try of a lock in use = %v, want ErrTaken", err)
			return !strings.Contains(err.Error(), "only keep")
		})
	}
	locktest.Release(t, used)
	help.AwaitFree(t, s, "b")
}

// triesKept tries a lock that another client keeps. A client that the machine lets wait for 100 ms may
// answer too late, and another name is tried.
func triesKept(t *testing.T, kept func(name string) (try func(context.Context) (*redlatch.Lease, error))) {
	t.Helper()
	n := 0
	locktest.Eventually(t, "a try gets a lock that is kept", func() bool {
		n++
		l, err := kept(fmt.Sprintf("try-%d", n))(t.Context())
		if err == nil {
			locktest.Release(t, l)
			return true
		}
		late := errors.Is(err, redlatch.ErrTaken) && strings.Contains(err.Error(), "did not answer within")
		check.Must(t, late, "a try of a lock that is kept = %v", err)
		return false
	})
}

// TestOwnTryAsksNobody: a try of the client that has the lock in use knows so: it
// does not ask itself for the lock, and the client keeps that as before.
func TestOwnTryAsksNobody(t *testing.T) {
	t.Parallel()
	_, c, _ := keeping(t)
	used := locktest.Lock(t, c.Mutex("a"))
	check.Error(t, "a try of a lock in use", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrTaken)
	locktest.Release(t, used)
	l := locktest.Lock(t, c.Mutex("a"))
	check.Equal(t, l.Owner(), used.Owner(), "owner of a lock that its own client has tried")
	locktest.Release(t, l)
}

// TestWaitBehindALockThatWasKept: a goroutine that waits for a lock which another one of its client has
// taken up without a request is told that it is taken, and not that Redis is out of reach.
func TestWaitBehindALockThatWasKept(t *testing.T) {
	t.Parallel()
	_, c, _ := keeping(t)
	used := locktest.Lock(t, c.Mutex("a"))
	_, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: time.Millisecond}).Lock(t.Context())
	check.That(t, errors.Is(err, redlatch.ErrTaken) && !errors.Is(err, redlatch.ErrUnreachable), "Lock of a mutex that is in use = %v, want ErrTaken", err)
	locktest.Release(t, used)
}

// TestDetachedLockIsInUse: a lock that may be kept, and was detached, is in use for those that try it.
func TestDetachedLockIsInUse(t *testing.T) {
	t.Parallel()
	s, c, _ := keeping(t)
	other := locktest.Open(t, s.URL(), help.Sluggish())
	text := check.Value(locktest.Lock(t, c.Mutex("a")).Detach(t.Context())).OK(t)
	locktest.Eventually(t, "a try is told that it is in use", func() bool {
		_, err := other.Mutex("a").TryLock(t.Context())
		check.Must(t, errors.Is(err, redlatch.ErrTaken), "a try of a lock that was detached = %v, want ErrTaken", err)
		return !strings.Contains(err.Error(), "only keep")
	})
	l := check.Value(other.Adopt(t.Context(), text, redlatch.LockOptions{})).OK(t)
	locktest.Release(t, l)
}

// TestDeadKeeperDoesNotAnswer: a client that died while it kept a lock does not answer. A try is
// refused, and says why.
func TestDeadKeeperDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s, c, _ := keeping(t)
	other := locktest.Open(t, s.URL(), help.Sluggish())
	owner := s.Do("GET", locktest.StateKey("a"))
	check.Nil(t, "Close", c.Close())
	s.Do("SET", locktest.StateKey("a"), owner, "PX", "60000")
	_, err := other.Mutex("a").TryLock(t.Context())
	if !errors.Is(err, redlatch.ErrTaken) || !strings.Contains(err.Error(), "does not listen") {
		t.Errorf("a try of a lock whose keeper is dead = %v, want ErrTaken and why", err)
	}
}

// TestNothingIsKeptUnheard: a client that may have missed that others ask gives all back, and keeps
// locks again once it listens again.
func TestNothingIsKeptUnheard(t *testing.T) {
	t.Parallel()
	s, c, _ := keeping(t)
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	help.AwaitFree(t, s, "a")
	keep(t, s, c, "a")
}

// TestLingeringClientsTakeTurns: several clients that keep locks exclude each other, and all get
// their turns.
func TestLingeringClientsTakeTurns(t *testing.T) {
	t.Parallel()
	const clients, turns = 4, 100
	s := redistest.Start(t)
	all := help.Several(t, s, clients, lingering())
	var inside int
	var last int64
	var mu sync.Mutex
	help.Together(clients, func(i int) {
		for range turns {
			l, err := all[i].Mutex("a").Lock(locktest.Within(t, locktest.Patience))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inside++
			check.Equal(t, inside, 1, "holders")
			check.That(t, l.Token() > last, "a token of %d after %d", l.Token(), last)
			last = l.Token()
			inside--
			mu.Unlock()
			check.Nil(t, "Release", l.Release(context.Background()))
		}
	})
}

// TestKeptCycleIsCheap: what a cycle of a lock that is kept costs can be counted. It is not parallel,
// as what others allocate would count.
func TestKeptCycleIsCheap(t *testing.T) {
	const most = 4 // of its acquisition, and none of its release
	_, c, _ := keeping(t)
	m, ctx := c.Mutex("a"), context.Background()
	allocations := testing.AllocsPerRun(100, func() {
		l := check.Value(m.Lock(ctx)).OK(t)
		check.Nil(t, "Release", l.Release(ctx))
	})
	check.That(t, allocations <= most, "%v allocations for a cycle, want %d at most", allocations, most)
}

// TestKeptReadersAndWriters: an RWMutex is kept by its readers and its writers. A writer of another
// client gets it when all readers have given it back, also those that use it still; and a reader gets
// what a writer keeps.
func TestKeptReadersAndWriters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := help.Several(t, s, 3, lingering())
	writer := locktest.Open(t, s.URL(), help.Sluggish())
	for _, c := range clients {
		locktest.Release(t, mayBeKept(t, c.RWMutex("a").RLock))
	}
	before := s.Commands()
	var token int64
	for range 10 {
		l := check.Value(clients[0].RWMutex("a").RLock(t.Context())).OK(t)
		check.That(t, l.Token() > token, "a token of %d after %d", l.Token(), token)
		token = l.Token()
		locktest.Release(t, l)
	}
	check.Equal(t, s.Commands()-before, 1, "commands, that of the count included")

	used := check.Value(clients[1].RWMutex("a").RLock(t.Context())).OK(t)
	// Its lease ends first, so it is the occupant that is told where no other is looked for.
	plain := check.Value(writer.RWMutex("a").With(redlatch.LockOptions{TTL: help.Lasting / 2}).RLock(t.Context())).OK(t)
	waits := help.GoAcquire(func() (*redlatch.Lease, error) { return writer.RWMutex("a").Lock(t.Context()) })
	locktest.InLine(t, s, "a", 1)
	locktest.Release(t, plain)
	locktest.Release(t, used)
	w := help.Await(t, waits)
	check.That(t, w.Token() > token, "a token of %d after %d", w.Token(), token)
	locktest.Release(t, w)

	locktest.Release(t, mayBeKept(t, clients[0].RWMutex("b").Lock))
	r := check.Value(writer.RWMutex("b").RLock(t.Context())).OK(t)
	locktest.Release(t, r)
	triesKept(t, func(name string) func(context.Context) (*redlatch.Lease, error) {
		locktest.Release(t, mayBeKept(t, clients[0].RWMutex(name).Lock))
		return writer.RWMutex(name).TryRLock
	})
}

// TestReaderUnderAWriterThatMayBeKept: a reader that came in under a writer is still inside when the
// writer leaves. The writer's client may not take the lock up again then, nor with a smaller token later.
func TestReaderUnderAWriterThatMayBeKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), lingering()), locktest.Open(t, s.URL(), redlatch.Options{})
	byName := func(by *redlatch.Client) func(m *redlatch.RWMutex, w *redlatch.Lease) (*redlatch.Lease, error) {
		return func(m *redlatch.RWMutex, w *redlatch.Lease) (*redlatch.Lease, error) {
			return by.RWMutex(m.Name()).RLock(redlatch.WithOwner(t.Context(), w.Owner()))
		}
	}
	for name, read := range map[string]func(m *redlatch.RWMutex, w *redlatch.Lease) (*redlatch.Lease, error){
		"downgraded": func(m *redlatch.RWMutex, w *redlatch.Lease) (*redlatch.Lease, error) {
			return m.Downgrade(t.Context(), w)
		},
		"by its context": func(m *redlatch.RWMutex, w *redlatch.Lease) (*redlatch.Lease, error) {
			return m.RLock(context.WithoutCancel(w.Context()))
		},
		"by its owner":             byName(c),
		"by its owner, in another": byName(other),
	} {
		m := c.RWMutex(name)
		w := mayBeKept(t, m.Lock)
		r := check.Value(read(m, w)).OK(t)
		if w.Held() {
			locktest.Release(t, w)
		}
		_, err := m.TryLock(t.Context())
		check.Error(t, name+": TryLock beside the reader", err, redlatch.ErrTaken)
		last := r.Token()
		locktest.Release(t, r)
		next := check.Value(m.Lock(t.Context())).OK(t)
		check.That(t, next.Token() > last, "%s: a writer has the token %d after a reader had %d", name, next.Token(), last)
		locktest.Release(t, next)
	}
}

// TestOwnerThatAnotherProcessHas: it reads beside the lease of that owner, and beside no later one of the
// same client, whether the program asks for the owner while it holds the lease or after that.
func TestOwnerThatAnotherProcessHas(t *testing.T) {
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		m, other := s.Client(t, lingering()).RWMutex("a"), s.Client(t, help.Sluggish()).RWMutex("a")
		for _, early := range []bool{true, false} {
			l := mayBeKept(t, m.Lock)
			owner := ""
			if early {
				owner = l.Owner()
			}
			locktest.Release(t, l)
			if !early {
				owner = l.Owner()
			}
			l = check.Value(m.Lock(t.Context())).OK(t)
			_, err := other.TryRLock(redlatch.WithOwner(t.Context(), owner))
			check.Refusal(t, "TryRLock beside another writer", err, redlatch.ErrTaken)
			locktest.Release(t, l)
		}
	})
}

// TestContextOfAWriterThatIsDone: it is not that of the next lease, which may have the same owner.
func TestContextOfAWriterThatIsDone(t *testing.T) {
	t.Parallel()
	m := locktest.Open(t, redistest.Start(t).URL(), lingering()).RWMutex("a")
	w := mayBeKept(t, m.Lock)
	done := context.WithoutCancel(w.Context())
	locktest.Release(t, w)
	w = check.Value(m.Lock(t.Context())).OK(t)
	_, err := m.TryRLock(done)
	check.Error(t, "TryRLock beside a writer", err, redlatch.ErrTaken)
	locktest.Release(t, w)
	locktest.Release(t, check.Value(m.Lock(done)).OK(t))
}

// wished waits until Redis knows that so many holders of a name want to be told.
func wished(t *testing.T, s *redistest.Server, name string, n string) {
	t.Helper()
	locktest.Eventually(t, "holders want to be told", func() bool { return s.Do("ZCOUNT", help.ClientsKey(name), "-inf", "(0") == n })
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

// TestWantedIsPushed: a holder of each kind is told as soon as a waiter of another process comes,
// with no heartbeat and no extend, and keeps what it holds; what it asked for does not stay.
func TestWantedIsPushed(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		near, far := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
		name := help.LockOf(near, kind).Name
		l := help.Enter(t, help.LockOf(near, kind))
		wanted := l.Wanted()
		wished(t, s, name, "1")
		wantOpen(t, wanted, "before any waiter has come")
		check.That(t, s.Do("PTTL", help.ClientsKey(name)) != "-1", "the wish of a holder stays for ever")
		next := help.GoEnter(t.Context(), help.LockOf(far, kind))
		help.Receive(t, wanted, "the word of a waiter")
		wished(t, s, name, "0")
		check.That(t, l.Wanted() == wanted && l.Held(), "held %t after the word of a waiter, want so, and the same channel again", l.Held())
		token := l.Token()
		locktest.Release(t, l)
		help.WantSuccessor(t, s, next, token)
	})
}

// TestWantedByItsOwnProcess: goroutines of the same client count, also those that send nothing to
// Redis, whether they come before or after the holder asks.
func TestWantedByItsOwnProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	first := locktest.Lock(t, m)
	wanted := first.Wanted()
	wished(t, s, "a", "1")
	results := help.GoLocks(t, t.Context(), m, seen, 2)
	help.Receive(t, wanted, "the word of a goroutine")
	locktest.Release(t, first)
	second := help.Await(t, results[0])
	help.Receive(t, second.Wanted(), "the word of a goroutine that waited before")
	locktest.Release(t, second)
	third := help.Await(t, results[1])
	wanted = third.Wanted()
	locktest.Eventually(t, "the wish of the last is there", func() bool {
		return strings.Contains(s.Do("ZRANGE", help.ClientsKey("a"), "0", "-1"), third.Owner())
	})
	wantOpen(t, wanted, "when no other is left")
	locktest.Release(t, third)
}

// permit takes one permit.
func permit(t *testing.T, s *redlatch.Semaphore) *redlatch.Lease {
	t.Helper()
	return check.Value(s.Acquire(locktest.Within(t, locktest.Patience), 1)).OK(t)
}

// TestWantedIsForThoseThatAsk: where no holder has asked, a waiter publishes nothing. A holder is
// not told of a waiter of before its time. Each holder of a semaphore is told.
func TestWantedIsForThoseThatAsk(t *testing.T) {
	t.Parallel()
	s, near, far := locktest.StartTwo(t, help.Sluggish())
	l := locktest.Lock(t, near.Mutex("a"))
	ctx, cancel := context.WithCancel(t.Context())
	next := help.GoLock(ctx, far.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	check.That(t, !strings.Contains(s.Do("INFO", "commandstats"), "cmdstat_publish:"), "a message was published for a holder that has not asked")
	cancel()
	_ = help.AwaitError(t, next)
	locktest.InLine(t, s, "a", 0)
	wanted := l.Wanted()
	wished(t, s, "a", "1")
	wantOpen(t, wanted, "after the waiter gave up")
	locktest.Release(t, l)

	held := make([]*redlatch.Lease, 2)
	for i := range held {
		held[i] = permit(t, near.Semaphore("s", 2))
		held[i].Wanted()
		wished(t, s, "s", []string{"1", "2"}[i])
	}
	third := help.GoAcquire(func() (*redlatch.Lease, error) { return far.Semaphore("s", 2).Acquire(t.Context(), 1) })
	for _, l := range held {
		help.Receive(t, l.Wanted(), "the word of a waiter")
		locktest.Release(t, l)
	}
	locktest.Release(t, help.Await(t, third))
}
