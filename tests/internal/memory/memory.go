package memory

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Run runs a test in a bubble of testing/synctest, on a server in memory. Its time passes when
// all goroutines wait, so no machine is too slow for it.
func Run(t *testing.T, test func(t *testing.T, s *redlatchtest.Memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, redlatchtest.InMemory(t)) })
}

// Do has a server in memory run a command.
func Do(t *testing.T, s *redlatchtest.Memory, args ...string) string {
	t.Helper()
	over := s.Conn()
	defer over.Close()
	r := over.Eval(t.Context(), conn.Call{Script: wire.CommandOf, Args: args})[0]
	if r.Err != nil {
		t.Fatalf("%q: %v", args, r.Err)
	}
	return r.Reply.Text
}

// NewCourse is newCourse in a bubble.
func NewCourse(t *testing.T, nodes int) *trial.Course {
	t.Helper()
	c := new(trial.Course)
	for i := range nodes {
		c.Conns = append(c.Conns, Addressed{redlatchtest.InMemory(t).Conn(), fmt.Sprint("node ", i)})
	}
	c.Open(t)
	return c
}

// EachKind runs a test for every kind of lock that has a line, each in a bubble of its own.
func EachKind(t *testing.T, test func(t *testing.T, s *redlatchtest.Memory, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Run(t, func(t *testing.T, s *redlatchtest.Memory) { test(t, s, i) })
		})
	}
}

// Addressed is a connection to one of several servers in memory.
type Addressed struct {
	conn.Conn
	Addr string
}

// Target implements [conn.Conn].
func (a Addressed) Target() conn.Target { return conn.Target{Addr: a.Addr, Pipelined: true} }
