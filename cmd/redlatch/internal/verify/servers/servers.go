// Package servers starts real redis-server processes for a verification: one, a master and a replica
// behind Sentinel, a cluster, or independent nodes. They keep nothing on disk.
package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/testkit/freeport"
)

// Program names another program to start than the redis-server on PATH.
const Program = "REDLATCH_REDIS_SERVER"

// ErrNone says that there is no redis-server to start.
var ErrNone = errors.New("redis-server is not on PATH")

// patience bounds every wait for a server that ought to answer.
const patience = 20 * time.Second

// masterName is what the sentinels call the master.
const masterName = "main"

// Server is one process.
type Server struct {
	Addr   string         // at which the others know it
	number int            // of all servers of the deployment
	at     string         // where it listens: Addr, if there is no wire in between
	port   net.PacketConn // keeps that address from other servers
	binary string
	dir    string
	args   []string
	env    []string // nil for that of this process
	client rueidis.Client

	mu     sync.Mutex // guards what is below
	cmd    *exec.Cmd
	exited chan struct{}
	told   Told
}

// Told is what is told of the id of every process: before it can do anything, and when it has ended.
type Told interface {
	Watch(pid int)
	Forget(pid int)
}

// Deployment is some servers that belong together.
type Deployment struct {
	Kind      string
	URLs      []string
	Nodes     []*Server // without sentinels
	Sentinels []*Server
	NoClocks  error // why no clock can be stepped; nil if that can be done, or was not asked for
	NoWires   error // why servers cannot be cut off from each other, likewise

	binary  string
	dir     string
	told    Told
	wires   *wires   // nil without
	library string   // that gives servers clocks of their own; "" without
	clocks  []*clock // one for all, or one for each node of a quorum
}

// Options say what servers are to be able to beside serve. Where a server or the machine does not let
// them, they start without, and the deployment tells why.
type Options struct {
	Clocks bool // [Deployment.StepClock]
	Wires  bool // [Deployment.Cut]
}

// Kinds are the deployments that can be started.
var Kinds = []string{"one", "sentinel", "cluster", "quorum"}

