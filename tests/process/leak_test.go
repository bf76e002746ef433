package process

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
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
		cancelled, served := help.GoLock(ctx, clients[1].Mutex(name)), help.GoLock(t.Context(), clients[2].Mutex(name))
		locktest.Eventually(t, "two are in line", func() bool { return help.Waiting(t, clients[0], name) == 2 })
		cancel()
		help.AwaitError(t, cancelled)
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

// TestGoroutinesDoNotGrowWithLeases also counts extends and the batches in which they are sent.
// rueidislock has three goroutines for each lock, and no peer batches on purpose; Redisson renews
// one slot after another and lets go of the rest at the first error.
//
// It is not parallel, since it counts the goroutines of the whole process.
func TestGoroutinesDoNotGrowWithLeases(t *testing.T) { memory.Run(t, goroutinesAndExtends) }

func goroutinesAndExtends(t *testing.T, s *memory.Server) {
	const leases, ttl, span = 2000, 30 * time.Second, time.Minute
	var seen help.Events
	batches := &wire.Counting{Conn: s.Conn()}
	c := wire.Wrap(t, batches, redlatch.Options{Hook: seen.Hook, Lock: redlatch.LockOptions{TTL: ttl}})
	locktest.Release(t, locktest.Lock(t, c.Mutex("first words")))
	goroutines := runtime.NumGoroutine()

	held := make([]*redlatch.Lease, leases)
	for i := range held {
		held[i] = locktest.Lock(t, c.Mutex(strconv.Itoa(i)))
	}
	locktest.Eventually(t, "the extends under way are over", func() bool { return runtime.NumGoroutine() < goroutines+20 })
	extends, sent := seen.Count(redlatch.EventExtended), batches.Count("mutex renews")
	time.Sleep(span)
	extends, sent = seen.Count(redlatch.EventExtended)-extends, batches.Count("mutex renews")-sent
	t.Logf("%d extends in %d batches", extends, sent)
	// Each is extended every third of its TTL, a tenth earlier or later, and up to a tenth earlier
	// yet for company.
	if most := leases * int(span/(ttl*8/30)+1); extends < leases*int(span/ttl) || extends > most {
		t.Errorf("%d extends, want between %d and %d", extends, leases*int(span/ttl), most)
	}
	if average := extends / sent; average < 10 {
		t.Errorf("%d extends in a batch on average, want 10 or more", average)
	}
	for _, l := range held {
		check.Must(t, l.Held(), "%s was lost: %v", l.Name(), l.Err())
	}
	for _, l := range held {
		locktest.Release(t, l)
	}
}

// TestCloseTwiceAtOnce: a second Close returns when the first does, so that the program may go on
// without the client.
func TestCloseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	losing, over := make(chan struct{}), make(chan struct{})
	other := locktest.Open(t, s.URL(), help.Sluggish())
	o := help.Sluggish()
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventLost {
			close(losing)
			<-over
		}
	}
	c := check.Value(redlatch.Open(t.Context(), s.URL(), o)).OK(t)
	locktest.Lock(t, c.Mutex("a"))
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- c.Close() }()
	help.Receive(t, losing, "the end of the lease")
	go func() { second <- c.Close() }()
	for range 20 { // as much as the second Close would have to do, and more
		locktest.Release(t, locktest.Lock(t, other.Mutex("b")))
	}
	select {
	case err := <-second:
		t.Errorf("the second Close = %v while the first is under way", err)
	default:
	}
	close(over)
	left := (*redlatch.LeftError)(nil)
	err := help.Receive(t, first, "the first Close")
	check.That(t, errors.As(err, &left) && len(left.Leases) == 1, "the first Close = %v, want the lease that was held", err)
	check.Equal(t, help.Receive(t, second, "the second Close"), err, "the second Close")
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
	help.Rest(t.Context(), 100*time.Millisecond) // else the try may not have begun, and is refused at once
	go func() { closed <- c.Close() }()
	_ = help.Receive(t, closed, "Close of a client whose server hangs")
	check.Error(t, "TryLock", help.AwaitError(t, tried), redlatch.ErrClosed)
}

// TestCloseEndsWaitsAndLeases: what is held is not released, as the work may go on; and nobody
// waits for a client that is gone.
func TestCloseEndsWaitsAndLeases(t *testing.T) {
	t.Parallel()
	s, other := locktest.Start(t, help.Sluggish())
	c := check.Value(redlatch.Open(t.Context(), s.URL(), help.Sluggish())).OK(t)
	kept, taken := locktest.Lock(t, c.Mutex("kept")), locktest.Lock(t, other.Mutex("taken"))
	result := help.GoLock(t.Context(), c.Mutex("taken"))
	locktest.InLine(t, s, "taken", 1)
	check.Nil(t, "Close", locktest.CloseLeaving(c))
	check.Error(t, "Lock", help.AwaitError(t, result), redlatch.ErrClosed)
	help.WantLost(t, kept)
	check.Equal(t, s.Do("GET", locktest.StateKey("kept")), kept.Owner(), "after Close, the holder of the lock under the work is")
	check.That(t, s.Do("EXISTS", help.QueueKey("taken"), help.ClientsKey("taken")) == "0", "Close left its place in line behind")
	check.Error(t, "TryLock after Close", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrClosed)
	locktest.Release(t, taken)
}

