package process

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestNothingIsLeftAfterClose: Redisson leaks subscriptions (redisson#4216, #4064) and queue keys
// without a TTL, python-redis-lock millions of signal keys.
func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := make([]*redlatch.Client, 3)
	for i := range clients {
		c := check.Value(redlatch.Open(t.Context(), s.URL(), help.Sluggish())).OK(t)
		clients[i] = c
	}
	for _, name := range []string{"a", "b", "{tagged}:c"} {
		held := locktest.Lock(t, clients[0].Mutex(name))
		ctx, cancel := context.WithCancel(t.Context())
		canceled, served := help.GoLock(ctx, clients[1].Mutex(name)), help.GoLock(t.Context(), clients[2].Mutex(name))
		locktest.Eventually(t, "two are in line", func() bool { return help.Waiting(t, clients[0], name) == 2 })
		cancel()
		help.AwaitError(t, canceled)
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, served))
	}
	for _, c := range clients {
		check.Nil(t, "Close", locktest.CloseLeaving(c))
	}
	locktest.Eventually(t, "all connections are closed", func() bool { return help.Connections(s) == 0 })
	check.Equal(t, s.Do("PUBSUB", "CHANNELS"), "", "somebody still listens to")
	keys := strings.Fields(s.Do("KEYS", "*"))
	check.That(t, len(keys) == 3, "%d keys are left, want a fence for each name: %v", len(keys), keys)
	for _, key := range keys {
		if ttl, err := strconv.Atoi(s.Do("TTL", key)); !strings.HasSuffix(key, ":fence") || err != nil || ttl <= 0 {
			t.Errorf("key %s is left, with a TTL of %d (%v), want fences with a TTL only", key, ttl, err)
		}
	}
}

// TestCloseTwiceAtOnce: a second Close returns when the first does, and the same, so that the program may
// go on without the client.
func TestCloseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		over := make(chan struct{})
		o := help.Sluggish()
		o.Hook = func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventLost {
				<-over
			}
		}
		c := s.Client(t, o)
		locktest.Lock(t, c.Mutex("a"))
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- c.Close() }()
		}
		synctest.Wait()
		check.Equal(t, len(results), 0, "how many have returned while the lease ends")
		close(over)
		err, left := <-results, (*redlatch.LeftError)(nil)
		check.That(t, errors.As(err, &left) && len(left.Leases) == 1, "the first Close = %v, want the lease that was held", err)
		check.Equal(t, <-results, err, "the second Close")
	})
}

// TestCloseIsBounded: Close does not wait for a server that hangs.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := check.Value(redlatch.Open(t.Context(), s.URL(), redlatch.Options{RequestTimeout: 3 * time.Second})).OK(t)
	defer s.Resume() // long after Close has returned, if it does
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	s.Pause()
	tried, closed := help.GoTryLock(t.Context(), c.Mutex("a")), make(chan error, 1)
	retry.Sleep(t.Context(), 100*time.Millisecond) // else the try may not have begun, and is refused at once
	go func() { closed <- c.Close() }()
	_ = help.Receive(t, closed, "Close of a client whose server hangs")
	check.Error(t, "TryLock", help.AwaitError(t, tried), redlatch.ErrClosed)
}

// TestClosedClientSaysSo: Redis would have answered, so the error must not send anyone to look at it.
func TestClosedClientSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := check.Value(redlatch.Open(t.Context(), s.URL(), redlatch.Options{})).OK(t)
	check.OK(t, "Close", c.Close())
	check.Error(t, "Inspect", check.ErrorOf(c.Inspect(t.Context(), "a")), redlatch.ErrClosed)
	check.Error(t, "Deadlocks", check.ErrorOf(c.Deadlocks(t.Context())), redlatch.ErrClosed)
	for _, err := range c.List(t.Context(), redlatch.ListOptions{}) {
		check.Error(t, "List", err, redlatch.ErrClosed)
	}
}

