package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// manyNames is more than a client listens to over connections of their own.
const manyNames = 150

// needShards skips the test on nodes without sharded channels.
func needShards(t *testing.T, nodes []*redistest.Server) []*redistest.Server {
	t.Helper()
	if nodes[0].Do("COMMAND", "INFO", "ssubscribe") == "" {
		t.Skip("this server has no sharded channels, which are new in Redis 7.0")
	}
	return nodes
}

// shardOf is the number of the master of a name, in a cluster of three whose slots are as they were.
func shardOf(nodes []*redistest.Server, name string) int {
	return nodes[0].Slot(stateKey(name)) * 3 / 16384
}

// waitForMany has a client hold many names and another wait for each of them.
func waitForMany(
	t *testing.T, ctx context.Context, nodes []*redistest.Server, holder, c *redlatch.Client,
) (names []string, held []*redlatch.Lease, waits []<-chan outcome) {
	t.Helper()
	for i := range manyNames {
		name := fmt.Sprint("many", i)
		names, held = append(names, name), append(held, lock(t, holder.Mutex(name)))
		waits = append(waits, goLock(ctx, c.Mutex(name)))
	}
	for _, name := range names {
		queued(t, nodes[shardOf(nodes, name)], name, 1)
	}
	return names, held, waits
}

