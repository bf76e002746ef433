// Package redlatchtest runs an embedded server that speaks enough of Redis for redlatch, for tests of code that takes locks:
//
//	server := redlatchtest.Start(t)
//	client, err := redlatch.Open(ctx, server.URL(), redlatch.Options{})
//
// It lives in the test's own process, starts in a millisecond and needs no Redis. It is miniredis with its expiries on the real clock. What
// works on it works on Redis; but it never crashes, lags or fails over, so it proves nothing about safety. redlatch's own tests run on
// real servers.
package redlatchtest

import (
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Server is an embedded server. It is safe for concurrent use.
type Server struct{ mini *miniredis.Miniredis }

// Start starts a server that is closed when the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Listen starts a server at a TCP address, "127.0.0.1:0" for a free port, for programs that are no tests. The caller closes it.
func Listen(addr string) (*Server, error) {
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true)
	if err := mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("redlatchtest: %w", err)
	}
	return &Server{mini}, nil
}

// Addr is the host and port at which the server listens.
func (s *Server) Addr() string { return s.mini.Addr() }

// URL is the server's address for redlatch.Open.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// LoseEverything deletes all data, as a server does that crashed without having saved it. Whoever holds a lock loses it, and is told at the
// next extend: after a third of its TTL, or when it calls Lease.Extend.
func (s *Server) LoseEverything() { s.mini.FlushAll() }

// Close stops the server and closes its connections.
func (s *Server) Close() { s.mini.Close() }
