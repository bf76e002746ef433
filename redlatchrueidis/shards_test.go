package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestChannelsOfADeadNode: the node of many channels is dead. The first that fails to dial it tells
// the others so, and not each of them dials.
func TestChannelsOfADeadNode(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	var dials atomic.Int32
	dial := func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if addr == nodes[0].Addr() {
			dials.Add(1)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
	o := rueidis.ClientOption{InitAddress: []string{nodes[1].Addr()}, DialCtxFn: dial}
	c := check.Value(Open(o)).OK(t)
	defer c.Close()
	check.Eventually(t, "the masters are known", func() bool { return c.places.Node("any") != "" })
	nodes[0].Kill()
	dials.Store(0)
	for n, channels := 0, 0; channels < 100; n++ {
		name := fmt.Sprint("channel ", n)
		if c.places.Node(name) != nodes[0].Addr() {
			continue
		}
		channels++
		err := c.SubscribeSharded(t.Context(), name, func() {}, func(string) {})
		check.That(t, err != nil, "a subscription at a dead node ended without an error")
	}
	if n := dials.Load(); n > 50 { // a busy machine has time for some, and rueidis looks at the cluster
		t.Errorf("100 channels dialed their dead node %d times", n)
	}
}

// TestScanOfANewMaster: a node has come to the cluster and got a slot, and no request has had to go
// there yet. What it has is found.
func TestScanOfANewMaster(t *testing.T) {
	t.Parallel()
	c, nodes := openCluster(t)
	key := keysOf(nodes)[0]
	nodes[0].Do("SET", key, "1")
	came := redistest.Start(t, "--cluster-enabled", "yes")
	host, port, _ := net.SplitHostPort(came.Addr())
	nodes[0].Do("CLUSTER", "MEET", host, port)
	all := append(slices.Clone(nodes), came)
	check.Eventually(t, "all nodes know all", func() bool {
		return !slices.ContainsFunc(all, func(n *redistest.Server) bool {
			info := n.Do("CLUSTER", "INFO")
			return !strings.Contains(info, "cluster_known_nodes:4") || !strings.Contains(info, "cluster_state:ok")
		})
	})
	redistest.MoveSlot(all, nodes[0], came, nodes[0].Slot(key))
	ctx := inTime(t)
	var found []string
	err := c.Scan(ctx, "*", func(key string) error {
		found = append(found, key)
		return nil
	})
	if err != nil || !slices.Equal(found, []string{key}) {
		t.Errorf("Scan = %v, and finds %q, want %q", err, found, key)
	}
}
