package redlatchtest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func Example() {
	server, err := redlatchtest.Listen("127.0.0.1:0") // in a test: redlatchtest.Start(t)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := redlatch.Open(ctx, server.URL(), redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	server.LoseEverything()
	fmt.Println("still held:", lease.Extend(ctx) == nil)
	fmt.Println("the work is told:", lease.Context().Err())
	// Output:
	// still held: false
	// the work is told: context canceled
}

// A test of code that takes a lock: how it ends when the lease is lost. Without an output this is
// compiled and not run, since it is a test.
func ExampleMemory() {
	report := func(ctx context.Context, client *redlatch.Client) error { // the code to be tested
		return client.Mutex("report").Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
			<-ctx.Done() // stands for an hour of work
			return nil
		})
	}
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := redlatchtest.InMemory(t)
			client := server.Client(t, redlatch.Options{})
			time.AfterFunc(time.Minute, func() { server.Lose("report") })
			check.Error(t, "report", report(t.Context(), client), redlatch.ErrNotHeld)
		})
	}
}

func open(t *testing.T, s *redlatchtest.Server) *redlatch.Client {
	t.Helper()
	c := check.Value(redlatch.Open(t.Context(), s.URL(), redlatch.Options{RequestTimeout: locktest.Patience})).OK(t)
	t.Cleanup(func() {
		err := c.Close()
		if _, left := err.(*redlatch.LeftError); err != nil && !left {
			t.Errorf("Close = %v", err)
		}
	})
	return c
}

// TestClientsTakeTurns runs the whole protocol on the embedded server: line, hand-over, push,
// tokens.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	locktest.TakeTurns(t, 10, open(t, s), open(t, s), open(t, s), open(t, s))
}

func TestLeaseExpiresByTheRealClock(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	c := open(t, s)
	short := redlatch.LockOptions{TTL: 2 * time.Second, Renew: redlatch.Off}
	var left *redlatch.Lease
	locktest.Eventually(t, "a lock whose answer came within its TTL", func() (ok bool) {
		var err error
		left, err = c.Mutex("short").With(short).Lock(t.Context())
		return err == nil
	})
	next, err := c.Mutex("short").With(redlatch.LockOptions{MaxWait: locktest.Patience}).Lock(t.Context())
	check.Must(t, err == nil, "Lock after the TTL = %v", err)
	check.That(t, !left.Held() && next.Token() > 0, "the old lease is held: %v; the new one has token %d", left.Held(), next.Token())
	check.Error(t, "Release of the old lease", left.Release(t.Context()), redlatch.ErrNotHeld)
	check.Nil(t, "Release", next.Release(t.Context()))
}

func TestAddressInUseIsAnError(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	if other, err := redlatchtest.Listen(s.Addr()); err == nil {
		other.Close()
		t.Errorf("Listen(%q) twice succeeded", s.Addr())
	}
}

func TestEveryKind(t *testing.T) {
	t.Parallel()
	s := redlatchtest.Start(t)
	c := open(t, s)
	kindtest.Run(t, c, open(t, s), "")
	check.OK(t, "Lock", check.ErrorOf(c.Mutex("listed").Lock(t.Context())))
	for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
		check.Must(t, err == nil && info.Name != "", "List = %v", err)
	}
	gone := redlatchtest.Start(t)
	gone.Close()
	check.Error(t, "Open", check.ErrorOf(redlatch.Open(t.Context(), gone.URL(), redlatch.Options{})), redlatch.ErrUnreachable)
}
