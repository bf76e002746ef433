package redlatchrueidis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/conn/conntest"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

func options(s conntest.Server) rueidis.ClientOption {
	o := rueidis.ClientOption{InitAddress: []string{s.Addr}, Username: s.Username, Password: s.Password, TLSConfig: s.TLS}
	if s.Silent { // which is noticed after twice the one and the other
		o.Dialer.KeepAlive, o.ConnWriteTimeout = time.Second/2, 3*time.Second
	}
	return o
}

// owned opens a client of the adapter's own.
func owned(_ *testing.T, s conntest.Server) (conn.Conn, error) { return open(options(s)) }

func open(o rueidis.ClientOption) (conn.Conn, error) {
	c, err := redlatchrueidis.Open(o)
	if err != nil {
		return nil, err // not a conn.Conn with nothing inside
	}
	return c, nil
}

// shared returns how to wrap a client that the program set up in its own way.
func shared(set func(*rueidis.ClientOption)) conntest.OpenFunc {
	return func(t *testing.T, s conntest.Server) (conn.Conn, error) {
		o := options(s)
		set(&o)
		client, err := rueidis.NewClient(o)
		if err != nil {
			return nil, refusal(err)
		}
		t.Cleanup(client.Close)
		return redlatchrueidis.New(client, s.Addr), nil
	}
}

// refusal is what New's callers see of a refused login: an error of rueidis, which the suite does
// not know.
func refusal(err error) error {
	if sent, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return &conn.ReplyError{Text: sent.Error()}
	}
	return err
}

func TestOwnClient(t *testing.T) {
	t.Parallel()
	conntest.Run(t, owned)
}

func TestOwnClientOfACluster(t *testing.T) {
	t.Parallel()
	conntest.RunCluster(t, owned)
}

// TestSharedClientOfACluster: rueidis follows a slot that has moved by itself, so the adapter sees
// no error.
func TestSharedClientOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("TestOwnClientOfACluster shows most of it: make test-all runs it")
	}
	t.Parallel()
	conntest.RunCluster(t, shared(func(o *rueidis.ClientOption) { o.DisableCache = true }))
}

// TestSubscriptionsAreAtMasters, also those that come first: they were at any node, and at a replica
// they ended after some seconds.
func TestSubscriptionsAreAtMasters(t *testing.T) {
	if testing.Short() {
		t.Skip("the nodes take seconds to hear of the replicas: make test-all runs it")
	}
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	for _, replica := range nodes[3:] { // a node hears of them by and by
		_, port, _ := net.SplitHostPort(replica.Addr())
		locktest.Eventually(t, "all replicas are told", func() bool { return strings.Contains(nodes[0].Do("CLUSTER", "SLOTS"), port) })
	}
	for range 10 {
		c := check.Value(open(rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}})).OK(t)
		defer c.Close()
		ended, up := make(chan error, 1), make(chan struct{})
		go func() { ended <- c.Subscribe(t.Context(), "a", func() { close(up) }, func(string) {}) }()
		select {
		case <-up:
		case err := <-ended:
			t.Fatalf("Subscribe = %v", err)
		}
	}
	for _, replica := range nodes[3:] {
		check.Equal(t, strings.Count(replica.Do("CLIENT", "LIST", "TYPE", "PUBSUB"), "id="), 0, "subscriptions at a replica")
	}
}

// TestSharedClient leaves rueidis as it is out of the box, with retries, but for caching, which the
// suite's user may not turn on.
func TestSharedClient(t *testing.T) {
	if testing.Short() {
		t.Skip("it is TestOwnClient with retries of rueidis: make test-all runs it")
	}
	t.Parallel()
	conntest.RunAgain(t, shared(func(o *rueidis.ClientOption) { o.DisableCache = true }))
}

