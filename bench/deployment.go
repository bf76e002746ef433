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
	Kind  string // oneServer, inCluster or quorum
	Addrs []string
}

// The kinds of targets.
const (
	oneServer = "one"
	inCluster = "cluster"
	quorum    = "quorum"
)

// deployment is servers that run for a part of the benchmarks.
type deployment struct {
	target
	servers []*redistest.Server
	dir     string
}

// deploy starts n redis-servers, and makes a cluster of them if the kind says so.
func deploy(kind string, n int) (d *deployment, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	d = &deployment{target: target{Kind: kind}, dir: dir}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	var args []string
	if kind == inCluster {
		args = servers.ClusterArgs()
	}
	for i := range n {
		server, err := redistest.Launch(fmt.Sprintf("%s/%d", dir, i), args...)
		if err != nil {
			return nil, err
		}
		d.servers, d.Addrs = append(d.servers, server), append(d.Addrs, server.Addr())
	}
	if kind == inCluster {
		err = redistest.Join(d.servers)
	}
	return d, err
}

func (d *deployment) stop() {
	for _, s := range d.servers {
		s.Stop()
	}
	_ = os.RemoveAll(d.dir)
}

// clear removes all data, and waits until the connections of the previous system are closed.
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
func (d *deployment) connections() float64 {
	return d.sum("clients", "connected_clients") - float64(len(d.servers)) // without those that ask
}

// sum returns the sum of these fields of a section of INFO over all servers.
func (d *deployment) sum(section string, fields ...string) (total float64) {
	for _, s := range d.servers {
		all := info(s, section)
		for _, f := range fields {
			n, _ := strconv.ParseFloat(all[f], 64)
			total += n
		}
	}
	return total
}

// info returns the fields of a section of INFO.
func info(server *redistest.Server, section string) map[string]string {
	return servers.Fields(server.Do("INFO", section))
}
