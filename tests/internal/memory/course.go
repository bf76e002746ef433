package memory

import (
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/tests/internal/trial"
)

// NewCourse returns a course of a quorum of servers in memory, for a test in a bubble.
func NewCourse(t *testing.T, nodes int) *trial.Course {
	t.Helper()
	_, conns := Nodes(t, nodes)
	c := &trial.Course{Conns: conns}
	c.Open(t)
	return c
}

// Nodes returns servers in memory, for a test in a bubble, and a connection to each.
func Nodes(t *testing.T, n int) (nodes []*Server, conns []conn.Conn) {
	t.Helper()
	for i := range n {
		nodes = append(nodes, start(t))
		conns = append(conns, addressed{nodes[i].Conn(), fmt.Sprint("node ", i)})
	}
	return nodes, conns
}

// addressed is a connection to one of several servers in memory.
type addressed struct {
	conn.Conn
	addr string
}

// Target implements [conn.Conn].
func (a addressed) Target() conn.Target { return conn.Target{Addr: a.addr, Pipelined: true} }
