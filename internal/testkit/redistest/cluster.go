package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// StartCluster starts a Redis Cluster of n masters without replicas, each with an equal share of
// the slots, and returns when every node agrees that it is complete. That takes about two seconds,
// which the servers insist on.
func StartCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = Start(t, append([]string{"--cluster-enabled", "yes"}, args...)...)
		nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // else the nodes have to settle which of them yields
		nodes[i].Do(share(i, n)...)
	}
	for _, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr())
		nodes[0].Do("CLUSTER", "MEET", host, port)
	}
	for _, node := range nodes {
		node.awaitCluster(n)
	}
	return nodes
}

// share is the command that gives node i of n its slots.
func share(i, n int) []string {
	command := []string{"CLUSTER", "ADDSLOTS"}
	for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
		command = append(command, strconv.Itoa(slot))
	}
	return command
}

// StartClusterWithReplicas is [StartCluster] of n masters, each with a replica that takes over soon
// after its master has died. The masters come first, then their replicas in the same order.
func StartClusterWithReplicas(t testing.TB, n int) []*Server {
	t.Helper()
	args := []string{"--cluster-node-timeout", "5000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}
	nodes := StartCluster(t, n, args...)
	for _, master := range nodes[:n] {
		replica := Start(t, append([]string{"--cluster-enabled", "yes"}, args...)...)
		host, port, _ := net.SplitHostPort(replica.Addr())
		master.Do("CLUSTER", "MEET", host, port)
		id := strings.TrimSpace(master.Do("CLUSTER", "MYID"))
		replica.eventually("CLUSTER REPLICATE", func() error {
			_, err := replica.DoErr("CLUSTER", "REPLICATE", id)
			return err
		})
		nodes = append(nodes, replica)
	}
	for _, node := range nodes {
		node.awaitCluster(2 * n)
	}
	for _, replica := range nodes[n:] {
		replica.AwaitInfo("replication", "master_link_status:up")
	}
	// Not before: on a busy machine, a replica would take over while the others are still told of it.
	for _, node := range nodes {
		node.Do("CONFIG", "SET", "cluster-node-timeout", "500")
	}
	return nodes
}

// MoveSlot moves a slot and what is in it from one master to another, key by key, as redis-cli
// does.
func MoveSlot(nodes []*Server, from, to *Server, slot int) {
	BeginMove(from, to, slot)
	EndMove(nodes, from, to, slot)
}

// BeginMove moves what is in a slot. Until [EndMove] the slot is still that of the first master,
// which sends clients that ask for a key it does not have to the other (ASK).
func BeginMove(from, to *Server, slot int) {
	text, target, source := strconv.Itoa(slot), strings.TrimSpace(to.Do("CLUSTER", "MYID")), strings.TrimSpace(from.Do("CLUSTER", "MYID"))
	to.Do("CLUSTER", "SETSLOT", text, "IMPORTING", source)
	from.Do("CLUSTER", "SETSLOT", text, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.addr)
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
// (MOVED). It returns when all nodes know how new that is. If the slot moved on before, word of
// this move could come later than the next one and undo it, with its keys.
func EndMove(nodes []*Server, from, to *Server, slot int) {
	raise(nodes, to)
	text, target := strconv.Itoa(slot), strings.TrimSpace(to.Do("CLUSTER", "MYID"))
	for _, node := range append([]*Server{to, from}, nodes...) {
		_, _ = node.DoErr("CLUSTER", "SETSLOT", text, "NODE", target) // replicas learn it from their masters
	}
	for _, node := range nodes {
		node.eventually("the epoch of the slot's new owner is known", func() error {
			if known, epoch := node.epochOf(target), to.epochOf(target); known != epoch {
				return fmt.Errorf("%s says %d and the owner %d", node.addr, known, epoch)
			}
			return nil
		})
	}
}

// raise gives a master an epoch above that of all others, and returns when every node knows it.
// SETSLOT does that, too, but only by what that master knows of the others: if two moves at once
// come to the same epoch, one of the two raises its own and claims the slot that it has just given
// away, and the new owner drops the keys.
func raise(nodes []*Server, to *Server) {
	target := strings.TrimSpace(to.Do("CLUSTER", "MYID"))
	to.eventually("the new owner has the highest epoch", func() error {
		for _, node := range nodes {
			own := node.epochOf(target)
			for id, epoch := range node.epochs() {
				if id != target && epoch >= own {
					to.Do("CLUSTER", "BUMPEPOCH")
					return fmt.Errorf("%s says %d, and %d of %s", node.addr, own, epoch, id)
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

// Slot is the hash slot of a key.
func (s *Server) Slot(key string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s.Do("CLUSTER", "KEYSLOT", key)))
	if err != nil {
		s.fail("CLUSTER KEYSLOT: %v", err)
	}
	return n
}

func (s *Server) eventually(what string, f func() error) {
	s.helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	s.fail("%s: %v", what, err)
}

func (s *Server) awaitCluster(n int) {
	s.helper()
	want := []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots), fmt.Sprintf("cluster_known_nodes:%d", n)}
	var info string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		info = s.Do("CLUSTER", "INFO")
		if containsAll(info, want) {
			return
		}
	}
	s.fail("cluster node %s is not ready:\n%s", s.addr, info)
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
