package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// target is where lockers connect to: one server, a cluster, or the masters of a quorum.
type target struct {
	Kind  string   `json:"kind"` // oneServer, inCluster or quorum
	Addrs []string `json:"addrs"`
}

// The kinds of targets.
const (
	oneServer = "one"
	inCluster = "cluster"
	quorum    = "quorum"
)

// deployment is servers that run for a part of the benchmarks.
type deployment struct {
	kind    string
	servers []*redistest.Server
	dir     string
}

// deploy starts n redis-servers, of which a cluster is made if the kind says so.
func deploy(kind string, n int) (d *deployment, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	d = &deployment{kind: kind, dir: dir}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	for i := range n {
		at := fmt.Sprintf("%s/%d", dir, i)
		if err := os.Mkdir(at, 0o755); err != nil {
			return nil, err
		}
		var args []string
		if kind == inCluster {
			args = []string{"--cluster-enabled", "yes"}
		}
		server, err := redistest.Launch(at, args...)
		if err != nil {
			return nil, err
		}
		d.servers = append(d.servers, server)
	}
	if kind == inCluster {
		err = d.cluster()
	}
	return d, err
}

// cluster gives each server its share of the slots, and returns when each says that the cluster is
// complete.
func (d *deployment) cluster() error {
	const slots = 16384
	n := len(d.servers)
	for i, s := range d.servers {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		share := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
			share = append(share, strconv.Itoa(slot))
		}
		s.Do(share...)
	}
	for _, s := range d.servers[1:] {
		host, port, err := net.SplitHostPort(s.Addr())
		if err != nil {
			return err
		}
		d.servers[0].Do("CLUSTER", "MEET", host, port)
	}
	for range 300 {
		complete := true
		for _, s := range d.servers {
			info := s.Do("CLUSTER", "INFO")
			complete = complete && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(n))
		}
		if complete {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the cluster was not complete after 30s: %s", d.servers[0].Do("CLUSTER", "NODES"))
}

// of returns the kind, also of a deployment that was not started: the page is written without.
func (d *deployment) of() string {
	if d == nil {
		return ""
	}
	return d.kind
}

func (d *deployment) stop() {
	for _, s := range d.servers {
		s.Stop()
	}
	_ = os.RemoveAll(d.dir)
}

func (d *deployment) target() target {
	to := target{Kind: d.kind}
	for _, s := range d.servers {
		to.Addrs = append(to.Addrs, s.Addr())
	}
	return to
}

// clear removes all data, and waits until the connections of the system before are closed.
func (d *deployment) clear() {
	for _, s := range d.servers {
		s.Do("FLUSHALL")
	}
	for range 100 {
		if d.connections() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// connections returns how many connections clients have to the servers.
func (d *deployment) connections() (n float64) {
	for _, s := range d.servers {
		n += field(s, "clients", "connected_clients") - 1 // without the one that asks
	}
	return n
}

// field returns the sum of these fields of a section of INFO.
func field(server *redistest.Server, section string, fields ...string) (total float64) {
	for line := range strings.Lines(server.Do("INFO", section)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, f := range fields {
			if f == key {
				n, _ := strconv.ParseFloat(value, 64)
				total += n
			}
		}
	}
	return total
}
