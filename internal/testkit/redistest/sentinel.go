package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MasterName is what the sentinels of [StartSentinels] call the master.
const MasterName = "main"

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
		line := append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
		if i > 0 {
			host, port, _ := net.SplitHostPort(g.Nodes[0].addr)
			line = append(line, "--replicaof", host, port)
		}
		g.Nodes = append(g.Nodes, Start(t, line...))
	}
	for _, replica := range g.Nodes[1:] {
		replica.AwaitInfo("replication", "master_link_status:up")
	}
	for range 3 {
		g.Sentinels = append(g.Sentinels, startSentinel(t, g.Nodes[0].addr))
	}
	for _, s := range g.Sentinels {
		s.AwaitInfo("sentinel", "status=ok,address="+g.Nodes[0].addr+",slaves=2,sentinels=3")
	}
	return g
}

func startSentinel(t testing.TB, master string) *Server {
	t.Helper()
	dir := t.TempDir()
	host, port, _ := net.SplitHostPort(master)
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", MasterName, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := launch(&Server{dir: dir, sentinel: file})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.belongTo(t)
	_, _ = s.DoErr("SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "500") // servers before 7.0 take their time
	return s
}

// URL leads to the master by way of the sentinels.
func (g *Sentinels) URL() string {
	var hosts []string
	for _, s := range g.Sentinels {
		hosts = append(hosts, s.addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + MasterName
}

// Master is the node that the sentinels call the master.
func (g *Sentinels) Master() *Server {
	addr := strings.Fields(g.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName))
	for _, node := range g.Nodes {
		if len(addr) == 2 && node.addr == net.JoinHostPort(addr[0], addr[1]) {
			return node
		}
	}
	g.Nodes[0].fail("no node is the master that the sentinels name: %q", addr)
	return nil
}

// Failover has the sentinels promote a replica while the master is well, and returns when all of
// them say so.
func (g *Sentinels) Failover() {
	before := g.Master()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := g.Sentinels[0].DoErr("SENTINEL", "FAILOVER", MasterName)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			before.fail("SENTINEL FAILOVER: %v", err)
		}
	}
	g.AwaitPromotion(before)
}

// AwaitPromotion returns when all sentinels name another master than this one.
func (g *Sentinels) AwaitPromotion(before *Server) {
	for _, s := range g.Sentinels {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			addr := strings.Fields(s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName))
			if len(addr) == 2 && net.JoinHostPort(addr[0], addr[1]) != before.addr {
				break
			}
			if time.Now().After(deadline) {
				before.fail("sentinel %s does not name another master than %s; its log:\n%s", s.addr, before.addr, s.log())
			}
		}
	}
}

// AwaitInfo returns when this section of INFO contains the text.
func (s *Server) AwaitInfo(section, text string) {
	s.helper()
	var info string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if info, _ = s.DoErr("INFO", section); strings.Contains(info, text) {
			return
		}
	}
	s.fail("INFO %s of %s does not say %s:\n%s", section, s.addr, strconv.Quote(text), info)
}
