// Package conntest is the conformance suite for [conn.Conn]: one named subtest for each clause of
// its contract, run against real redis-server processes that it starts, freezes, kills and
// restarts. redis-server 7.0 or newer must be on PATH.
//
// The test of an adapter is one call of [Run] for each way to set up its client, and one of
// [RunCluster] if it speaks to clusters:
//
//	func TestConn(t *testing.T) {
//		conntest.Run(t, func(t *testing.T, s conntest.Server) (conn.Conn, error) {
//			client := library.NewClient(s.Addr, s.Username, s.Password, s.TLS)
//			t.Cleanup(func() { client.Close() })
//			return adapter.New(client), nil
//		})
//	}
//
// The suite takes some five seconds, or as long as the client takes to notice that a server has
// stopped answering, if that is longer. [RunAgain] does without that, for a second way to set up the
// client.
package conntest

import (
	"crypto/tls"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Server is what an adapter under test connects to.
type Server struct {
	Addr     string      // such as "127.0.0.1:12345"; of a cluster, one node
	Username string      // "" for the default user
	Password string      // "" for none
	TLS      *tls.Config // nil for none

	// Silent is whether the server will stop answering. The suite then waits until the client has
	// noticed that, so a client whose time limits can be set should have short ones: some seconds,
	// which a machine that is busy does not use up.
	Silent bool
}

// OpenFunc connects an adapter to a server. The suite closes the Conn. The function leaves
// everything else that must be closed to t.Cleanup. A server's refusal of the user may show here or
// in the first call.
type OpenFunc func(t *testing.T, s Server) (conn.Conn, error)

// suite is the connections that the clauses run on.
type suite struct {
	open   OpenFunc
	memory func(*testing.T) conn.Conn // instead of open, for a server that the suite cannot reach
}

// start returns a new server and a Conn to it. The server is nil if it is one in memory.
func (s suite) start(t *testing.T, args ...string) (*redistest.Server, conn.Conn) {
	t.Helper()
	if s.memory != nil {
		c := s.memory(t)
		t.Cleanup(func() { check.Nil(t, "Close", c.Close()) })
		return nil, c
	}
	server := redistest.Start(t, args...)
	return server, s.connect(t, Server{Addr: server.Addr()})
}

func (s suite) connect(t *testing.T, server Server) conn.Conn {
	t.Helper()
	c, err := s.open(t, server)
	check.Must(t, err == nil, "open %s: %v", server.Addr, err)
	t.Cleanup(func() { check.Nil(t, "Close", c.Close()) })
	return c
}
