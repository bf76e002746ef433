package tests

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// clusterURL leads to the cluster of these nodes.
func clusterURL(nodes []*redistest.Server) string {
	var hosts []string
	for _, node := range nodes {
		hosts = append(hosts, node.Addr())
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// turns has workers take turns at a name until over is closed. It fails the test if a token is not
// larger than those before it.
type turns struct {
	mu   sync.Mutex
	last int64
	n    int
	over chan struct{}
	work sync.WaitGroup
}

func (u *turns) take(t *testing.T, ctx context.Context, m *redlatch.Mutex) {
	u.work.Go(func() {
		for {
			select {
			case <-u.over:
				return
			default:
			}
			err := m.Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
				token := l.Token()
				u.mu.Lock()
				defer u.mu.Unlock()
				if token != 0 && token <= u.last {
					t.Errorf("token %d after %d, want more", token, u.last)
				}
				u.last = max(u.last, token)
				u.n++
				return nil
			})
			// What is lost or unreachable is tried again, as a program would.
			if err != nil && !errors.Is(err, redlatch.ErrNotHeld) && !errors.Is(err, redlatch.ErrUnreachable) {
				t.Errorf("Do = %v", err)
				return
			}
		}
	})
}

// more waits for n more turns.
func (u *turns) more(t *testing.T, n int) {
	t.Helper()
	u.mu.Lock()
	n += u.n
	u.mu.Unlock()
	eventually(t, fmt.Sprintf("%d turns", n), func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.n >= n
	})
}

func (u *turns) end() {
	close(u.over)
	u.work.Wait()
}

// TestClusterMasterIsKilled: the master of a name dies while 32 workers of 4 clients take turns at
// it, and its replica takes over.
func TestClusterMasterIsKilled(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	ctx := within(t, 2*patience)
	u := &turns{over: make(chan struct{})}
	for range 4 {
		c := open(t, clusterURL(nodes), brisk(failoverTTL))
		for range 8 {
			u.take(t, ctx, c.Mutex("a"))
		}
	}
	u.more(t, 100)
	nodes[nodes[0].Slot(stateKey("a"))*3/16384].Kill()
	u.more(t, 100)
	u.end()
}

// TestClusterMasterIsKilledOverGoRedis: go-redis asked a dead master until its picture of the
// cluster was a minute old, and all locks of that shard were out for as long, though a replica had
// taken over within a second or two.
func TestClusterMasterIsKilledOverGoRedis(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := wrap(t, redlatchgoredis.New(rdb), redlatch.Options{})
	release(t, lock(t, c.Mutex("a")))
	shard := nodes[0].Slot(stateKey("a")) * 3 / 16384
	nodes[shard].Kill()
	nodes[3+shard].AwaitInfo("replication", "role:master")
	eventually(t, "a lock of the shard whose master died", func() bool {
		l, err := c.Mutex("a").TryLock(within(t, 5*time.Second))
		if err != nil {
			return false
		}
		release(t, l)
		return true
	})
}

// TestSlotMoves: the slot of a name moves to another master while it is held, waited for, and
// acquired over and over.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	ctx := within(t, 2*patience)
	one, other := open(t, clusterURL(nodes), brisk(failoverTTL)), open(t, clusterURL(nodes), brisk(failoverTTL))
	slot := nodes[0].Slot(stateKey("{tag}a"))
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]

	held := lock(t, one.Mutex("{tag}held"))
	next := goLock(ctx, other.Mutex("{tag}held"))
	eventually(t, "a waiter", func() bool { return from.Do("ZCARD", "redlatch:{tag}held:queue") == "1" })
	u := &turns{over: make(chan struct{})}
	for range 4 {
		u.take(t, ctx, one.Mutex("{tag}a"))
		u.take(t, ctx, other.Mutex("{tag}a"))
	}
	u.more(t, 100)
	redistest.MoveSlot(nodes, from, to, slot)
	u.more(t, 100)
	u.end()

	token := held.Token()
	if err := held.Extend(ctx); err != nil || token == 0 {
		t.Errorf("Extend of a lease whose slot moved = %v with token %d, want nil and a token", err, token)
	}
	if got := to.Do("GET", "redlatch:{tag}held"); got != held.Owner() {
		t.Errorf("the new master has the owner %q, want %q", got, held.Owner())
	}
	release(t, held)
	successor := await(t, next)
	if successor.Token() <= token {
		t.Errorf("token %d after %d, want more", successor.Token(), token)
	}
	release(t, successor)
}

// TestMultiOverSeveralSlots: names in several slots are locked one after the other, those that
// share a tag at once; all or none.
func TestMultiOverSeveralSlots(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := open(t, clusterURL(nodes), brisk(lasting))
	for _, names := range [][]string{{"a", "b", "c", "d"}, {"{tag}a", "{tag}b", "{tag}c"}} {
		l, err := c.MultiMutex(names...).Lock(t.Context())
		if err != nil {
			t.Fatalf("Multi(%q).Lock = %v, want a lease", names, err)
		}
		for _, name := range names {
			if l.Token(name) == 0 {
				t.Errorf("%q has no token", name)
			}
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil", err)
		}
		last := lock(t, c.Mutex(names[len(names)-1]))
		if _, err := c.MultiMutex(names...).TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock with one of %q taken = %v, want ErrTaken", names, err)
		}
		release(t, last)
		for _, name := range names {
			release(t, lock(t, c.Mutex(name)))
		}
	}
}

