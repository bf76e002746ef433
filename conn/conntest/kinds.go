package conntest

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// everyKind runs each kind of lock over the adapter.
func (s suite) everyKind(t *testing.T) {
	server := redistest.Start(t)
	kindtest.Run(t, s.client(t, server.Addr()), s.client(t, server.Addr()), "")
}

// everyKind runs each kind of lock on names in several slots, and on names in one.
func (c cluster) everyKind(t *testing.T) {
	one, other := c.client(t, c.nodes[0].Addr()), c.client(t, c.nodes[0].Addr())
	kindtest.Run(t, one, other, "")
	kindtest.Run(t, one, other, "{tag}")
}

// client is a client of redlatch over the adapter.
func (s suite) client(t *testing.T, addr string) *redlatch.Client {
	t.Helper()
	c := check.Value(s.open(t, Server{Addr: addr})).OK(t)
	client := check.Value(redlatch.New(c, redlatch.Options{})).OK(t)
	t.Cleanup(func() { check.Nil(t, "Close", client.Close()) })
	return client
}
