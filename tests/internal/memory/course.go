package memory

import (
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/trial"
)

// NewCourse returns a course of a quorum of servers in memory, for a test in a bubble.
func NewCourse(t *testing.T, nodes int) *trial.Course {
	t.Helper()
	c := new(trial.Course)
	for i := range nodes {
		c.Conns = append(c.Conns, Addressed{redlatchtest.InMemory(t).Conn(), fmt.Sprint("node ", i)})
	}
	c.Open(t)
	return c
}

// Addressed is a connection to one of several servers in memory.
type Addressed struct {
	conn.Conn
	Addr string
}

// Target implements [conn.Conn].
func (a Addressed) Target() conn.Target { return conn.Target{Addr: a.Addr, Pipelined: true} }
