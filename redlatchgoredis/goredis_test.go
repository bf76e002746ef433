package redlatchgoredis_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/conn/conntest"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/redlatchgoredis/internal/wrapped"
)

func single(protocol int, contextTimeout bool) conntest.OpenFunc {
	return func(t *testing.T, s conntest.Server) (conn.Conn, error) {
		client := redis.NewClient(&redis.Options{
			Addr: s.Addr, Username: s.Username, Password: s.Password, TLSConfig: s.TLS,
			Protocol: protocol, ContextTimeoutEnabled: contextTimeout,
		})
		t.Cleanup(func() { client.Close() })
		return redlatchgoredis.New(client), nil
	}
}

// Each of the two options is tested both ways.

func TestRESP3(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		conntest.RunAgain(t, single(3, false)) // the adapter for rueidis shows the rest
		return
	}
	conntest.Run(t, single(3, false))
}

func TestRESP2WithContextTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRESP3 runs the same clauses on the client as it is by default: make test-all runs it")
	}
	t.Parallel()
	conntest.RunAgain(t, single(2, true))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	conntest.RunCluster(t, func(t *testing.T, s conntest.Server) (conn.Conn, error) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}})
		t.Cleanup(func() { client.Close() })
		return redlatchgoredis.New(client), nil
	})
}

// TestTimeLimitOfTheLibraryIsNotTheCallers has a connection attempt run out of time. An error that
// matches context.DeadlineExceeded would tell callers that their own time is up.
func TestTimeLimitOfTheLibraryIsNotTheCallers(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{
		Dialer:     func(context.Context, string, string) (net.Conn, error) { return nil, context.DeadlineExceeded },
		MaxRetries: -1, DialerRetries: 1,
	})
	defer client.Close()
	call := conn.Call{Script: conn.NewScript("one", "return 1")}
	err := redlatchgoredis.New(client).Eval(t.Context(), call)[0].Err
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Eval = %v, want an error that is not a context's", err)
	}
}

// TestWaitMayTakeLongerThanARead: a client with the short ReadTimeout that the package asks for waits
// for replicas as long as it has to, and runs the script once.
func TestWaitMayTakeLongerThanARead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Second})
	defer client.Close()
	c := redlatchgoredis.New(client)
	count := conn.Call{Script: conn.NewScript("count", "return redis.call('INCR', KEYS[1])"), Keys: []string{"k"}}
	check.Nil(t, "Eval", c.Eval(t.Context(), count)[0].Err) // from now on the server knows the script
	r, acks := c.EvalReplicated(t.Context(), count, 1, 1500*time.Millisecond)
	if r.Err != nil || r.Reply.Int != 2 || acks != 0 {
		t.Errorf("EvalReplicated = %+v and %d acknowledgements, want 2 and none", r, acks)
	}
	check.Equal(t, server.Do("GET", "k"), "2", "runs of the script")
}

// TestNothingIsRetried: two calls go to one node, and the first has to wait there, since its slot
// moves. The other runs once. go-redis retried both, and a release that was done twice was told as
// a loss.
func TestNothingIsRetried(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	defer client.Close()
	c := redlatchgoredis.New(client)
	slot := nodes[0].Slot("{moves}")
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	key := "stays"
	for nodes[0].Slot(key)*3/16384 != slot*3/16384 {
		key += "."
	}
	count := conn.Call{Script: conn.NewScript("count", "return redis.call('INCR', KEYS[1])"), Keys: []string{key}}
	check.Nil(t, "Eval", c.Eval(t.Context(), count)[0].Err) // from now on the server knows the script
	from.Do("SET", "{moves}here", "1")
	from.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", strings.TrimSpace(to.Do("CLUSTER", "MYID")))
	two := conn.Call{Script: conn.NewScript("two", "return redis.call('EXISTS', unpack(KEYS))"), Keys: []string{"{moves}here", "{moves}there"}}
	results := c.Eval(t.Context(), two, count)
	var refused *conn.ReplyError
	check.That(t, errors.As(results[0].Err, &refused) && refused.Code() == "TRYAGAIN", "Eval of keys that move = %+v, want TRYAGAIN", results[0])
	check.That(t, results[1].Err == nil && results[1].Reply.Int == 2, "Eval of a key that stays = %+v, want 2", results[1])
	check.Equal(t, from.Do("GET", key), "2", "runs of the script")
}

// TestNodesThatNameEachOther: two nodes do not agree which of them has a slot, as for a moment
// while it changes hands. A resend gets the lock. (The caller got MOVED.)
func TestNodesThatNameEachOther(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	defer client.Close()
	c := check.Value(redlatch.New(redlatchgoredis.New(client), redlatch.Options{RequestTimeout: time.Minute})).OK(t)
	defer c.Close()
	slot := nodes[0].Slot(c.Mutex("a").Key())
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	give := func(at *redistest.Server) {
		at.Do("CLUSTER", "SETSLOT", strconv.Itoa(slot), "NODE", strings.TrimSpace(to.Do("CLUSTER", "MYID")))
	}
	give(from)
	time.AfterFunc(300*time.Millisecond, func() { give(to) })
	check.OK(t, "Do", c.Mutex("a").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }))
}

