package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// MasterName is what the sentinels of [StartSentinels] call the master.
const MasterName = servers.MasterName

// Sentinels is a master with replicas and the sentinels that watch them.
type Sentinels struct {
	Nodes     []*Server // the first one began as the master
	Sentinels []*Server
}

// StartSentinels starts a master with two replicas and three sentinels that fail over soon, and
// returns when all know each other. The arguments are for the master and the replicas.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	g := &Sentinels{}
	for i := range 3 {
		line := append(servers.ReplicationArgs(), args...)
		if i > 0 {
			line = append(line, servers.ReplicaOf(g.Nodes[0].Server)...)
		}
		g.Nodes = append(g.Nodes, Start(t, line...))
	}
	for _, replica := range g.Nodes[1:] {
		replica.AwaitInfo("replication", "master_link_status:up")
	}
	for range 3 {
		one, err := servers.StartSentinel(context.Background(), servers.Spec{Dir: t.TempDir()}, g.Nodes[0].Server, 500*time.Millisecond)
		s := belongTo(t, one, err)
		_, _ = s.DoErr("SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "500") // servers before 7.0 take their time
		g.Sentinels = append(g.Sentinels, s)
	}
	check.OK(g.Nodes[0].t, "sentinels", servers.AwaitSentinels(context.Background(), of(g.Sentinels), g.Nodes[0].Server, 2))
	return g
}

// URL returns a URL that leads to the master through the sentinels.
func (g *Sentinels) URL() string { return servers.SentinelURL(of(g.Sentinels)) }

// Master returns the node that the sentinels call the master.
func (g *Sentinels) Master() *Server {
	s, err := servers.Named(context.Background(), g.Sentinels[0].Server, of(g.Nodes))
	check.OK(g.Nodes[0].t, "master", err)
	for _, node := range g.Nodes {
		if node.Server == s {
			return node
		}
	}
	return nil
}

// Failover makes the sentinels promote a replica while the master is healthy, and returns when all
// of them say so.
func (g *Sentinels) Failover() {
	before := g.Master()
	before.eventually("SENTINEL FAILOVER", func() error { // once it finds a replica fit
		_, err := g.Sentinels[0].DoErr("SENTINEL", "FAILOVER", MasterName)
		return err
	})
	g.AwaitPromotion(before)
}

// AwaitPromotion returns when all sentinels name another master than this one.
func (g *Sentinels) AwaitPromotion(before *Server) {
	for _, s := range g.Sentinels {
		check.OK(before.t, "promotion", servers.AwaitPromotion(context.Background(), s.Server, of(g.Nodes), before.Server))
	}
}