// TestEveryKindOverASharedClient is what make test runs for a client of the program. It speaks RESP2,
// of which TestOwnClientWithoutRESP3 has the suite.
func TestEveryKindOverASharedClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	open := shared(func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true })
	client := func() *redlatch.Client {
		c := check.Value(open(t, conntest.Server{Addr: server.Addr()})).OK(t)
		client := check.Value(redlatch.New(c, redlatch.Options{})).OK(t)
		t.Cleanup(func() { check.Nil(t, "Close", client.Close()) })
		return client
	}
	kindtest.Run(t, client(), client(), "")
}

// TestOwnClientWithoutRESP3: rueidis goes on with RESP2 where HELLO is unknown, as at an old server or
// behind a proxy, and ended with the error where HELLO is known and RESP3 is not.
func TestOwnClientWithoutRESP3(t *testing.T) {
	if testing.Short() {
		t.Skip("TestOwnClientWhosePasswordComesFirst shows a server without HELLO: make test-all runs it")
	}
	t.Parallel()
	for refusal, change := range map[string][2]string{
		"NOPROTO":         {"HELLO\r\n$1\r\n3", "HELLO\r\n$1\r\n4"},
		"unknown command": {"HELLO", "HELLP"},
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			conntest.RunAgain(t, func(_ *testing.T, s conntest.Server) (conn.Conn, error) {
				return open(through(options(s), change[0], change[1]))
			})
		})
	}
}

// TestOwnClientWhosePasswordComesFirst: a server does not know HELLO, and says that a password has to
// come before it, as before any command. So does Valkey 9.
func TestOwnClientWhosePasswordComesFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "correct-horse")
	o := rueidis.ClientOption{InitAddress: []string{server.Addr()}, Password: "correct-horse"}
	c := check.Value(open(through(o, "HELLO\r\n", "WATCH\r\n"))).OK(t)
	defer c.Close()
	call := conn.Call{Script: conn.NewScript("one", "return 1")}
	if r := c.Eval(t.Context(), call)[0]; r.Err != nil || r.Reply.Int != 1 {
		t.Errorf("Eval = %+v, want 1", r)
	}
	o.Password = "battery-staple"
	_, err := open(through(o, "HELLO\r\n", "WATCH\r\n"))
	check.That(t, err != nil && strings.Contains(err.Error(), "WRONGPASS"), "open = %v, want the code WRONGPASS", err)
}

// through returns options for a server that knows one thing under another name of the same length.
func through(o rueidis.ClientOption, name, other string) rueidis.ClientOption {
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		dial := d.DialContext
		if config != nil {
			dial = (&tls.Dialer{NetDialer: d, Config: config}).DialContext
		}
		c, err := dial(ctx, "tcp", addr)
		return changed{c, []byte(name), []byte(other)}, err
	}
	return o
}

// changed is a connection to a server that knows one thing under another name of the same length.
type changed struct {
	net.Conn
	name, other []byte
}

func (c changed) Write(b []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(b, c.name, c.other))
}

func (c changed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], c.other, c.name))
	return n, err
}

// TestTimeLimitOfTheLibraryIsNotTheCallers has rueidis run out of time while it connects. An error
// that matches context.DeadlineExceeded would tell callers that their own time is up.
func TestTimeLimitOfTheLibraryIsNotTheCallers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := rueidis.ClientOption{InitAddress: []string{server.Addr()}, Dialer: net.Dialer{Timeout: 50 * time.Millisecond}}
	c, err := redlatchrueidis.Open(o)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); { // a busy machine takes longer
		c, err = redlatchrueidis.Open(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server.Restart()
	server.Pause()
	call := conn.Call{Script: conn.NewScript("one", "return 1")}
	for range 3 { // connections from before the restart fail in another way
		if err := c.Eval(t.Context(), call)[0].Err; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Eval = %v, want an error that is not a context's", err)
		}
	}
	if _, err := redlatchrueidis.Open(o); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open = %v, want an error that is not a context's", err)
	}
}

func TestCloseLeavesASharedClientOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := check.Value(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})).OK(t)
	defer client.Close()
	check.OK(t, "Close", redlatchrueidis.New(client, server.Addr()).Close())
	check.Nil(t, "after Close, a call of the program's own client", client.Do(t.Context(), client.B().Ping().Build()).Error())
}
