package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/internal/testkit/servers"
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
			args = servers.ClusterArgs()
		}
		server, err := redistest.Launch(at, args...)
		if err != nil {
			return nil, err
		}
		d.servers = append(d.servers, server)
	}
	if kind == inCluster {
		err = redistest.Join(d.servers)
	}
	return d, err
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

// info returns the fields of a section of INFO.
func info(server *redistest.Server, section string) map[string]string {
	return servers.Fields(server.Do("INFO", section))
}

// field returns the sum of these fields of a section of INFO.
func field(server *redistest.Server, section string, fields ...string) (total float64) {
	all := info(server, section)
	for _, f := range fields {
		n, _ := strconv.ParseFloat(all[f], 64)
		total += n
	}
	return total
}
