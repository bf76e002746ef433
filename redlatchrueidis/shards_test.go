package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
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
	eventually(t, "the masters are known", func() bool { return c.places.Node("any") != "" })
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
