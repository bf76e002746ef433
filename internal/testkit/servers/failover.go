package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Master returns the node that the sentinels call the master, or any master of a cluster that has a
// replica.
func (d *Deployment) Master(ctx context.Context) (*Server, error) {
	if d.Kind == "sentinel" {
		return Named(ctx, d.Sentinels[0], d.Nodes)
	}
	return d.having(ctx, "role:master\r\nconnected_slaves:1")
}

// Replica returns a replica that has all that its master has.
func (d *Deployment) Replica(ctx context.Context) (*Server, error) {
	return d.having(ctx, "master_link_status:up")
}

// having returns a node whose INFO replication has this text.
func (d *Deployment) having(ctx context.Context, text string) (found *Server, err error) {
	err = Eventually(ctx, func() error {
		for _, i := range rand.Perm(len(d.Nodes)) {
			if info, err := d.Nodes[i].Do(ctx, "INFO", "replication"); err == nil && strings.Contains(info, text) {
				found = d.Nodes[i]
				return nil
			}
		}
		return fmt.Errorf("no node says %q", text)
	})
	return found, err
}

// slotsField is the first field of a line of CLUSTER NODES that tells the slots of the node.
const slotsField = 8

// AwaitOther returns when another node than this one has taken its place.
func (d *Deployment) AwaitOther(ctx context.Context, before *Server) error {
	if d.Kind == "sentinel" {
		return AwaitPromotion(ctx, d.Sentinels[0], d.Nodes, before)
	}
	return Eventually(ctx, func() error {
		for _, s := range d.Nodes {
			if s == before {
				continue
			}
			nodes, err := s.Do(ctx, "CLUSTER", "NODES")
			if err != nil {
				return err
			}
			for line := range strings.Lines(nodes) {
				if strings.Contains(line, " "+before.Addr+"@") && len(strings.Fields(line)) > slotsField {
					return fmt.Errorf("%s does not know that %s has lost its slots", s.Addr, before.Addr)
				}
			}
			info, err := s.Do(ctx, "CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") {
				return errors.Join(err, fmt.Errorf("the cluster is not well, says %s", s.Addr))
			}
		}
		return nil
	})
}

// AwaitWell returns when there are as many masters as there should be, every other node is a replica
// that has all, and every node of a cluster says that the cluster is well.
func (d *Deployment) AwaitWell(ctx context.Context) error {
	return Eventually(ctx, func() error {
		masters := 0
		for _, s := range d.Nodes {
			info, err := s.Do(ctx, "INFO", "replication")
			if err != nil {
				return err
			}
			switch {
			case strings.Contains(info, "role:master\r\n"):
				masters++
			case !strings.Contains(info, "master_link_status:up\r\n"):
				return fmt.Errorf("%s is not in touch with its master:\n%s", s.Addr, info)
			}
			if d.Kind != "cluster" {
				continue
			}
			if info, err = s.Do(ctx, "CLUSTER", "INFO"); err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = fmt.Errorf("the cluster is not well, says %s:\n%s", s.Addr, info)
			}
			if err != nil {
				return err
			}
		}
		if want := len(d.Nodes) / 2; masters != want {
			return fmt.Errorf("%d nodes are masters, want %d", masters, want)
		}
		return nil
	})
}

// Others are all servers but this one.
func (d *Deployment) Others(s *Server) []*Server {
	return slices.DeleteFunc(slices.Concat(d.Nodes, d.Sentinels), func(other *Server) bool { return other == s })
}