// TestManyNamesOfAClusterShareConnections: a client had a connection for each name that it waited
// for in a cluster, up to 64, and heard of more names by messages to all nodes.
func TestManyNamesOfAClusterShareConnections(t *testing.T) {
	t.Parallel()
	for adapter, connect := range map[string]func(t *testing.T, nodes []*redistest.Server) *redlatch.Client{
		"rueidis": func(t *testing.T, nodes []*redistest.Server) *redlatch.Client {
			return open(t, clusterURL(nodes), sluggish())
		},
		"go-redis": func(t *testing.T, nodes []*redistest.Server) *redlatch.Client {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, PoolSize: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			return wrap(t, redlatchgoredis.New(rdb), sluggish())
		},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			nodes := needShards(t, redistest.StartCluster(t, 3))
			holder := open(t, clusterURL(nodes), sluggish())
			c := connect(t, nodes)
			_, held, waits := waitForMany(t, t.Context(), nodes, holder, c)
			listening := 0
			for _, node := range nodes {
				listening += strings.Count(node.Do("CLIENT", "LIST", "TYPE", "PUBSUB"), "id=")
			}
			if listening > len(nodes) {
				t.Errorf("a client that waits for %d names listens over %d connections, want one for each node", manyNames, listening)
			}
			for i := range held { // and no heartbeat comes in that time
				release(t, held[i])
				release(t, await(t, waits[i]))
			}
			for _, node := range nodes {
				if info := node.Do("CLUSTER", "INFO"); strings.Contains(info, "cluster_stats_messages_publish_") {
					t.Errorf("a node has messages for all nodes:\n%s", info)
				}
			}
			if err := closeLeaving(c); err != nil {
				t.Errorf("Close = %v", err)
			}
			eventually(t, "no channel left", func() bool {
				for _, node := range nodes {
					if node.Do("PUBSUB", "SHARDCHANNELS") != "" {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestSlotsMoveWhileManyWait: channels of names whose slots moved come back at the new node, those
// of other names on the same connection stay, and every waiter is told.
func TestSlotsMoveWhileManyWait(t *testing.T) {
	t.Parallel()
	nodes := needShards(t, redistest.StartCluster(t, 3))
	holder, c := open(t, clusterURL(nodes), sluggish()), open(t, clusterURL(nodes), sluggish())
	names, held, waits := waitForMany(t, t.Context(), nodes, holder, c)
	moved := map[int]*redistest.Server{}
	for _, name := range names[:5] {
		slot, shard := nodes[0].Slot(stateKey(name)), shardOf(nodes, name)
		moved[slot] = nodes[(shard+1)%3]
		redistest.MoveSlot(nodes, nodes[shard], moved[slot], slot)
	}
	for _, name := range names[:5] {
		at := moved[nodes[0].Slot(stateKey(name))]
		eventually(t, "the new node of "+name+" is listened to", func() bool {
			return strings.Contains(at.Do("PUBSUB", "SHARDCHANNELS", "{"+stateKey(name)+"}*"), c.ID())
		})
	}
	for i := range held {
		release(t, held[i])
		release(t, await(t, waits[i]))
	}
}

// TestManyWaitersLoseTheirConnections: the connection to a node ends, and with it all of its
// channels. Waiters find the grants of that time when the channels are back.
func TestManyWaitersLoseTheirConnections(t *testing.T) {
	t.Parallel()
	nodes := needShards(t, redistest.StartCluster(t, 3))
	holder, c := open(t, clusterURL(nodes), sluggish()), open(t, clusterURL(nodes), sluggish())
	_, held, waits := waitForMany(t, t.Context(), nodes, holder, c)
	for i := range held {
		if i%50 == 0 {
			for _, node := range nodes {
				node.Do("CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
		release(t, held[i])
		release(t, await(t, waits[i]))
	}
}

// TestMasterOfManyWaitersIsKilled: waiters at other masters get their leases meanwhile, and
// those of the master that died get theirs when its replica has taken over.
func TestMasterOfManyWaitersIsKilled(t *testing.T) {
	t.Parallel()
	nodes := needShards(t, redistest.StartClusterWithReplicas(t, 3))
	ctx := within(t, 2*patience)
	holder, c := open(t, clusterURL(nodes), brisk(failoverTTL)), open(t, clusterURL(nodes), brisk(failoverTTL))
	names, held, waits := waitForMany(t, ctx, nodes, holder, c)
	nodes[0].Kill()
	for i, name := range names {
		if shardOf(nodes[1:], name) == 0 {
			continue
		}
		release(t, held[i])
		release(t, await(t, waits[i]))
	}
	nodes[3].AwaitInfo("replication", "role:master")
	for i, name := range names {
		if shardOf(nodes[1:], name) != 0 {
			continue
		}
		releaseInOutage(t, held[i])
		select {
		case got := <-waits[i]:
			if got.err != nil {
				t.Errorf("the wait for %s = %v, want a lease", name, got.err)
				continue
			}
			releaseInOutage(t, got.lease)
		case <-ctx.Done():
			t.Fatalf("the wait for %s did not end within %v", name, 2*patience)
		}
	}
}

// TestRolesChangeWhileAWaiterListens: after a failover by hand the subscription of a waiter is at a
// replica, which hears all messages and is counted nowhere. The waiter was taken for dead by each
// release, and lost its place at once whenever it had asked for it again.
func TestRolesChangeWhileAWaiterListens(t *testing.T) {
	t.Parallel()
	const many = 300 // turns of others; some 100 are taken in two heartbeats
	nodes := needShards(t, redistest.StartClusterWithReplicas(t, 3))
	name := "roles"
	for i := 0; shardOf(nodes, name) != 0; i++ {
		name = fmt.Sprint("roles", i)
	}
	o := brisk(5 * time.Second)
	o.Heartbeat = 300 * time.Millisecond
	holder, c := open(t, clusterURL(nodes), o), open(t, clusterURL(nodes), o)
	held := lock(t, holder.Mutex(name))
	waits := goLock(t.Context(), c.Mutex(name))
	queued(t, nodes[0], name, 1)
	nodes[3].Do("CLUSTER", "FAILOVER")
	nodes[3].AwaitInfo("replication", "role:master")

	ctx, stop := context.WithCancel(t.Context())
	var turns atomic.Int32
	var others sync.WaitGroup
	for range 3 {
		other := open(t, clusterURL(nodes[1:]), o)
		others.Go(func() {
			for ctx.Err() == nil {
				_ = other.Mutex(name).Do(ctx, func(context.Context, *redlatch.Lease) error {
					turns.Add(1)
					rest(ctx, 5*time.Millisecond)
					return nil
				})
			}
		})
	}
	queued(t, nodes[3], name, 4)
	release(t, held)
	lease := await(t, waits)
	if n := turns.Load(); n > many {
		t.Errorf("others had %d turns before a waiter that came before them, want %d at most", n, many)
	}
	release(t, lease)
	stop()
	others.Wait()
}

// releaseInOutage releases a lease that may have been lost by then, or whose server may not answer
// yet; the client then goes on in the background.
func releaseInOutage(t *testing.T, l *redlatch.Lease) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_ = l.Release(ctx)
}

// TestStoppedMasterDelaysOnlyItsOwn: requests go together by node. Those that wait for a master that
// does not answer keep none to another waiting, nor the extends of leases there.
func TestStoppedMasterDelaysOnlyItsOwn(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := brisk(5 * time.Second)
	o.RequestTimeout = 2 * patience
	c := open(t, clusterURL(nodes), o)
	var stopped, others []string
	for i := 0; len(stopped) < 64 || len(others) < 64; i++ {
		name := fmt.Sprint("node", i)
		release(t, lock(t, c.Mutex(name)))
		if shardOf(nodes, name) == 0 {
			stopped = append(stopped, name)
		} else {
			others = append(others, name)
		}
	}
	var kept []*redlatch.Lease
	for i := range 8 {
		kept = append(kept, lock(t, c.Mutex(fmt.Sprint(others[i], " kept"))))
	}
	var over atomic.Bool
	var ended atomic.Int32
	nodes[0].Pause()
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for _, name := range stopped {
		work.Go(func() {
			if _, err := c.Mutex(name).Lock(ctx); err != nil && !over.Load() {
				ended.Add(1)
			}
		})
	}
	var cycles sync.WaitGroup
	for _, name := range others {
		cycles.Go(func() {
			for range 30 {
				release(t, lock(t, c.Mutex(name)))
			}
		})
	}
	cycles.Wait()
	if n := ended.Load(); n > 0 {
		t.Errorf("%d requests to the stopped master had ended before those to others were done", n)
	}
	for _, l := range kept {
		if at := shardOf(nodes[1:], l.Name()); at != 0 && !l.Held() {
			t.Errorf("the lease of %s was lost: %v", l.Name(), l.Err())
		}
	}
	over.Store(true)
	cancel()
	nodes[0].Resume()
	work.Wait()
}

// TestStoppedMasterHoldsUpNoReleases: a client with waiters at all masters is closed while one of
// these does not answer. The releases of its tickets went in batches for the whole cluster, each of
// which had some for that master: no batch seemed to be answered, and those after the first were not
// sent.
func TestStoppedMasterHoldsUpNoReleases(t *testing.T) {
	t.Parallel()
	const names, each = 60, 20
	// The others serve their slots while one is silent.
	nodes := redistest.StartCluster(t, 3, "--cluster-node-timeout", "120000")
	holder := open(t, clusterURL(nodes), sluggish())
	o := inOrder(brisk(lasting))
	o.RequestTimeout = patience / 3 // a third of it for each batch, also on a busy machine
	c := open(t, clusterURL(nodes), o)
	var waiting sync.WaitGroup
	for i := range names {
		m := holder.Mutex(fmt.Sprint("left", i))
		lock(t, m)
		for range each {
			waiting.Go(func() {
				if l, err := c.Mutex(m.Name()).Lock(t.Context()); err == nil {
					t.Errorf("%s has a second holder, %s", m.Name(), l.Owner())
				}
			})
		}
	}
	inLine := func(shards ...int) (n int) {
		for i := range names {
			name := fmt.Sprint("left", i)
			if at := shardOf(nodes[1:], name); slices.Contains(shards, at) {
				n += len(line(nodes[at], name))
			}
		}
		return n
	}
	eventually(t, "all are in line", func() bool { return inLine(0, 1, 2) == names*each })
	nodes[0].Pause()
	_ = c.Close()
	waiting.Wait()
	if n := inLine(1, 2); n > 0 {
		t.Errorf("%d tickets of a client that is closed are left at the masters that answer", n)
	}
	nodes[0].Resume()
}
