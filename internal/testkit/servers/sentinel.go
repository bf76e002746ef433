package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MasterName is what sentinels call the master.
const MasterName = "main"

// ReplicationArgs returns the arguments of a master and of replicas that find each other soon.
func ReplicationArgs() []string {
	return []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
}

// ReplicaOf returns the argument that makes a server a replica.
func ReplicaOf(master *Server) []string {
	host, port, _ := net.SplitHostPort(master.Addr)
	return []string{"--replicaof", host, port}
}

// StartSentinel starts one of three sentinels of a master, which take it for dead after that long.
func StartSentinel(ctx context.Context, spec Spec, master *Server, dead time.Duration) (*Server, error) {
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	spec.Sentinel = filepath.Join(spec.Dir, "sentinel.conf")
	host, port, _ := net.SplitHostPort(master.Addr)
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s %[4]d\nsentinel failover-timeout %[1]s 3000\nsentinel announce-ip %[2]s\n",
		MasterName, host, port, dead.Milliseconds())
	if err := os.WriteFile(spec.Sentinel, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return Start(ctx, spec)
}

// AwaitSentinels returns when sentinels know each other, and the master with that many replicas.
func AwaitSentinels(ctx context.Context, sentinels []*Server, master *Server, replicas int) error {
	for _, s := range sentinels {
		want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", master.Addr, replicas, len(sentinels))
		if err := s.AwaitInfo(ctx, "sentinel", want); err != nil {
			return err
		}
	}
	return nil
}

// SentinelURL returns a URL that leads to the master through the sentinels.
func SentinelURL(sentinels []*Server) string {
	var hosts []string
	for _, s := range sentinels {
		hosts = append(hosts, s.Addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + MasterName
}

// Named returns the node that a sentinel calls the master.
func Named(ctx context.Context, sentinel *Server, nodes []*Server) (*Server, error) {
	reply, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
	addr := strings.Fields(reply)
	for _, s := range nodes {
		if len(addr) == 2 && s.Addr == net.JoinHostPort(addr[0], addr[1]) {
			return s, nil
		}
	}
	return nil, errors.Join(err, fmt.Errorf("no node is the master that a sentinel names: %q", addr))
}

// AwaitPromotion returns when a sentinel names a node other than this one as the master.
func AwaitPromotion(ctx context.Context, sentinel *Server, nodes []*Server, before *Server) error {
	return Eventually(ctx, func() error {
		now, err := Named(ctx, sentinel, nodes)
		if now == before {
			err = fmt.Errorf("sentinel %s does not name another master than %s; its log:\n%s", sentinel.Addr, before.Addr, sentinel.Log())
		}
		return err
	})
}
