package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// StartCluster starts a Redis Cluster of n masters without replicas, each with an equal share of
// the slots, and returns when every node agrees that it is complete. That takes about two seconds,
// which the servers insist on.
func StartCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	return startCluster(t, n, n, append(servers.ClusterArgs(), args...))
}

// StartClusterWithReplicas is [StartCluster] of n masters, each with a replica that takes over soon
// after its master has died. The masters come first, then their replicas in the same order.
func StartClusterWithReplicas(t testing.TB, n int) []*Server {
	t.Helper()
	nodes := startCluster(t, 2*n, n, servers.ReplicatedArgs("5000"))
	// Not earlier: on a busy machine, a replica would take over while nodes are still told of it.
	for _, node := range nodes {
		node.Do("CONFIG", "SET", "cluster-node-timeout", "500")
	}
	return nodes
}

func startCluster(t testing.TB, all, masters int, args []string) []*Server {
	t.Helper()
	nodes := make([]*Server, all)
	for i := range nodes {
		nodes[i] = Start(t, args...)
	}
	check.OK(nodes[0].t, "cluster", servers.Join(context.Background(), of(nodes), masters))
	return nodes
}

// Join makes a cluster of masters that run already, each with an equal share of the slots.
func Join(nodes []*Server) error { return servers.Join(context.Background(), of(nodes), len(nodes)) }

// Leave takes a master, empty, out of its cluster. It runs on, alone. The next one gets its slots.
func Leave(nodes []*Server, leaving int) {
	left := nodes[leaving]
	id := strings.TrimSpace(left.Do("CLUSTER", "MYID"))
	left.Do("FLUSHALL")
	left.Do("CLUSTER", "RESET")
	for _, node := range nodes {
		if node != left {
			node.Do("CLUSTER", "FORGET", id)
		}
	}
	nodes[(leaving+1)%len(nodes)].Do(servers.Share(leaving, len(nodes))...)
}

// moving lets one slot move at a time: two new owners at once would each raise their epoch above
// the other's, again and again.
var moving sync.Mutex

// MoveSlot moves a slot and what is in it from one master to another, key by key, as redis-cli
// does.
func MoveSlot(nodes []*Server, from, to *Server, slot int) {
	moving.Lock()
	defer moving.Unlock()
	raise(nodes, to) // which takes its time; until the end, requests about several keys of the slot are refused
	BeginMove(from, to, slot)
	endMove(nodes, from, to, slot)
}

// BeginMove moves what is in a slot. Until [EndMove] the slot is still that of the first master,
// which sends clients that ask for a key it does not have to the other (ASK).
func BeginMove(from, to *Server, slot int) {
	text, target, source := strconv.Itoa(slot), strings.TrimSpace(to.Do("CLUSTER", "MYID")), strings.TrimSpace(from.Do("CLUSTER", "MYID"))
	to.Do("CLUSTER", "SETSLOT", text, "IMPORTING", source)
	from.Do("CLUSTER", "SETSLOT", text, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.Addr())
	for {
		keys := strings.Fields(from.Do("CLUSTER", "GETKEYSINSLOT", text, "100"))
		if len(keys) == 0 {
			return
		}
		for _, key := range keys {
			from.Do("MIGRATE", host, port, key, "0", "5000")
		}
	}
}

// EndMove gives a slot to the other master, and the first sends its clients there from now on
// (MOVED). It returns when all nodes know the new owner's epoch. If the slot moved on before that,
// news of this move could come later than the next move and undo it, with its keys.
func EndMove(nodes []*Server, from, to *Server, slot int) {
	moving.Lock()
	defer moving.Unlock()
	raise(nodes, to)
	endMove(nodes, from, to, slot)
}

func endMove(nodes []*Server, from, to *Server, slot int) {
	text, target := strconv.Itoa(slot), strings.TrimSpace(to.Do("CLUSTER", "MYID"))
	for _, node := range append([]*Server{to, from}, nodes...) {
		_, _ = node.DoErr("CLUSTER", "SETSLOT", text, "NODE", target) // replicas learn it from their masters
	}
	for _, node := range nodes {
		node.eventually("the epoch of the slot's new owner is known", func() error {
			if known, epoch := node.epochOf(target), to.epochOf(target); known != epoch {
				return fmt.Errorf("%s says %d and the owner %d", node.Addr(), known, epoch)
			}
			return nil
		})
	}
}

// raise gives a master an epoch above that of all others, and returns when every node knows it.
// SETSLOT does that, too, but only by what that master knows of the others: if two moves at once
// arrive at the same epoch, one of the two masters raises its own and claims the slot that it has
// just given away, and the new owner drops the keys.
func raise(nodes []*Server, to *Server) {
	target := strings.TrimSpace(to.Do("CLUSTER", "MYID"))
	to.eventually("the new owner has the highest epoch", func() error {
		for _, node := range nodes {
			own := node.epochOf(target)
			for id, epoch := range node.epochs() {
				if id != target && epoch >= own {
					to.Do("CLUSTER", "BUMPEPOCH")
					return fmt.Errorf("%s says %d, and %d of %s", node.Addr(), own, epoch, id)
				}
			}
		}
		return nil
	})
}

// epochOf returns the configuration epoch that a node of a cluster knows of another.
func (s *Server) epochOf(id string) int { return s.epochs()[id] }

// epochs returns the configuration epochs of all nodes of a cluster that a node knows.
func (s *Server) epochs() map[string]int {
	epochs := make(map[string]int)
	for line := range strings.Lines(s.Do("CLUSTER", "NODES")) {
		if fields := strings.Fields(line); len(fields) > 6 {
			epochs[fields[0]], _ = strconv.Atoi(fields[6])
		}
	}
	return epochs
}

// Slot returns the hash slot of a key.
func (s *Server) Slot(key string) int {
	return check.Value(strconv.Atoi(strings.TrimSpace(s.Do("CLUSTER", "KEYSLOT", key)))).OK(s.t)
}
