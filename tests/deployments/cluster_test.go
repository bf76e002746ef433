package deployments

import (
	"context"
	"errors"
	"fmt"
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

// TestClusterMasterIsKilled: the master of a name dies while 32 workers of 4 clients take turns at
// it, and its replica takes over.
func TestClusterMasterIsKilled(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	ctx := locktest.Within(t, 2*locktest.Patience)
	u := &help.Turns{Over: make(chan struct{})}
	for range 4 {
		c := locktest.Open(t, help.ClusterURL(nodes), help.Brisk(help.FailoverTTL))
		for range 8 {
			u.Take(t, ctx, c.Mutex("a"))
		}
	}
	u.More(t, 100)
	nodes[nodes[0].Slot(locktest.StateKey("a"))*3/16384].Kill()
	u.More(t, 100)
	u.End()
}

// TestClusterMasterIsKilledOverGoRedis: go-redis asked a dead master until its picture of the
// cluster was a minute old, and all locks of that shard were out for as long, though a replica had
// taken over within a second or two.
func TestClusterMasterIsKilledOverGoRedis(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	c := wire.Wrap(t, redlatchgoredis.New(rdb), redlatch.Options{})
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	shard := nodes[0].Slot(locktest.StateKey("a")) * 3 / 16384
	nodes[shard].Kill()
	nodes[3+shard].AwaitInfo("replication", "role:master")
	locktest.Eventually(t, "a lock of the shard whose master died", func() bool {
		l, err := c.Mutex("a").TryLock(locktest.Within(t, 5*time.Second))
		if err != nil {
			return false
		}
		locktest.Release(t, l)
		return true
	})
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
	s := help.NeedShards(t, redistest.StartCluster(t, 1))[0]
	url := "redis+cluster://" + s.Addr()
	o := help.InOrder(help.Brisk(30 * time.Second))
	o.Heartbeat = time.Second
	o.WrapConn = func(c conn.Conn) conn.Conn { return apart{c, c.(conn.Sharded)} }
	holder, c := locktest.Open(t, url, help.Sluggish()), locktest.Open(t, url, o)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range channels {
		name := fmt.Sprint("n", i)
		locktest.Lock(t, holder.Mutex(name))
		waits := t.Context()
		if i == 0 {
			waits = ctx
		}
		help.GoLock(waits, c.Mutex(name))
	}
	for i := range channels {
		locktest.InLine(t, s, fmt.Sprint("n", i), 1)
	}
	held := locktest.Lock(t, holder.Mutex("x"))
	first := help.GoLock(t.Context(), c.Mutex("x"))
	locktest.InLine(t, s, "x", 1)
	plain := s.Do("ZRANGE", help.ClientsKey("x"), "0", "-1")
	cancel()
	locktest.Eventually(t, "one channel less", func() bool { return !strings.Contains(s.Do("PUBSUB", "SHARDCHANNELS"), "redlatch:n0}") })
	second := help.GoLock(t.Context(), c.Mutex("x"))
	locktest.InLine(t, s, "x", 2)
	locktest.Eventually(t, "two addresses", func() bool { return s.Do("ZCARD", help.ClientsKey("x")) == "2" })
	until := check.Value(strconv.ParseInt(s.Do("ZSCORE", help.ClientsKey("x"), plain), 10, 64)).OK(t)
	help.Rest(t.Context(), time.Until(time.UnixMilli(until))-200*time.Millisecond)
	locktest.Release(t, held)
	l := help.Await(t, first)
	var inRedis, here time.Duration
	for range 3 { // an extend in between would make it longer here
		ms := check.Value(strconv.Atoi(s.Do("PTTL", locktest.StateKey("x")))).OK(t)
		inRedis, here = time.Duration(ms+1)*time.Millisecond, l.Remaining()
		if here <= inRedis {
			break
		}
	}
	check.That(t, here <= inRedis, "the lease has %v left, and in Redis %v", here, inRedis)
	locktest.Release(t, l)
	locktest.Release(t, help.Await(t, second))
}

// TestForcedLockThatMayBeKeptInACluster: the client of a lock that it may keep is told that the lock was
// taken by force, though it does not wait for that name.
func TestForcedLockThatMayBeKeptInACluster(t *testing.T) {
	t.Parallel()
	c, other := openKeeper(t)
	owner := keepIn(t, c, "a")
	l := locktest.Lock(t, c.Mutex("a"))
	check.Equal(t, l.Owner(), owner, "owner of a lock that was kept")
	_, err := other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: owner})
	check.Nil(t, "ForceRelease", err)
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