// Start starts a deployment in dir and returns when it is ready. If there is an error, nothing stays
// behind.
func Start(ctx context.Context, kind, dir string, told Told, o Options) (d *Deployment, err error) {
	binary := os.Getenv(Program)
	if binary == "" {
		binary = "redis-server"
	}
	if binary, err = exec.LookPath(binary); err != nil {
		return nil, ErrNone
	}
	d = &Deployment{Kind: kind, binary: binary, dir: dir, told: told}
	defer func() {
		if err != nil {
			d.Stop()
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return d, err
	}
	if o.Clocks {
		d.NoClocks = d.tryClock(ctx)
	}
	if o.Wires {
		d.NoWires = d.tryWires(ctx)
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
	s := &Server{number: len(d.Nodes), dir: filepath.Join(d.dir, strconv.Itoa(len(d.Nodes))), args: args}
	if d.library != "" {
		c, err := d.clockOf(s)
		if err != nil {
			return nil, err
		}
		s.env = c.Environment(d.library)
	}
	s, err := d.start(ctx, s)
	if err == nil {
		d.Nodes = append(d.Nodes, s)
	}
	return s, err
}

func (d *Deployment) sentinel(ctx context.Context) error {
	args := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	master, err := d.add(ctx, args...)
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(master.Addr)
	replica, err := d.add(ctx, append(args, "--replicaof", host, port)...)
	if err != nil {
		return err
	}
	if err := replica.await(ctx, "replication", "master_link_status:up"); err != nil {
		return err
	}
	for i := range 3 {
		at := filepath.Join(d.dir, fmt.Sprintf("sentinel%d", i))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		file := filepath.Join(at, "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 2000\nsentinel failover-timeout %[1]s 3000\nsentinel announce-ip %[2]s\n",
			masterName, host, port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		s, err := d.start(ctx, &Server{number: len(d.Nodes) + i, dir: at, args: []string{file, "--sentinel"}})
		if err != nil {
			return err
		}
		d.Sentinels = append(d.Sentinels, s)
	}
	var hosts []string
	for _, s := range d.Sentinels {
		if err := s.await(ctx, "sentinel", "status=ok,address="+master.Addr+",slaves=1,sentinels=3"); err != nil {
			return err
		}
		hosts = append(hosts, s.Addr)
	}
	d.URLs = []string{"redis+sentinel://" + strings.Join(hosts, ",") + "/" + masterName}
	return nil
}

// cluster starts three masters with a replica each.
func (d *Deployment) cluster(ctx context.Context) error {
	const n, slots = 3, 16384
	args := []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
	}
	var hosts []string
	for i := range 2 * n {
		s, err := d.add(ctx, args...)
		if err != nil {
			return err
		}
		hosts = append(hosts, s.Addr)
		if _, err := s.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i >= n {
			continue
		}
		command := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / n; slot < (i+1)*slots/n; slot++ {
			command = append(command, strconv.Itoa(slot))
		}
		if _, err := s.Do(ctx, command...); err != nil {
			return err
		}
	}
	for _, s := range d.Nodes[1:] {
		if _, err := d.Nodes[0].Do(ctx, append([]string{"CLUSTER", "MEET"}, d.busOf(s)...)...); err != nil {
			return err
		}
	}
	for i, replica := range d.Nodes[n:] {
		id, err := d.Nodes[i].Do(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if err := eventually(ctx, func() error { _, err := replica.Do(ctx, "CLUSTER", "REPLICATE", strings.TrimSpace(id)); return err }); err != nil {
			return err
		}
	}
	for _, s := range d.Nodes {
		err := eventually(ctx, func() error {
			info, err := s.Do(ctx, "CLUSTER", "INFO")
			if err == nil && !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", 2*n)) {
				err = fmt.Errorf("cluster node %s is not ready:\n%s", s.Addr, info)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := d.AwaitWell(ctx); err != nil {
		return err
	}
	d.URLs = []string{"redis+cluster://" + strings.Join(hosts[:n], ",")}
	return nil
}

// Stop kills all servers.
func (d *Deployment) Stop() {
	for _, s := range slices.Concat(d.Nodes, d.Sentinels) {
		s.Kill()
		s.client.Close()
		_ = s.port.Close()
	}
	d.wires.close()
}

// start starts a server on a free port and returns when it answers.
func (d *Deployment) start(ctx context.Context, s *Server) (*Server, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.binary, s.told = d.binary, d.told
	var data, bus *wire
	var err error
	if d.wires != nil {
		if data, bus, err = d.wires.lead(s, d.Kind); err != nil {
			return nil, err
		}
	}
	for range 20 {
		if s.port, s.at, err = freeport.Reserve(); err != nil {
			return nil, err
		}
		if data == nil {
			s.Addr = s.at
		} else {
			data.aim(s.at, 0)
			bus.aim(s.at, 10000)
		}
		if err = s.spawn(); err != nil {
			_ = s.port.Close()
			return nil, err
		}
		if err = s.ready(ctx); err == nil {
			return s, nil
		}
		s.Kill()
		_ = s.port.Close()
		if s.client != nil {
			s.client.Close()
			s.client = nil
		}
		if ctx.Err() != nil || !strings.Contains(s.log(), "in use") {
			return nil, err
		}
	}
	return nil, err
}

func (s *Server) spawn() error {
	_, port, _ := net.SplitHostPort(s.at)
	line := []string{"--bind", "127.0.0.1", "--port", port, "--dir", s.dir}
	if len(s.args) > 1 && s.args[1] == "--sentinel" {
		line = append(slices.Clone(s.args), line...)
	} else {
		line = append(append(line, "--save", "", "--appendonly", "no", "--daemonize", "no"), s.args...)
	}
	log, err := os.Create(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, line...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = log, log, s.env, dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.told.Watch(cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		s.told.Forget(cmd.Process.Pid) // the number may be another process's soon
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	return nil
}

// ready returns when the server answers.
func (s *Server) ready(ctx context.Context) error {
	return eventually(ctx, func() error {
		select {
		case <-s.exited:
			return fatal{fmt.Errorf("redis-server ended at once:\n%s", s.log())}
		default:
		}
		if s.client == nil {
			var err error
			s.client, err = rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{s.at}, DisableCache: true, DisableRetry: true, ForceSingleClient: true,
				Dialer: net.Dialer{Timeout: time.Second}, ConnWriteTimeout: 3 * time.Second,
			})
			if err != nil {
				s.client = nil
				return err
			}
		}
		info, err := s.Do(ctx, "INFO")
		if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.PID())) {
			err = fmt.Errorf("another server answers at %s", s.at)
		}
		return err
	})
}

// fatal is an error that no time mends.
type fatal struct{ error }

func eventually(ctx context.Context, f func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := f()
		if err == nil || errors.As(err, new(fatal)) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// await returns when a section of INFO contains the text.
func (s *Server) await(ctx context.Context, section, text string) error {
	return eventually(ctx, func() error {
		info, err := s.Do(ctx, "INFO", section)
		if err == nil && !strings.Contains(info, text) {
			err = fmt.Errorf("INFO %s of %s does not say %q:\n%s", section, s.Addr, text, info)
		}
		return err
	})
}

// Do sends one command, and returns the reply as text.
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := s.client.Do(ctx, s.client.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil {
		return "", err
	}
	if n, err := m.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	text, err := m.ToString()
	if err != nil {
		return m.String(), nil
	}
	return strings.TrimPrefix(text, "txt:"), nil
}

func (s *Server) log() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// PID is the id of the process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Kill ends the process as a crash would, and returns when it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-exited
	}
}

// Restart starts a process on the same address, which knows nothing of the data of the last one.
func (s *Server) Restart(ctx context.Context) error {
	s.Kill()
	if err := s.spawn(); err != nil {
		return err
	}
	return s.ready(ctx)
}

// Signal sends the process a signal.
func (s *Server) Signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Signal(sig)
}