// TestGrantsStayOnTheirShard: from Redis 7.0 on, what is pushed to a waiter goes over the node of
// the name alone. A plain message would go to every node of the cluster.
func TestGrantsStayOnTheirShard(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, "sharded channels")
	nodes := redistest.StartCluster(t, 3)
	one, other := open(t, clusterURL(nodes), sluggish()), open(t, clusterURL(nodes), sluggish())
	owner := nodes[nodes[0].Slot(stateKey("a"))*3/16384]
	listens := func(c *redlatch.Client) bool {
		return strings.Contains(owner.Do("PUBSUB", "SHARDCHANNELS"), "{redlatch:a}:"+c.ID()+":grants")
	}
	held := lock(t, one.Mutex("a"))
	for range 10 {
		next := goLock(within(t, patience), other.Mutex("a"))
		eventually(t, "a waiter", func() bool { return waiting(t, one, "a") == 1 && listens(other) })
		release(t, held)
		held = await(t, next)
		one, other = other, one
	}
	for i, node := range nodes {
		info := node.Do("CLUSTER", "INFO")
		if strings.Contains(info, "cluster_stats_messages_publish_") {
			t.Errorf("node %d has sent or received messages for all nodes:\n%s", i, info)
		}
	}
	// Who holds it is told there, too, when it is taken away.
	if _, err := other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
		t.Errorf("ForceRelease = %v", err)
	}
	receive(t, held.Context().Done(), "the holder's lease")
	// A client listens for a few of its heartbeats after it has waited.
	brief := open(t, clusterURL(nodes), brisk(lasting))
	held = lock(t, other.Mutex("a"))
	next := goLock(within(t, patience), brief.Mutex("a"))
	eventually(t, "it listens", func() bool { return listens(brief) })
	release(t, held)
	release(t, await(t, next))
	eventually(t, "it listens no more", func() bool { return !listens(brief) })
}

// apart is a connection to a cluster whose adapter has a connection for each sharded channel.
type apart struct {
	conn.Conn
	conn.Sharded
}

func (a apart) Target() conn.Target {
	target := a.Conn.Target()
	target.ShardsTogether = false
	return target
}

// TestTicketsOfTwoAddresses: a client that waits for many names hears grants of one more by its
// plain channel, and later, when it waits for fewer, by a channel of that name. Who stands in line
// with the first address must be kept believed alive there: what it is granted is no longer than
// that in Redis, and its deadline must not be later.
func TestTicketsOfTwoAddresses(t *testing.T) {
	t.Parallel()
	const channels = 64 // names with a channel of their own
	s := needShards(t, redistest.StartCluster(t, 1))[0]
	url := "redis+cluster://" + s.Addr()
	o := inOrder(brisk(30 * time.Second))
	o.Heartbeat = time.Second
	o.WrapConn = func(c conn.Conn) conn.Conn { return apart{c, c.(conn.Sharded)} }
	holder, c := open(t, url, sluggish()), open(t, url, o)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range channels {
		name := fmt.Sprint("n", i)
		lock(t, holder.Mutex(name))
		waits := t.Context()
		if i == 0 {
			waits = ctx
		}
		goLock(waits, c.Mutex(name))
	}
	for i := range channels {
		queued(t, s, fmt.Sprint("n", i), 1)
	}
	held := lock(t, holder.Mutex("x"))
	first := goLock(t.Context(), c.Mutex("x"))
	queued(t, s, "x", 1)
	plain := s.Do("ZRANGE", clientsKey("x"), "0", "-1")
	cancel()
	eventually(t, "one channel less", func() bool { return !strings.Contains(s.Do("PUBSUB", "SHARDCHANNELS"), "redlatch:n0}") })
	second := goLock(t.Context(), c.Mutex("x"))
	queued(t, s, "x", 2)
	eventually(t, "two addresses", func() bool { return s.Do("ZCARD", clientsKey("x")) == "2" })
	until, err := strconv.ParseInt(s.Do("ZSCORE", clientsKey("x"), plain), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	rest(t.Context(), time.Until(time.UnixMilli(until))-200*time.Millisecond)
	release(t, held)
	l := await(t, first)
	var inRedis, here time.Duration
	for range 3 { // an extend in between would make it longer here
		ms, err := strconv.Atoi(s.Do("PTTL", stateKey("x")))
		if err != nil {
			t.Fatal(err)
		}
		inRedis, here = time.Duration(ms+1)*time.Millisecond, l.Remaining()
		if here <= inRedis {
			break
		}
	}
	if here > inRedis {
		t.Errorf("the lease has %v left, and in Redis %v", here, inRedis)
	}
	release(t, l)
	release(t, await(t, second))
}
