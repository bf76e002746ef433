package tests

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// TestNothingIsLeftAfterClose: Redisson leaks subscriptions (redisson#4216, #4064) and queue keys
// without a TTL, python-redis-lock millions of signal keys.
func TestNothingIsLeftAfterClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := make([]*redlatch.Client, 3)
	for i := range clients {
		c, err := redlatch.Open(t.Context(), s.URL(), sluggish())
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = c
	}
	for _, name := range []string{"a", "b", "{tagged}:c"} {
		held := lock(t, clients[0].Mutex(name))
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, served := goLock(ctx, clients[1].Mutex(name)), goLock(t.Context(), clients[2].Mutex(name))
		eventually(t, "two are in line", func() bool { return waiting(t, clients[0], name) == 2 })
		cancel()
		awaitError(t, cancelled)
		release(t, held)
		release(t, await(t, served))
	}
	for _, c := range clients {
		if err := closeLeaving(c); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	eventually(t, "all connections are closed", func() bool { return connections(s) == 0 })
	if got := s.Do("PUBSUB", "CHANNELS"); got != "" {
		t.Errorf("somebody still listens to %q", got)
	}
	keys := strings.Fields(s.Do("KEYS", "*"))
	if len(keys) != 3 {
		t.Errorf("%d keys are left, want a fence for each name: %v", len(keys), keys)
	}
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
func TestGoroutinesDoNotGrowWithLeases(t *testing.T) { inMemory(t, goroutinesAndExtends) }

func goroutinesAndExtends(t *testing.T, s *redlatchtest.Memory) {
	const leases, ttl, span = 2000, 30 * time.Second, time.Minute
	var seen events
	batches := &counting{Conn: s.Conn()}
	c := wrap(t, batches, redlatch.Options{Hook: seen.hook, Lock: redlatch.LockOptions{TTL: ttl}})
	release(t, lock(t, c.Mutex("first words")))
	goroutines := runtime.NumGoroutine()

	held := make([]*redlatch.Lease, leases)
	for i := range held {
		held[i] = lock(t, c.Mutex(strconv.Itoa(i)))
	}
	eventually(t, "the extends under way are over", func() bool { return runtime.NumGoroutine() < goroutines+20 })
	extends, sent := seen.count(redlatch.EventExtended), batches.count("mutex renews")
	time.Sleep(span)
	extends, sent = seen.count(redlatch.EventExtended)-extends, batches.count("mutex renews")-sent
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
		if !l.Held() {
			t.Fatalf("%s was lost: %v", l.Name(), l.Err())
		}
	}
	for _, l := range held {
		release(t, l)
	}
}

// connections is how many there are beside the one that asks.
func connections(s *redistest.Server) int {
	return strings.Count(s.Do("CLIENT", "LIST"), "\n") - 1
}

func waiting(t reporter, c *redlatch.Client, name string) int {
	t.Helper()
	info, err := c.Inspect(context.Background(), name)
	if err != nil {
		t.Fatalf("Inspect(%q) = %v", name, err)
	}
	return len(info.Waiters)
}

// TestCloseTwiceAtOnce: a second Close returns when the first does, so that the program may go on
// without the client.
func TestCloseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	losing, over := make(chan struct{}), make(chan struct{})
	other := open(t, s.URL(), sluggish())
	o := sluggish()
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventLost {
			close(losing)
			<-over
		}
	}
	c, err := redlatch.Open(t.Context(), s.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	lock(t, c.Mutex("a"))
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- c.Close() }()
	receive(t, losing, "the end of the lease")
	go func() { second <- c.Close() }()
	for range 20 { // as much as the second Close would have to do, and more
		release(t, lock(t, other.Mutex("b")))
	}
	select {
	case err := <-second:
		t.Errorf("the second Close = %v while the first is under way", err)
	default:
	}
	close(over)
	left := (*redlatch.LeftError)(nil)
	err = receive(t, first, "the first Close")
	if !errors.As(err, &left) || len(left.Leases) != 1 {
		t.Errorf("the first Close = %v, want the lease that was held", err)
	}
	if again := receive(t, second, "the second Close"); again != err {
		t.Errorf("the second Close = %v, want %v", again, err)
	}
}

// TestCloseIsBounded: Close does not wait for a server that hangs any longer than one request may
// take.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	o := redlatch.Options{RequestTimeout: timeout}
	t.Run("in time", func(t *testing.T) {
		inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
			c, err := redlatch.New(s.Conn(), o)
			if err != nil {
				t.Fatal(err)
			}
			start := closeOfOneThatHangs(t, c, s.Hang)
			if took := time.Since(start); took > timeout {
				t.Errorf("Close took %v with a request timeout of %v", took, timeout)
			}
		})
	})
	t.Run("over sockets", func(t *testing.T) {
		s := redistest.Start(t)
		c, err := redlatch.Open(t.Context(), s.URL(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Resume() // long after Close has returned, if it does
		closeOfOneThatHangs(t, c, s.Pause)
	})
}

// closeOfOneThatHangs has the server of a client hang, and closes the client while a try is under way.
// It returns when Close began.
func closeOfOneThatHangs(t *testing.T, c *redlatch.Client, hang func()) (start time.Time) {
	t.Helper()
	release(t, lock(t, c.Mutex("a")))
	hang()
	tried, closed := goTryLock(t.Context(), c.Mutex("a")), make(chan error, 1)
	rest(t.Context(), 100*time.Millisecond) // else the try may not have begun, and is refused at once
	start = time.Now()
	go func() { closed <- c.Close() }()
	_ = receive(t, closed, "Close of a client whose server hangs")
	if err := awaitError(t, tried); !errors.Is(err, redlatch.ErrClosed) {
		t.Errorf("TryLock = %v, want ErrClosed", err)
	}
	return start
}

// TestCloseEndsWaitsAndLeases: what is held is not released, as the work may go on; and nobody
// waits for a client that is gone.
func TestCloseEndsWaitsAndLeases(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	other := open(t, s.URL(), sluggish())
	c, err := redlatch.Open(t.Context(), s.URL(), sluggish())
	if err != nil {
		t.Fatal(err)
	}
	kept, taken := lock(t, c.Mutex("kept")), lock(t, other.Mutex("taken"))
	result := goLock(t.Context(), c.Mutex("taken"))
	queued(t, s, "taken", 1)
	if err := closeLeaving(c); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := awaitError(t, result); !isAll(err, redlatch.ErrClosed) {
		t.Errorf("Lock = %v, want ErrClosed", err)
	}
	wantLost(t, kept)
	if got := s.Do("GET", stateKey("kept")); got != kept.Owner() {
		t.Errorf("Close released the lock under the work: it is held by %q", got)
	}
	if got := s.Do("EXISTS", queueKey("taken"), clientsKey("taken")); got != "0" {
		t.Error("Close left its place in line behind")
	}
	if _, err := c.Mutex("a").TryLock(t.Context()); !isAll(err, redlatch.ErrClosed) {
		t.Errorf("TryLock after Close = %v, want ErrClosed", err)
	}
	release(t, taken)
}
