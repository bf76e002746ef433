// Package redlatchtest runs an embedded server that speaks enough of Redis for redlatch, for tests
// of code that takes locks:
//
//	server := redlatchtest.Start(t)
//	client, err := redlatch.Open(ctx, server.URL(), redlatch.Options{})
//
// It lives in the test's own process, starts in a millisecond and needs no Redis. It is miniredis
// with its expiries on the real clock. What works on it works on Redis; but it never fails over, so
// it proves nothing about safety. redlatch's own tests run on real servers.
//
// # Minutes in milliseconds
//
// [Start] listens on a socket, on which a bubble of testing/synctest would wait forever. [InMemory]
// starts a server without one, whose clock is that of the bubble. A TTL of 30 seconds, a heartbeat,
// a MaxWait or a MaxHold of minutes pass in milliseconds:
//
//	func TestReportStopsWhenItsLeaseIsLost(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := redlatchtest.InMemory(t)
//			client := server.Client(t, redlatch.Options{})
//			time.AfterFunc(time.Minute, func() { server.Lose("report") })
//			if err := report(t.Context(), client); !errors.Is(err, redlatch.ErrNotHeld) {
//				t.Errorf("report = %v, want ErrNotHeld", err)
//			}
//		})
//	}
//
// What a test can make happen:
//
//   - Loss of a lease: [Memory.Lose] for one lock, [Memory.LoseEverything] for a server that lost
//     its data, [redlatch.Client.ForceRelease] for an operator.
//   - Crash of a holder or a waiter: [Memory.Cut] cuts its client off. The others get the lock when
//     the lease has run out.
//   - Timeout of a wait: hold the lock with another client. Give the wait a deadline: without one
//     it lasts until the test is killed, since clients at work keep the time of a bubble running.
//   - An outage: [Memory.Hang] and [Memory.Resume]. Slow answers: [Memory.Delay].
//
// model_test.go, beside this file, has such tests of a function that works under a lock.
package redlatchtest

import (
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Server is an embedded server. It is safe for concurrent use.
type Server struct {
	mini *miniredis.Miniredis
	addr string // mini does not know it any more once it is closed
}

// Start starts a server that is closed when the test ends. In a bubble of testing/synctest, a test
// would hang on its sockets: see [InMemory].
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Listen starts a server at a TCP address, "127.0.0.1:0" for a free port, for programs that are not
// tests. The caller closes it.
func Listen(addr string) (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("redlatchtest: %w", err)
	}
	return &Server{mini, mini.Addr()}, nil
}

// Addr returns the host and port on which the server listens.
func (s *Server) Addr() string { return s.addr }

// URL returns the server's address for redlatch.Open.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// LoseEverything deletes all data, as when a server crashes without having saved it. Each holder
// loses its lock, and is told at its next extend: after a third of its TTL, or when it calls
// Lease.Extend.
func (s *Server) LoseEverything() { s.mini.FlushAll() }

// Close stops the server and closes its connections.
func (s *Server) Close() { s.mini.Close() }
