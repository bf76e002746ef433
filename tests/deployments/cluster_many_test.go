package deployments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// manyNames is more than a client listens to over connections of their own.
const manyNames = 150

// TestManyNamesOfAClusterShareConnections: a client had a connection for each name that it waited
// for in a cluster, up to 64, and heard of more names by messages to all nodes.
func TestManyNamesOfAClusterShareConnections(t *testing.T) {
	t.Parallel()
	for adapter, connect := range map[string]func(t *testing.T, nodes []*redistest.Server) *redlatch.Client{
		"rueidis": func(t *testing.T, nodes []*redistest.Server) *redlatch.Client {
			return locktest.Open(t, help.ClusterURL(nodes), help.Sluggish())
		},
		"go-redis": func(t *testing.T, nodes []*redistest.Server) *redlatch.Client {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, PoolSize: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			return wire.Wrap(t, redlatchgoredis.New(rdb), help.Sluggish())
		},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			nodes := help.NeedShards(t, redistest.StartCluster(t, 3))
			holder := locktest.Open(t, help.ClusterURL(nodes), help.Sluggish())
			c := connect(t, nodes)
			var held []*redlatch.Lease
			var waits []<-chan help.Outcome
			for i := range manyNames {
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
			check.That(t, listening <= len(nodes), "a client that waits for %d names listens over %d connections, want one for each node", manyNames, listening)
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

// TestWaiterThatListensAtAReplica: a replica hears all messages, and its master does not count the
// clients that listen there. A client listens there around a failover, while it takes the replica
// for the master. Each release took such a waiter for dead, and the waiter lost its place again
// right after it had asked for it.
func TestWaiterThatListensAtAReplica(t *testing.T) {
	t.Parallel()
	nodes, name := help.NeedShards(t, redistest.StartClusterWithReplicas(t, 3)), "roles"
	for i := 0; help.ShardOf(nodes, name) != 0; i++ { // whose replica is the fourth node
		name = fmt.Sprint("roles", i)
	}
	// The client finds out within a second that it is not counted, and is believed alive for three, so
	// that a machine that pauses makes no waiter look dead.
	o := help.Brisk(help.Lasting)
	o.Heartbeat = time.Second
	replica, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{nodes[3].Addr()}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(replica.Close)
	c := wire.Wrap(t, atReplica{wire.Dial(t, nodes[0].Addr()), replica}, o)
	held := locktest.Lock(t, locktest.Open(t, help.ClusterURL(nodes), o).Mutex(name))
	waits := help.GoLock(t.Context(), c.Mutex(name))
	locktest.InLine(t, nodes[0], name, 1)
	keepOccupied(t, nodes[0], held, waits, locktest.Open(t, help.ClusterURL(nodes), o), locktest.Open(t, help.ClusterURL(nodes), o))
}

// atReplica is a connection to a cluster whose sharded subscriptions are at one replica.
type atReplica struct {
	conn.Conn
	replica rueidis.Client
}

func (a atReplica) SubscribeSharded(
	ctx context.Context, channel string, up func(), message func(payload string),
) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			up()
		}
	})
	err := a.replica.Receive(ctx, a.replica.B().Ssubscribe().Channel(channel).Build(),
		func(m rueidis.PubSubMessage) { message(m.Message) })
	return cmp.Or(err, errors.New("the subscription ended"))
}

// keepOccupied has a lock change hands between two other clients until the waiter in front of them
// has had it. Each of the two keeps it until the waiter and the other client are both in line. So
// the lock is never free: the waiter gets it by its place, or not at all.
func keepOccupied(
	t *testing.T, s *redistest.Server, held *redlatch.Lease, waits <-chan help.Outcome, others ...*redlatch.Client,
) {
	t.Helper()
	const many = 10 // turns of others; in the first, the waiter may learn that it is not counted
	name := held.Name()
	next := help.GoLock(t.Context(), others[0].Mutex(name))
	for turns := range many {
		locktest.InLine(t, s, name, 2)
		locktest.Release(t, held)
		select {
		case got := <-waits:
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			locktest.Release(t, got.Lease)
			locktest.Release(t, help.Await(t, next))
			return
		case got := <-next:
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			held = got.Lease
		}
		next = help.GoLock(t.Context(), others[(turns+1)%2].Mutex(name))
	}
	t.Fatalf("others had %d turns, and a waiter that came before them none", many)
}