// TestClosedClientChangesNothing: over a connection that the program brought, and that stays open.
func TestClosedClientChangesNothing(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		far, over := s.Client(t, help.Brisk(time.Minute)), s.Conn()
		defer func() { _ = over.Close() }()
		c := wire.Wrap(t, &wire.Lossy{Conn: over, Hits: wire.None}, redlatch.Options{})
		held, permit := locktest.Lock(t, far.Mutex("a")), check.Value(far.Semaphore("s", 2).Acquire(t.Context(), 1)).OK(t)
		check.OK(t, "Close", c.Close())
		check.Error(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})), redlatch.ErrClosed)
		check.Error(t, "Resize", check.ErrorOf(c.Semaphore("s", 2).Resize(t.Context(), 3)), redlatch.ErrClosed)
		check.OK(t, "Extend", held.Extend(t.Context()))
		check.OK(t, "TryAcquire of the size before", check.ErrorOf(far.Semaphore("s", 2).TryAcquire(t.Context(), 1)))
		locktest.Release(t, permit)
	})
}

// TestCloseCutsCallsShort: calls whose requests get no answer, whether the server ran them or not, end
// with the client, no later than one request may take, and nothing of them stays for ever.
func TestCloseCutsCallsShort(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	for _, m := range []wire.Mishap{wire.Swallowed, wire.Unanswered} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			ctx, far, over := t.Context(), s.Client(t, help.Brisk(time.Minute)), s.Conn()
			defer func() { _ = over.Close() }()
			link := &wire.Lossy{Conn: over, Hits: wire.None}
			c := wire.Wrap(t, link, redlatch.Options{RequestTimeout: timeout})
			text := help.Detach(t, locktest.Lock(t, far.Mutex("adopted")))
			locktest.Lock(t, far.Mutex("forced").With(redlatch.LockOptions{Renew: redlatch.Off}))
			help.SetCount(t, far.CountDownLatch("counted"), 2)
			detached, extended := locktest.Lock(t, c.Mutex("detached")), locktest.Lock(t, c.Mutex("extended"))
			released := locktest.Lock(t, c.Mutex("released").With(redlatch.LockOptions{MinHold: time.Hour}))
			term := help.Campaign(t, c.Election("proclaimed"), "before")
			leaders := c.Election("observed").Observe(ctx)
			help.Receive(t, leaders, "that there is no leader")
			calls := map[string]func() error{
				"TryLock":     func() error { return check.ErrorOf(c.Mutex("tried").TryLock(ctx)) },
				"Adopt":       func() error { return check.ErrorOf(c.Adopt(ctx, text, redlatch.LockOptions{})) },
				"Detach":      func() error { return check.ErrorOf(detached.Detach(ctx)) },
				"TakeByForce": func() error { return check.ErrorOf(c.Mutex("forced").TakeByForce(ctx, redlatch.ForceOptions{})) },
				"ExtendTo":    func() error { return extended.ExtendTo(ctx, time.Hour) },
				"Release":     func() error { return released.Release(ctx) },
				"Proclaim":    func() error { return c.Election("proclaimed").Proclaim(ctx, term, "after") },
				"TrySetCount": func() error { return check.ErrorOf(c.CountDownLatch("set").TrySetCount(ctx, 1, time.Hour)) },
				"CountDown":   func() error { return check.ErrorOf(c.CountDownLatch("counted").CountDown(ctx)) },
				"Inspect":     func() error { return check.ErrorOf(c.Inspect(ctx, "tried")) },
				"Observe": func() error {
					for range leaders {
					}
					return redlatch.ErrClosed
				},
				"Journal": func() (err error) {
					for _, err = range c.Journal(ctx, redlatch.JournalQuery{Follow: true}) {
					}
					return err
				},
			}
			link.Harm(m, wire.Every)
			results := make(map[string]chan error)
			for what, call := range calls {
				result := make(chan error, 1)
				results[what] = result
				go func() { result <- call() }()
			}
			synctest.Wait() // none has an answer
			start := time.Now()
			check.Nil(t, m.Name+": Close", locktest.CloseLeaving(c))
			for what, result := range results {
				check.Error(t, what+", "+m.Name, help.Receive(t, result, what), redlatch.ErrClosed)
			}
			check.That(t, time.Since(start) <= timeout, "%s: the end took %v", m.Name, time.Since(start))
			_ = locktest.CloseLeaving(far)
			time.Sleep(30 * 24 * time.Hour)
			check.Equal(t, s.Do("KEYS", "*"), "", "%s: the keys that are left", m.Name)
		})
	}
}
