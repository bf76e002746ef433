package memory

import (
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Server is a server in memory, in a bubble of testing/synctest. Minutes pass there in no time, and
// a machine that is busy or pauses changes nothing.
type Server struct {
	*redlatchtest.Memory
	t    testing.TB
	over conn.Conn // of the test itself
}

// Run runs a test in a bubble, with a server of its own.
func Run(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, start(t))
	})
}

func start(t *testing.T) *Server {
	s := &Server{Memory: redlatchtest.InMemory(t), t: t}
	s.over = s.Conn()
	t.Cleanup(func() { _ = s.over.Close() })
	return s
}

// EachKind runs a test for every kind of lock that has a line, each in a bubble of its own.
func EachKind(t *testing.T, test func(t *testing.T, s *Server, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Run(t, func(t *testing.T, s *Server) { test(t, s, i) })
		})
	}
}

// Do sends a command, and returns the reply as that of a [redistest.Server] does.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	r := s.over.Eval(s.t.Context(), conn.Call{Script: wire.CommandOf, Args: args})[0]
	if r.Err != nil {
		s.t.Fatalf("%q: %v", args, r.Err)
	}
	return r.Reply.Text
}

// Hearing makes a client wait once, so that its subscription is up.
func (s *Server) Hearing(c *redlatch.Client) {
	s.t.Helper()
	name := "hearing " + c.ID()
	s.Do("SET", locktest.StateKey(name), "somebody")
	result := help.GoLock(s.t.Context(), c.Mutex(name))
	locktest.InLine(s.t, s, name, 1) // it joins the line once it listens
	s.Do("DEL", locktest.StateKey(name))
	locktest.Release(s.t, help.Await(s.t, result))
}

// Straggles returns a client of this server, and the means to keep one of its requests back.
func (s *Server) Straggles(o redlatch.Options) (*redlatch.Client, *wire.Straggling) {
	s.t.Helper()
	c := &wire.Straggling{Conn: s.Conn()}
	return wire.Wrap(s.t, c, o), c
}