// TestTryAsksForAKeptLockInACluster: a client that keeps locks listens at one node of the cluster, and
// hears tries of names at each of them.
func TestTryAsksForAKeptLockInACluster(t *testing.T) {
	t.Parallel()
	c, other := openKeeper(t)
	for i := range 12 {
		name := strconv.Itoa(i)
		keepIn(t, c, name)
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
}

// TestFreeLocksNeedNoSubscriptionInACluster: a client that keeps locks listens to its own channel. It
// listens for a name as well only if it has to wait for that.
func TestFreeLocksNeedNoSubscriptionInACluster(t *testing.T) {
	t.Parallel()
	nodes := help.NeedShards(t, redistest.StartCluster(t, 3))
	o := help.Sluggish()
	o.Lock.Linger = o.Lock.TTL / 3
	c := locktest.Open(t, help.ClusterURL(nodes), o)
	keepIn(t, c, "a")
	for i := range 8 {
		locktest.Release(t, locktest.Lock(t, c.Mutex(strconv.Itoa(i))))
	}
	for _, n := range nodes {
		check.Equal(t, n.Do("PUBSUB", "SHARDCHANNELS"), "", "names that are listened to")
	}
}

// openKeeper returns a client of a cluster that keeps locks, and another that does not.
func openKeeper(t *testing.T) (c, other *redlatch.Client) {
	t.Helper()
	nodes := redistest.StartCluster(t, 3)
	o := help.Sluggish()
	o.Lock.Linger = o.Lock.TTL / 3
	return locktest.Open(t, help.ClusterURL(nodes), o), locktest.Open(t, help.ClusterURL(nodes), help.Sluggish())
}

// keepIn has a client keep the mutex of that name, and returns the owner.
func keepIn(t *testing.T, c *redlatch.Client, name string) (owner string) {
	t.Helper()
	locktest.Eventually(t, "the client keeps "+name, func() bool {
		l := check.Value(c.Mutex(name).TryLock(t.Context())).OK(t)
		owner = l.Owner()
		locktest.Release(t, l)
		return strings.HasSuffix(owner, "~")
	})
	return owner
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
		slot := nodes[0].Slot(locktest.StateKey(l.Name))
		from := slot * 3 / 16384
		source, target := nodes[from], nodes[(from+1)%3]
		next := make(chan error, 1)
		go func() {
			lease, err := kindtest.Locks(other, "moves-")[i].Acquire(locktest.Within(t, locktest.Patience))
			if err == nil {
				err = lease.Release(t.Context())
			}
			next <- err
		}()
		queue := help.QueueKey(l.Name)
		locktest.Eventually(t, "a waiter for the "+l.Kind, func() bool { return source.Do("ZCARD", queue) == "1" })
		text := strconv.Itoa(slot)
		target.Do("CLUSTER", "SETSLOT", text, "IMPORTING", strings.TrimSpace(source.Do("CLUSTER", "MYID")))
		source.Do("CLUSTER", "SETSLOT", text, "MIGRATING", strings.TrimSpace(target.Do("CLUSTER", "MYID")))
		evals := func() string { // calls, and from Redis 6.2 on those that were refused
			_, after, _ := strings.Cut(source.Do("INFO", "commandstats"), "cmdstat_evalsha:")
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
		before := evals()
		released := make(chan error, 1)
		go func() { released <- held.Release(context.Background()) }()
		locktest.Eventually(t, "a release of the "+l.Kind, func() bool { return evals() != before || !help.KnowsShards(source) })
		redistest.MoveSlot(nodes, source, target, slot)
		check.OK(t, "Release of the "+l.Kind, <-released)
		check.OK(t, "the waiter for the "+l.Kind, <-next)
	}
}

// TestSlotsNeverRest: the slots of locks of every kind, and of the names of a MultiMutex, go from master
// to master all the time. Two clients go on taking turns, one at a time, and meet no error.
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
	for range 2 {
		c := locktest.Open(t, help.ClusterURL(nodes), o)
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
