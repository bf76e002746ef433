package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/link"
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

// Others returns all servers but this one.
func (d *Deployment) Others(s *Server) []*Server {
	return slices.DeleteFunc(slices.Concat(d.Nodes, d.Sentinels), func(other *Server) bool { return other == s })
}

// Cut silently swallows everything between a server and others, in both directions. mend ends that,
// and returns how often something was swallowed.
func (d *Deployment) Cut(s *Server, others ...*Server) (mend func() (swallowed int64)) {
	var cut []*link.Link
	for _, other := range others {
		l := d.wires.link(pairOf(s.number, other.number))
		l.Set(link.Harm{SwallowRequests: true, SwallowReplies: true})
		cut = append(cut, l)
	}
	return func() (swallowed int64) {
		for _, l := range cut {
			swallowed += l.Heal()
		}
		return swallowed
	}
}

// StepClock steps the wall clock of one node of a quorum, or of all nodes of another deployment,
// and returns how many were seen to have stepped.
func (d *Deployment) StepClock(ctx context.Context, by time.Duration) (seen int64, what string, err error) {
	c := d.clocks.all[rand.IntN(len(d.clocks.all))]
	what = fmt.Sprintf("%+.3fs", by.Seconds())
	if d.Kind == "quorum" {
		what = c.nodes[0].Addr + " " + what
	}
	if err := c.Set(c.Ahead() + by); err != nil {
		return 0, what, err
	}
	for _, s := range c.nodes {
		ahead, err := s.ahead(ctx)
		if err != nil {
			return seen, what, err
		}
		if off := ahead - c.Ahead(); off.Abs() < by.Abs()/2 {
			seen++
		}
	}
	return seen, what, nil
}
