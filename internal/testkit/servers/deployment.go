package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Deployment is some servers that belong together.
type Deployment struct {
	Kind      string
	URLs      []string
	Nodes     []*Server // without sentinels
	Sentinels []*Server
	NoClocks  error // why no clock can be stepped; nil if that can be done, or was not asked for
	NoWires   error // why servers cannot be cut off from each other, likewise

	dir    string
	told   Told
	wires  *wires  // nil without
	clocks *clocks // nil without
}

// Options say what servers must be able to do besides serving. If a server or the machine does not
// allow that, they start without it, and the deployment says why.
type Options struct {
	Clocks bool // [Deployment.StepClock]
	Wires  bool // [Deployment.Cut]
}

// Kinds are the deployments that can be started.
var Kinds = []string{"one", "sentinel", "cluster", "quorum"}

// Deploy starts a deployment in dir and returns when it is ready. If there is an error, nothing stays
// behind.
func Deploy(ctx context.Context, kind, dir string, told Told, o Options) (d *Deployment, err error) {
	d = &Deployment{Kind: kind, dir: dir, told: told}
	defer func() {
		if err != nil {
			d.Stop()
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return d, err
	}
	trial := Spec{Dir: filepath.Join(dir, "trial"), Told: told, limit: commandLimit}
	if o.Clocks {
		d.clocks, d.NoClocks = newClocks(ctx, dir, trial)
	}
	if o.Wires {
		d.wires, d.NoWires = newWires(ctx, trial)
	}
	switch kind {
	case "one":
		_, err = d.add(ctx)
	case "quorum":
		for range 3 {
			if _, err = d.add(ctx); err != nil {
				break
			}
		}
	case "sentinel":
		err = d.sentinel(ctx)
	case "cluster":
		err = d.cluster(ctx)
	default:
		err = fmt.Errorf("there is no deployment %q: %s are known", kind, strings.Join(Kinds, ", "))
	}
	if err != nil {
		return d, err
	}
	if d.URLs == nil {
		for _, s := range d.Nodes {
			d.URLs = append(d.URLs, "redis://"+s.Addr)
		}
	}
	return d, nil
}

// add starts a node.
func (d *Deployment) add(ctx context.Context, args ...string) (*Server, error) {
	spec := Spec{number: len(d.Nodes), Dir: filepath.Join(d.dir, strconv.Itoa(len(d.Nodes))), Args: args}
	var own *clock
	if d.clocks != nil {
		var err error
		if own, err = d.clocks.next(spec.number, d.Kind == "quorum"); err != nil {
			return nil, err
		}
		spec.Env = own.Environment(d.clocks.library)
	}
	s, err := d.start(ctx, spec, Start)
	if err != nil {
		return nil, err
	}
	if own != nil {
		own.nodes = append(own.nodes, s)
	}
	d.Nodes = append(d.Nodes, s)
	return s, nil
}

func (d *Deployment) sentinel(ctx context.Context) error {
	master, err := d.add(ctx, ReplicationArgs()...)
	if err != nil {
		return err
	}
	replica, err := d.add(ctx, append(ReplicationArgs(), ReplicaOf(master)...)...)
	if err != nil {
		return err
	}
	if err := replica.AwaitInfo(ctx, "replication", "master_link_status:up"); err != nil {
		return err
	}
	for i := range 3 {
		spec := Spec{number: len(d.Nodes) + i, Dir: filepath.Join(d.dir, fmt.Sprintf("sentinel%d", i)), Sentinel: "to be written"}
		s, err := d.start(ctx, spec, func(ctx context.Context, spec Spec) (*Server, error) {
			return StartSentinel(ctx, spec, master, 2*time.Second)
		})
		if err != nil {
			return err
		}
		d.Sentinels = append(d.Sentinels, s)
	}
	d.URLs = []string{SentinelURL(d.Sentinels)}
	return AwaitSentinels(ctx, d.Sentinels, master, 1)
}

// cluster starts three masters with a replica each.
func (d *Deployment) cluster(ctx context.Context) error {
	const n = 3
	var hosts []string
	for range 2 * n {
		s, err := d.add(ctx, ReplicatedArgs("2000")...)
		if err != nil {
			return err
		}
		hosts = append(hosts, s.Addr)
	}
	d.URLs = []string{"redis+cluster://" + strings.Join(hosts[:n], ",")}
	if err := Join(ctx, d.Nodes, n); err != nil {
		return err
	}
	return d.AwaitWell(ctx)
}

// AwaitWell returns when there are as many masters as there should be, every other node is a
// replica that has all data, and every node of a cluster says that the cluster is well.
func (d *Deployment) AwaitWell(ctx context.Context) error {
	return Eventually(ctx, func() error {
		masters := 0
		for _, s := range d.Nodes {
			info, err := s.Do(ctx, "INFO", "replication")
			if err != nil {
				return err
			}
			switch {
			case strings.Contains(info, "role:master\r\n"):
				masters++
			case !strings.Contains(info, "master_link_status:up\r\n"):
				return fmt.Errorf("%s is not in touch with its master:\n%s", s.Addr, info)
			}
			if d.Kind != "cluster" {
				continue
			}
			if info, err = s.Do(ctx, "CLUSTER", "INFO"); err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = fmt.Errorf("the cluster is not well, says %s:\n%s", s.Addr, info)
			}
			if err != nil {
				return err
			}
		}
		if want := len(d.Nodes) / 2; masters != want {
			return fmt.Errorf("%d nodes are masters, want %d", masters, want)
		}
		return nil
	})
}

// Real returns where servers that announce other addresses really listen.
func (d *Deployment) Real() map[string]string {
	real := make(map[string]string)
	for _, s := range d.Nodes {
		if s.at != s.Addr {
			real[s.Addr] = s.at
		}
	}
	return real
}

// Stop kills all servers.
func (d *Deployment) Stop() {
	for _, s := range slices.Concat(d.Nodes, d.Sentinels) {
		s.Close()
	}
	d.wires.close()
}

// commandLimit is how long a command waits for its reply: faults strike these servers.
const commandLimit = 5 * time.Second

// start starts a server with launch, behind wires if there are any.
func (d *Deployment) start(ctx context.Context, spec Spec, launch func(context.Context, Spec) (*Server, error)) (*Server, error) {
	spec.Told, spec.limit = d.told, commandLimit
	if d.wires == nil {
		return launch(ctx, spec)
	}
	data, bus, err := d.wires.lead(&spec, d.Kind)
	if err != nil {
		return nil, err
	}
	spec.aim = func(at string) {
		data.aim(at, 0)
		bus.aim(at, 10000)
	}
	s, err := launch(ctx, spec)
	if err == nil && data != nil {
		s.Addr = data.addr
	}
	return s, err
}
