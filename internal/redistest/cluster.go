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

// StartCluster starts a Redis Cluster of n masters without replicas, each with an equal share of the slots, and returns when every node
// agrees that it is complete. That takes about two seconds, which the servers insist on.
func StartCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = Start(t, append([]string{"--cluster-enabled", "yes"}, args...)...)
		nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // else the nodes have to settle who yields
		nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/n), strconv.Itoa((i+1)*slots/n-1))
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
