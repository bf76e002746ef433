package deployments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// overEachAdapter runs a test with clients of a cluster over rueidis, and over go-redis.
func overEachAdapter(t *testing.T, test func(t *testing.T, open func(nodes []*redistest.Server, o redlatch.Options) *redlatch.Client)) {
	t.Parallel()
	t.Run("rueidis", func(t *testing.T) {
		t.Parallel()
		test(t, func(nodes []*redistest.Server, o redlatch.Options) *redlatch.Client {
			return locktest.Open(t, help.ClusterURL(nodes), o)
		})
	})
	t.Run("go-redis", func(t *testing.T) {
		t.Parallel()
		test(t, func(nodes []*redistest.Server, o redlatch.Options) *redlatch.Client { return overGoRedis(t, nodes, o) })
	})
}

// overGoRedis returns a client of a cluster over go-redis.
func overGoRedis(t *testing.T, nodes []*redistest.Server, o redlatch.Options) *redlatch.Client {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}, PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return wire.Wrap(t, redlatchgoredis.New(rdb), o)
}

// TestClusterMasterIsKilled: the master of a name dies while 32 workers of 4 clients take turns at
// it, and its replica takes over. (go-redis asked a dead master until its picture of the cluster was a
// minute old, and all locks of that shard were out for as long.)
func TestClusterMasterIsKilled(t *testing.T) {
	overEachAdapter(t, func(t *testing.T, open func([]*redistest.Server, redlatch.Options) *redlatch.Client) {
		nodes := redistest.StartClusterWithReplicas(t, 3)
		ctx := locktest.Within(t, 2*locktest.Patience)
		u := &help.Turns{Over: make(chan struct{})}
		for range 4 {
			c := open(nodes, help.Brisk(help.FailoverTTL))
			for range 8 {
				u.Take(t, ctx, c.Mutex("a"))
			}
		}
		u.More(t, 100)
		nodes[help.ShardOf(nodes, "a")].Kill()
		u.More(t, 100)
		u.End()
	})
}

// TestManyNamesOfAClusterShareConnections: a client had a connection for each name that it waited
// for in a cluster, up to 64, and heard of more names by messages to all nodes.
func TestManyNamesOfAClusterShareConnections(t *testing.T) {
	overEachAdapter(t, func(t *testing.T, open func([]*redistest.Server, redlatch.Options) *redlatch.Client) {
		const names = 150
		nodes := help.NeedShards(t, redistest.StartCluster(t, 3))
		holder := locktest.Open(t, help.ClusterURL(nodes), help.Sluggish())
		c := open(nodes, help.Sluggish())
		var held []*redlatch.Lease
		var waits []<-chan help.Outcome
		for i := range names {
			name := fmt.Sprint("many", i)
			held = append(held, locktest.Lock(t, holder.Mutex(name)))
			waits = append(waits, help.GoLock(t.Context(), c.Mutex(name)))
		}
		for _, l := range held {
			locktest.InLine(t, nodes[help.ShardOf(nodes, l.Name())], l.Name(), 1)
		}
		listening := 0
		for _, node := range nodes {
			listening += strings.Count(node.Do("CLIENT", "LIST", "TYPE", "PUBSUB"), "id=")
		}
		check.That(t, listening <= len(nodes), "a client that waits for %d names listens over %d connections, want one for each node", names, listening)
		for i := range held { // and no heartbeat comes in that time
			locktest.Release(t, held[i])
			next := help.Await(t, waits[i])
			if i > 0 {
				locktest.Release(t, next)
				continue
			}
			// The holder is told over its shard, too, when the lock is taken away.
			check.Nil(t, "ForceRelease", check.ErrorOf(holder.ForceRelease(t.Context(), next.Name(), redlatch.ForceOptions{})))
			help.Receive(t, next.Context().Done(), "the holder's lease")
		}
		for _, node := range nodes {
			if info := node.Do("CLUSTER", "INFO"); strings.Contains(info, "cluster_stats_messages_publish_") {
				t.Errorf("a node has messages for all nodes:\n%s", info)
			}
		}
		check.Nil(t, "Close", locktest.CloseLeaving(c))
		locktest.Eventually(t, "no channel left", func() bool {
			return !slices.ContainsFunc(nodes, func(node *redistest.Server) bool { return node.Do("PUBSUB", "SHARDCHANNELS") != "" })
		})
	})
}

