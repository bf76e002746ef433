// Package locktest opens clients, acquires and releases locks, and waits until a server shows
// something, for the tests of packages that use redlatch.
package locktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Patience bounds every wait for what must happen. It only matters when something is broken.
const Patience = 30 * time.Second

// Reporter is what a check needs of a test.
type Reporter interface {
	check.T
	Cleanup(func())
}

// Start starts a server, and opens a client over it.
func Start(t testing.TB, o redlatch.Options) (*redistest.Server, *redlatch.Client) {
	t.Helper()
	s := redistest.Start(t)
	return s, Open(t, s.URL(), o)
}

// StartTwo starts a server, and opens two clients over it.
func StartTwo(t testing.TB, o redlatch.Options) (s *redistest.Server, c, other *redlatch.Client) {
	t.Helper()
	s, c = Start(t, o)
	return s, c, Open(t, s.URL(), o)
}

// Open returns a client that is closed with the test.
func Open(t testing.TB, url string, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c, err := redlatch.Open(t.Context(), url, o)
	check.Must(t, err == nil, "Open: %v", err)
	t.Cleanup(func() { check.Nil(t, "Close", CloseLeaving(c)) })
	return c
}

// CloseLeaving closes a client that may hold leases. Tests leave many behind, as crashes do.
func CloseLeaving(c *redlatch.Client) error {
	err := c.Close()
	if _, left := err.(*redlatch.LeftError); left {
		return nil
	}
	return err
}

// Within returns a context for what must come to an end.
func Within(t Reporter, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Lock locks a mutex. It fails the test, so call it from the test's own goroutine.
func Lock(t Reporter, m *redlatch.Mutex) *redlatch.Lease {
	t.Helper()
	l, err := m.Lock(Within(t, Patience))
	check.Must(t, err == nil, "Lock(%q) = %v, want a lease", m.Name(), err)
	return l
}

// Release releases a lease that must be held.
func Release(t Reporter, l *redlatch.Lease) {
	t.Helper()
	check.OK(t, "Release of "+l.Name(), l.Release(context.Background()))
}

// Eventually is [check.Eventually].
func Eventually(t Reporter, what string, holds func() bool) {
	t.Helper()
	check.Eventually(t, what, holds)
}

// EventuallyOr is [check.EventuallyOr].
func EventuallyOr(t Reporter, holds func() bool, wanted func() string) {
	t.Helper()
	check.EventuallyOr(t, holds, wanted)
}

// Outages runs a test with each way in which a server goes away and comes back: it is killed and
// comes back without data, or it is suspended and goes on.
func Outages(t *testing.T, test func(t *testing.T, s *redistest.Server, goes, comes func())) {
	t.Parallel()
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		test(t, s, s.Kill, s.Restart)
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		test(t, s, s.Pause, s.Resume)
	})
}

// StateKey returns the key that holds the state of a name, under the default prefix.
func StateKey(name string) string { return "redlatch:" + name }

// SiblingKey returns another key of a name, under the default prefix: "queue", "fence" and so on.
func SiblingKey(name, suffix string) string { return "{redlatch:" + name + "}:" + suffix }

// Doer sends a command to a server, and returns the reply as text.
type Doer interface{ Do(args ...string) string }

// InLine waits until n tickets are in line for a name.
func InLine(t Reporter, s Doer, name string, n int) {
	t.Helper()
	Eventually(t, "so many in line for "+name, func() bool { return len(Line(s, name)) == n })
}

// Line returns the owners in line for a name, first come first.
func Line(s Doer, name string) []string { return Tickets(s, SiblingKey(name, "queue")) }

// Tickets returns the owners in line, first come first, by the key of the line.
func Tickets(s Doer, key string) []string {
	var owners []string
	for ticket := range strings.Lines(s.Do("ZRANGE", key, "0", "-1")) {
		ticket = strings.TrimSuffix(ticket, "\n")
		owners = append(owners, ticket[strings.LastIndexByte(ticket, '\t')+1:])
	}
	return owners
}

// TakeTurns makes a goroutine for each client lock a mutex turns times, and checks that each token
// is larger than those before it.
func TakeTurns(t *testing.T, turns int, clients ...*redlatch.Client) {
	t.Helper()
	tokens := make(chan int64, turns*len(clients))
	for _, c := range clients {
		go func() {
			for range turns {
				err := c.Mutex("turn").Do(Within(t, 2*Patience), func(_ context.Context, l *redlatch.Lease) error {
					tokens <- l.Token()
					return nil
				})
				if err != nil {
					t.Errorf("Do = %v", err)
					tokens <- 0
				}
			}
		}()
	}
	last := int64(0)
	for range cap(tokens) {
		token := <-tokens
		check.Must(t, token > last, "token %d after %d, want more", token, last)
		last = token
	}
}
