package conntest

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func (s suite) targetNamesTheServerWithoutPassword(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "correct-horse")
	c := s.connect(t, Server{Addr: server.Addr(), Password: "correct-horse"})
	check.OK(t, "a call with the right password", works(within(t, patience), c))
	got := c.Target()
	check.That(t, strings.Contains(got.Addr, server.Addr()) && !strings.Contains(got.Addr, "correct-horse"), "Target().Addr = %q, want %s and never the password", got.Addr, server.Addr())
	check.That(t, !got.Cluster, "Target().Cluster = true for a single server")
}

func (s suite) closeSucceeds(t *testing.T) {
	server := redistest.Start(t)
	c := check.Value(s.open(t, Server{Addr: server.Addr()})).OK(t)
	eval(t, c, conn.Call{Script: echo, Args: []string{"x"}})
	check.Nil(t, "Close", c.Close())
	_ = works(within(t, patience), c) // the user's client still works, the Conn's own fails; neither hangs
}

func (s suite) overTLS(t *testing.T) {
	server, config := redistest.StartTLS(t)
	c := s.connect(t, Server{Addr: server.Addr(), TLS: config})
	wantEverything(t, server, c)
}

// wantEverything makes one use of each kind of request.
func wantEverything(t *testing.T, server *redistest.Server, c conn.Conn) {
	t.Helper()
	l := heard(t, c.Subscribe, "channel")
	publish := conn.NewScript("publish", "return redis.call('PUBLISH', KEYS[1], ARGV[1])")
	reached := eval(t, c, conn.Call{Script: publish, Keys: []string{"channel"}, Args: []string{"hello"}}).Int
	check.Equal(t, reached, 1, "how many PUBLISH reached")
	l.want("hello")
	l.stop()
	_ = l.end(prompt)
	wantEchoes(t, c, 10)
	server.Do("SET", "key1", "v")
	wantScan(t, c, "key*", "key", 1)
}

func (s suite) unknownAuthorityGivesNoReplyError(t *testing.T) {
	server, _ := redistest.StartTLS(t)
	err := s.refused(t, Server{Addr: server.Addr(), TLS: &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}})
	wantNoAnswer(t, t.Context(), "a call over TLS that cannot be trusted", err)
}

// userWithFewPermissions allows what a Conn needs and what the suite's scripts do, and nothing
// else.
func (s suite) userWithFewPermissions(t *testing.T) {
	server := redistest.Start(t)
	server.AllowUser("worker", "on", ">correct-horse", "~*", "&*",
		"+evalsha", "+eval", "+subscribe", "+ping", "+scan", "+publish")
	c := s.connect(t, Server{Addr: server.Addr(), Username: "worker", Password: "correct-horse"})
	wantEverything(t, server, c)
}

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

// client returns a client of redlatch over the adapter.
func (s suite) client(t *testing.T, addr string) *redlatch.Client {
	t.Helper()
	c := check.Value(s.open(t, Server{Addr: addr})).OK(t)
	client := check.Value(redlatch.New(c, redlatch.Options{})).OK(t)
	t.Cleanup(func() { check.Nil(t, "Close", client.Close()) })
	return client
}