// TestKeptLocksInACluster: a client that keeps locks listens to its own channel, at one node. It is told of
// tries of names at each of them, and that a lock was taken by force. It listens for a name as well only
// if it has to wait for that.
func TestKeptLocksInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := help.Sluggish()
	other := locktest.Open(t, help.ClusterURL(nodes), o)
	o.Lock.Linger = o.Lock.TTL / 3
	c := locktest.Open(t, help.ClusterURL(nodes), o)
	keep := func(name string) (owner string) {
		t.Helper()
		locktest.Eventually(t, "the client keeps "+name, func() bool {
			l := check.Value(c.Mutex(name).TryLock(t.Context())).OK(t)
			owner = l.Owner()
			locktest.Release(t, l)
			return strings.HasSuffix(owner, "~")
		})
		return owner
	}
	for i := range 12 {
		keep(strconv.Itoa(i))
	}
	if help.KnowsShards(nodes[0]) {
		for i := range 8 {
			locktest.Release(t, locktest.Lock(t, c.Mutex(fmt.Sprint("another ", i))))
		}
		for _, n := range nodes {
			check.Equal(t, n.Do("PUBSUB", "SHARDCHANNELS"), "", "names that are listened to")
		}
	}
	for i := range 12 {
		name := strconv.Itoa(i)
		locktest.Eventually(t, "a try gets "+name, func() bool { // the nodes may need a moment to tell each other
			l, err := other.Mutex(name).TryLock(t.Context())
			if err == nil {
				locktest.Release(t, l)
			} else if strings.Contains(err.Error(), "does not listen") {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	owner := keep("a")
	l := locktest.Lock(t, c.Mutex("a"))
	check.Equal(t, l.Owner(), owner, "owner of a lock that was kept")
	check.Nil(t, "ForceRelease", check.ErrorOf(other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: owner})))
	locktest.Eventually(t, "the client knows that it has the lock no more", func() bool { return !l.Held() })
}

// TestForceAmongUnlikeClientsOfACluster: one client has sharded channels, and the other has none. The
// holder is told at once by whichever it listens to.
func TestForceAmongUnlikeClientsOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := help.Sluggish()
	sharded := locktest.Open(t, help.ClusterURL(nodes), o)
	o.WrapConn = func(c conn.Conn) conn.Conn { return struct{ conn.Conn }{c} }
	plain := locktest.Open(t, help.ClusterURL(nodes), o)
	for _, c := range [][2]*redlatch.Client{{sharded, plain}, {plain, sharded}} {
		first := locktest.Lock(t, c[1].Mutex("a"))
		waits := help.GoLock(t.Context(), c[0].Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}))
		locktest.InLine(t, nodes[nodes[0].Slot(locktest.StateKey("a"))*3/16384], "a", 1)
		locktest.Release(t, first)
		l := help.Await(t, waits)
		check.Value(c[1].ForceRelease(t.Context(), "a", redlatch.ForceOptions{})).OK(t)
		locktest.Eventually(t, "the holder is told", func() bool { return !l.Held() })
	}
}

// TestReleaseWhileASlotMoves: a lock of each kind is released when its slot begins to move, and a waiter
// is in line. The script ends where it wants back a key that it deleted. The waiter has the lock when the
// slot has moved, and nothing of the holder is left.
func TestReleaseWhileASlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := help.Attentive()
	o.RequestTimeout = locktest.Patience
	one, other := locktest.Open(t, help.ClusterURL(nodes), o), locktest.Open(t, help.ClusterURL(nodes), o)
	for i, l := range kindtest.Locks(one, "moves-") {
		held := check.Value(l.Acquire(locktest.Within(t, locktest.Patience))).OK(t)
		next := make(chan error, 1)
		go func() {
			lease, err := kindtest.Locks(other, "moves-")[i].Acquire(locktest.Within(t, locktest.Patience))
			if err == nil {
				err = lease.Release(t.Context())
			}
			next <- err
		}()
		err := whileASlotMoves(t, nodes, l.Name, func() error { return held.Release(context.Background()) })
		check.OK(t, "Release of the "+l.Kind, err)
		check.OK(t, "the waiter for the "+l.Kind, <-next)
	}
}