// TestCloseCutsCallsShort: a call whose request gets no answer, whether the server ran it or not, ends
// with the client, no later than one request may take, and nothing of it stays for ever.
func TestCloseCutsCallsShort(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	lock := func(t *testing.T, c *redlatch.Client, o redlatch.LockOptions) *redlatch.Lease {
		return check.Value(c.Mutex("a").With(o).Lock(t.Context())).OK(t)
	}
	calls := map[string]func(t *testing.T, c, far *redlatch.Client) (call func() error){
		"TryLock": func(t *testing.T, c, _ *redlatch.Client) func() error {
			return func() error { return check.ErrorOf(c.Mutex("a").TryLock(t.Context())) }
		},
		"Adopt": func(t *testing.T, c, far *redlatch.Client) func() error {
			text := help.Detach(t, lock(t, far, redlatch.LockOptions{}))
			return func() error { return check.ErrorOf(c.Adopt(t.Context(), text, redlatch.LockOptions{})) }
		},
		"Detach": func(t *testing.T, c, _ *redlatch.Client) func() error {
			l := lock(t, c, redlatch.LockOptions{})
			return func() error { return check.ErrorOf(l.Detach(t.Context())) }
		},
		"TakeByForce": func(t *testing.T, c, far *redlatch.Client) func() error {
			lock(t, far, redlatch.LockOptions{Renew: redlatch.Off})
			return func() error { return check.ErrorOf(c.Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})) }
		},
		"ExtendTo": func(t *testing.T, c, _ *redlatch.Client) func() error {
			l := lock(t, c, redlatch.LockOptions{})
			return func() error { return l.ExtendTo(t.Context(), time.Hour) }
		},
		"Release": func(t *testing.T, c, _ *redlatch.Client) func() error {
			l := lock(t, c, redlatch.LockOptions{MinHold: time.Hour})
			return func() error { return l.Release(t.Context()) }
		},
		"Proclaim": func(t *testing.T, c, _ *redlatch.Client) func() error {
			term := check.Value(c.Election("a").Campaign(t.Context(), "before")).OK(t)
			return func() error { return c.Election("a").Proclaim(t.Context(), term, "after") }
		},
		"TrySetCount": func(t *testing.T, c, _ *redlatch.Client) func() error {
			return func() error { return check.ErrorOf(c.CountDownLatch("a").TrySetCount(t.Context(), 1, time.Hour)) }
		},
		"CountDown": func(t *testing.T, c, far *redlatch.Client) func() error {
			help.SetCount(t, far.CountDownLatch("a"), 2)
			return func() error { return check.ErrorOf(c.CountDownLatch("a").CountDown(t.Context())) }
		},
		"Observe": func(t *testing.T, c, _ *redlatch.Client) func() error {
			leaders := c.Election("a").Observe(t.Context())
			help.Receive(t, leaders, "that there is no leader")
			return func() error {
				<-leaders
				return redlatch.ErrClosed
			}
		},
		"Inspect": func(t *testing.T, c, _ *redlatch.Client) func() error {
			return func() error { return check.ErrorOf(c.Inspect(t.Context(), "a")) }
		},
		"Journal": func(t *testing.T, c, _ *redlatch.Client) func() error {
			return func() (err error) {
				for _, err = range c.Journal(t.Context(), redlatch.JournalQuery{Follow: true}) {
				}
				return err
			}
		},
	}
	for what, prepare := range calls {
		for _, m := range []wire.Mishap{wire.Swallowed, wire.Unanswered} {
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				far, over := s.Client(t, help.Brisk(time.Minute)), s.Conn()
				defer func() { _ = over.Close() }()
				link := &wire.Lossy{Conn: over, Hits: wire.None}
				c := wire.Wrap(t, link, redlatch.Options{RequestTimeout: timeout})
				call, result := prepare(t, c, far), make(chan error, 1)
				link.Harm(m, wire.Every)
				go func() { result <- call() }()
				synctest.Wait() // it has no answer
				start := time.Now()
				check.Nil(t, what+", "+m.Name+": Close", locktest.CloseLeaving(c))
				check.Error(t, what+", "+m.Name, help.Receive(t, result, what), redlatch.ErrClosed)
				check.That(t, time.Since(start) <= timeout, "%s, %s: the end took %v", what, m.Name, time.Since(start))
				_ = locktest.CloseLeaving(far)
				time.Sleep(30 * 24 * time.Hour)
				check.Equal(t, s.Do("KEYS", "*"), "", "%s, %s: the keys that are left", what, m.Name)
			})
		}
	}
}
