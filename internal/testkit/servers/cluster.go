package servers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

const slots = 16384

// ClusterArgs returns the arguments of a node of a cluster.
func ClusterArgs() []string { return []string{"--cluster-enabled", "yes"} }

// ReplicatedArgs returns the arguments of a node of a cluster with replicas, which take over as
// soon as their master is dead: silent for that many milliseconds.
func ReplicatedArgs(dead string) []string {
	return append(ClusterArgs(), "--cluster-node-timeout", dead, "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
}

// Join makes a cluster: of n masters, each with an equal share of the slots, and of their replicas in
// the same order. It returns when every node agrees that the cluster is complete, and each replica has
// what its master has. That takes about two seconds, which the servers insist on.
func Join(ctx context.Context, nodes []*Server, n int) error {
	for i, s := range nodes {
		// Without their own epochs, the nodes have to settle which of them yields.
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < n {
			if _, err := s.Do(ctx, Share(i, n)...); err != nil {
				return err
			}
		}
		if i > 0 {
			if _, err := nodes[0].Do(ctx, append([]string{"CLUSTER", "MEET"}, s.bus()...)...); err != nil {
				return err
			}
		}
	}
	for i, replica := range nodes[n:] {
		id, err := nodes[i].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		err = Eventually(ctx, func() error { _, err := replica.Do(ctx, "CLUSTER", "REPLICATE", strings.TrimSpace(id)); return err })
		if err != nil {
			return err
		}
	}
	for _, s := range nodes {
		whole := []string{"cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots), fmt.Sprintf("cluster_known_nodes:%d", len(nodes))}
		if err := s.awaitReply(ctx, []string{"CLUSTER", "INFO"}, whole...); err != nil {
			return err
		}
	}
	for _, replica := range nodes[n:] {
		if err := replica.AwaitInfo(ctx, "replication", "master_link_status:up"); err != nil {
			return err
		}
	}
	return nil
}

// Share returns the command that gives node i of n its slots.
func Share(i, n int) []string {
	command := []string{"CLUSTER", "ADDSLOTS"}
	for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
		command = append(command, strconv.Itoa(slot))
	}
	return command
}

// bus returns where the other nodes of a cluster meet a node: host, port and, if it is announced, the
// port of its bus.
func (s *Server) bus() []string {
	host, port, _ := net.SplitHostPort(s.Addr)
	if i := slices.Index(s.Args, "--cluster-announce-bus-port"); i >= 0 {
		return []string{host, port, s.Args[i+1]}
	}
	return []string{host, port}
}