// whileASlotMoves runs f when a waiter is in line and the slot of the name has begun to move: a key that a
// script deletes there does not come back. The slot moves once f has sent something.
func whileASlotMoves(t *testing.T, nodes []*redistest.Server, name string, f func() error) error {
	t.Helper()
	slot := nodes[0].Slot(locktest.StateKey(name))
	from := slot * 3 / 16384
	source, target := nodes[from], nodes[(from+1)%3]
	locktest.Eventually(t, "a waiter for "+name, func() bool { return source.Do("ZCARD", help.QueueKey(name)) == "1" })
	text := strconv.Itoa(slot)
	target.Do("CLUSTER", "SETSLOT", text, "IMPORTING", strings.TrimSpace(source.Do("CLUSTER", "MYID")))
	source.Do("CLUSTER", "SETSLOT", text, "MIGRATING", strings.TrimSpace(target.Do("CLUSTER", "MYID")))
	evals := func() string { // calls, and from Redis 6.2 on those that were refused
		_, after, _ := strings.Cut(source.Do("INFO", "commandstats"), "cmdstat_evalsha:")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	before := evals()
	done := make(chan error, 1)
	go func() { done <- f() }()
	locktest.Eventually(t, "a request", func() bool { return evals() != before || !help.KnowsShards(source) })
	redistest.MoveSlot(nodes, source, target, slot)
	return <-done
}

// TestKeyIsWrittenOverWhileASlotMoves: a reentrant mutex with a minimal hold is released, and a mutex is
// taken by force. The one stays closed, and the other is the taker's.
func TestKeyIsWrittenOverWhileASlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := help.Attentive()
	o.RequestTimeout = locktest.Patience
	c, other := locktest.Open(t, help.ClusterURL(nodes), o), locktest.Open(t, help.ClusterURL(nodes), o)
	wait := func(lock func(context.Context) (*redlatch.Lease, error)) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			if l, err := lock(ctx); err == nil {
				_ = l.Release(context.Background())
			}
		}()
		return func() { cancel(); <-over }
	}

	closed := func(c *redlatch.Client) *redlatch.ReentrantMutex {
		return c.ReentrantMutex("a").With(redlatch.LockOptions{MinHold: time.Hour})
	}
	held := check.Value(closed(c).Lock(t.Context())).OK(t)
	stop := wait(closed(other).Lock)
	check.OK(t, "Release", whileASlotMoves(t, nodes, "a", func() error { return held.Release(context.Background()) }))
	info := check.Value(c.Inspect(t.Context(), "a")).OK(t)
	check.That(t, len(info.Holders) == 1 && info.Holders[0].Resting, "within the minimal hold it is held by %+v", info.Holders)
	stop()

	robbed := locktest.Lock(t, c.Mutex("b"))
	_, err := c.ForceRelease(t.Context(), "b", redlatch.ForceOptions{}) // its key is there, too, from now on
	check.OK(t, "ForceRelease", err)
	_ = robbed.Release(t.Context())
	robbed = locktest.Lock(t, c.Mutex("b"))
	stop = wait(other.Mutex("b").Lock)
	check.OK(t, "TakeByForce", whileASlotMoves(t, nodes, "b", func() error {
		_, err := other.Mutex("b").TakeByForce(t.Context(), redlatch.ForceOptions{Owner: robbed.Owner()})
		return err
	}))
	stop()
}

// TestSlotsNeverRest: the slots of locks of every kind, and of the names of a MultiMutex, go from master
// to master all the time. Two clients, one over each library, go on taking turns, one at a time, and
// meet no error.
func TestSlotsNeverRest(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	names := append(kindtest.Kinds(), "multi")
	inside, turns := make([]atomic.Int32, len(names)), make([]atomic.Int32, len(names))
	var work sync.WaitGroup
	var over atomic.Bool
	takeTurns := func(lock int, turn func(ctx context.Context, alone func()) error) {
		work.Go(func() {
			for !over.Load() {
				err := turn(locktest.Within(t, locktest.Patience), func() {
					check.That(t, inside[lock].Add(1) == 1, "two hold the %s", names[lock])
					inside[lock].Add(-1)
				})
				if err != nil {
					t.Errorf("%s: %v", names[lock], err)
					return
				}
				turns[lock].Add(1)
			}
		})
	}
	o := help.Attentive()
	o.Heartbeat, o.RequestTimeout = 5*time.Second, locktest.Patience // of which three outlast a move on a busy machine
	for _, c := range []*redlatch.Client{locktest.Open(t, help.ClusterURL(nodes), o), overGoRedis(t, nodes, o)} {
		for i, l := range kindtest.Locks(c, "{tag}") {
			takeTurns(i, func(ctx context.Context, alone func()) error {
				lease, err := l.Acquire(ctx)
				if err != nil {
					return err
				}
				err = lease.Extend(ctx)
				alone()
				return errors.Join(err, lease.Release(ctx))
			})
		}
		takeTurns(len(names)-1, func(ctx context.Context, alone func()) error {
			return c.MultiMutex("{tag}a", "{tag}b", "c").Do(ctx, func(context.Context, *redlatch.MultiLease) error {
				alone()
				return nil
			})
		})
	}
	for move := range 3 {
		for _, key := range []string{"{tag}", locktest.StateKey("c")} {
			slot := nodes[0].Slot(key)
			from := slot*3/16384 + move
			redistest.MoveSlot(nodes, nodes[from%3], nodes[(from+1)%3], slot)
		}
		for lock, name := range names {
			before := turns[lock].Load()
			locktest.Eventually(t, "another turn at the "+name, func() bool { return turns[lock].Load() > before || t.Failed() })
		}
	}
	over.Store(true)
	work.Wait()
}
