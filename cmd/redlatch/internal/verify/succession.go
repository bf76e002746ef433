package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// errNoSuccessor says that no failover can be had.
var errNoSuccessor = errors.New("no failover can be had")

// succession makes a replica take over from a master, and returns the address of one of the two.
type succession func(ctx context.Context) (addr string, err error)

// succession returns how a replica takes over at a URL, or why none can. It spares a server that is
// given by its own address, which would then be a replica and take no more writes.
func (a *admin) succession(ctx context.Context, url string) (succession, error) {
	o, _, err := address.Parse(url)
	if err != nil {
		return nil, err
	}
	c := a.clients[0]
	switch {
	case o.Sentinel.MasterSet != "":
		return func(ctx context.Context) (string, error) { return sentinelSuccession(ctx, o) }, nil
	case c.Mode() != rueidis.ClientModeCluster:
		return nil, fmt.Errorf("%w: the URL leads to one server, and not to a Sentinel or a cluster", errNoSuccessor)
	}
	if _, err := anyReplica(ctx, c); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) { return clusterSuccession(ctx, c, o) }, nil
}

// anyReplica returns the address of a healthy replica in a cluster.
func anyReplica(ctx context.Context, cluster rueidis.Client) (addr string, err error) {
	text, err := do(ctx, cluster, "CLUSTER", "NODES")
	if err != nil {
		return "", err
	}
	var all []string
	for line := range strings.Lines(text) {
		// id address flags master ping pong epoch state slots...
		if fields := strings.Fields(line); len(fields) > 7 && fields[7] == "connected" {
			flags := strings.Split(fields[2], ",")
			if slices.Contains(flags, "slave") && !strings.Contains(fields[2], "fail") && !slices.Contains(flags, "handshake") {
				addr, _, _ := strings.Cut(fields[1], "@")
				all = append(all, addr)
			}
		}
	}
	if len(all) == 0 {
		return "", fmt.Errorf("%w: no node of the cluster is a replica that is well", errNoSuccessor)
	}
	return all[rand.IntN(len(all))], nil
}

// failoverGivenUp is how long after a CLUSTER FAILOVER a replica has either taken over or given up:
// on a busy machine its master may answer too late.
const failoverGivenUp = 6 * time.Second

// clusterSuccession makes a replica take over, and returns when it has. It asks again if the
// replica gives up. If a reply is lost, or says that another failover is under way, it still waits.
func clusterSuccession(ctx context.Context, cluster rueidis.Client, o rueidis.ClientOption) (string, error) {
	addr, err := anyReplica(ctx, cluster)
	if err != nil {
		return "", err
	}
	o.InitAddress, o.ForceSingleClient, o.DisableCache = []string{addr}, true, true
	c, err := rueidis.NewClient(o)
	if err != nil {
		return addr, err
	}
	defer c.Close()
	var asked time.Time
	var said error
	return addr, servers.Eventually(ctx, func() error {
		if time.Since(asked) > failoverGivenUp {
			asked = time.Now()
			_, said = do(ctx, c, "CLUSTER", "FAILOVER")
		}
		if info, err := do(ctx, c, "INFO", "replication"); err != nil || !strings.Contains(info, "role:master\r\n") {
			return errors.Join(said, err, fmt.Errorf("%s has not taken over", addr))
		}
		return nil
	})
}

// sentinelSuccession makes the sentinels promote a replica, and returns when the old master is a
// replica of it.
func sentinelSuccession(ctx context.Context, o rueidis.ClientOption) (string, error) {
	set := o.Sentinel.MasterSet
	s, err := dialSentinel(o)
	if err != nil {
		return "", err
	}
	defer s.Close()
	before, err := masterBy(ctx, s, set)
	if err != nil {
		return "", err
	}
	known, err := healthyReplicas(ctx, s, set)
	if err != nil {
		return before, err
	}
	if known == 0 {
		return before, fmt.Errorf("%w: the sentinels know no replica that is well", errNoSuccessor)
	}
	if err := servers.Eventually(ctx, func() error { _, err := do(ctx, s, "SENTINEL", "FAILOVER", set); return err }); err != nil {
		return before, err
	}
	return before, servers.Eventually(ctx, func() error {
		switch now, err := masterBy(ctx, s, set); {
		case err != nil:
			return err
		case now == before:
			return fmt.Errorf("the sentinels still name %s as the master", before)
		}
		if n, err := healthyReplicas(ctx, s, set); err != nil || n < known {
			return errors.Join(err, fmt.Errorf("the new master has %d replicas, the old one had %d", n, known))
		}
		return nil
	})
}

func dialSentinel(o rueidis.ClientOption) (c rueidis.Client, err error) {
	for _, addr := range o.InitAddress {
		c, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, Username: o.Sentinel.Username, Password: o.Sentinel.Password, TLSConfig: o.Sentinel.TLSConfig,
			Dialer: o.Sentinel.Dialer, ForceSingleClient: true, DisableCache: true,
		})
		if err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("connect to a sentinel: %w", err)
}

func masterBy(ctx context.Context, sentinel rueidis.Client, set string) (string, error) {
	reply, err := do(ctx, sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", set)
	host, port, ok := strings.Cut(strings.Trim(reply, "[]"), " ")
	if err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("a sentinel names %q as the master", reply))
	}
	return net.JoinHostPort(host, port), nil
}

// healthyReplicas counts the replicas that a sentinel reaches, and that say that they are replicas
// and connected to their master.
func healthyReplicas(ctx context.Context, sentinel rueidis.Client, set string) (n int, err error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	all, err := sentinel.Do(ctx, sentinel.B().Arbitrary("SENTINEL", "SLAVES", set).Build()).ToArray()
	if err != nil {
		return 0, err
	}
	for _, one := range all {
		fields, err := one.AsStrMap()
		if err != nil {
			return n, err
		}
		if fields["flags"] == "slave" && fields["role-reported"] == "slave" && fields["master-link-status"] == "ok" {
			n++
		}
	}
	return n, nil
}