func TestCloseLeavesTheClientOpen(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer client.Close()
	check.OK(t, "Close", redlatchgoredis.New(client).Close())
	check.Nil(t, "after Close, Ping by the program's own client", client.Ping(t.Context()).Err())
}

func TestNewRefusesClientsThatCannotHoldALock(t *testing.T) {
	t.Parallel()
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer single.Close()
	pipeliner := check.Value(single.AutoPipeline()).OK(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	for _, client := range []redis.UniversalClient{ring, pipeliner} {
		func() {
			defer func() {
				check.That(t, recover() != nil, "New(%T) does not panic", client)
			}()
			redlatchgoredis.New(client)
		}()
	}
}

// TestQuorumBehindSentinel: a quorum may have several clients for Sentinel, to which go-redis gives
// one address, and not the same client twice.
func TestQuorumBehindSentinel(t *testing.T) {
	t.Parallel()
	var clients []*redis.Client
	for range 3 {
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}})
		defer client.Close()
		clients = append(clients, client)
	}
	quorum := func(clients ...*redis.Client) error {
		var nodes []conn.Conn
		for _, client := range clients {
			nodes = append(nodes, redlatchgoredis.New(client))
		}
		_, err := redlatch.NewQuorum(nodes, redlatch.Options{})
		return err
	}
	check.Nil(t, "NewQuorum", quorum(clients...))
	check.Error(t, "NewQuorum with one client twice", quorum(clients[0], clients[1], clients[0]), redlatch.ErrInvalid)
}

func TestNewTakesWhatEmbedsAClient(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Password: "correct-horse"})
	defer client.Close()
	want := conn.Target{Addr: "127.0.0.1:1"}
	if got := redlatchgoredis.New(wrapped.Around(client)).Target(); !reflect.DeepEqual(got, want) {
		t.Errorf("Target = %+v, want the client's address alone", got)
	}
}

// TestClientsTakeTurns runs the whole protocol over go-redis: line, hand-over, push, tokens.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var clients []*redlatch.Client
	for range 4 {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		c := check.Value(redlatch.New(redlatchgoredis.New(rdb), redlatch.Options{})).OK(t)
		t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
		clients = append(clients, c)
	}
	locktest.TakeTurns(t, 25, clients...)
}

// TestNameLeadsElsewhere: the name of the master leads to another server, of which the old master is a
// replica now. The subscription stayed there, where the scripts of the new master do not count it: each
// release by others dropped the waiter's ticket, and the waiter never had its turn.
func TestNameLeadsElsewhere(t *testing.T) {
	t.Parallel()
	old, master := redistest.Start(t), redistest.Start(t)
	var leads atomic.Pointer[redistest.Server]
	leads.Store(old)
	client := redis.NewClient(&redis.Options{
		Addr: "redis.example:6379",
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", leads.Load().Addr())
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	// Not shorter: a busy machine must not make c miss three heartbeats, or others get in before it.
	c := check.Value(redlatch.New(redlatchgoredis.New(client), redlatch.Options{Heartbeat: 2 * time.Second})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	held := locktest.Lock(t, c.Mutex("heard"))
	waiting := goLock(t, c.Mutex("heard").With(redlatch.LockOptions{StrictOrder: redlatch.On}))
	locktest.InLine(t, old, "heard", 1) // so c listens
	locktest.Release(t, held)
	locktest.Release(t, waiting())
	leads.Store(master)
	host, port, _ := strings.Cut(master.Addr(), ":")
	old.Do("REPLICAOF", host, port)
	o := redlatch.Options{Heartbeat: 200 * time.Millisecond}
	one, two := locktest.Open(t, master.URL(), o), locktest.Open(t, master.URL(), o)
	held = locktest.Lock(t, one.Mutex("a"))
	waiting = goLock(t, c.Mutex("a"))
	locktest.InLine(t, master, "a", 1)
	other := goLock(t, two.Mutex("a"))
	locktest.InLine(t, master, "a", 2)
	locktest.Release(t, held) // which drops the ticket of c
	held = other()
	locktest.InLine(t, master, "a", 1) // c has its place again
	other = goLock(t, one.Mutex("a"))
	locktest.InLine(t, master, "a", 2)
	locktest.Release(t, held)
	locktest.Release(t, waiting())
	locktest.Release(t, other())
}

// goLock locks a mutex in the background. wait returns the lease.
func goLock(t *testing.T, m *redlatch.Mutex) (wait func() *redlatch.Lease) {
	t.Helper()
	ctx, got := locktest.Within(t, locktest.Patience), make(chan check.Result[*redlatch.Lease], 1)
	go func() { got <- check.Value(m.Lock(ctx)) }()
	return func() *redlatch.Lease { return (<-got).OK(t) }
}
