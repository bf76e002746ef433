package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// The guard is a process that cleans up after the supervisor, however the supervisor ends. It waits
// for the end of its input. Then it kills the workers and servers that are left, and deletes what
// is left in Redis. A supervisor that ends normally has no other way to clean up.

// GuardArg is the argument that starts the executable as the guard, which calls [Guard].
const GuardArg = "verify-guard"

// note is what the guard is told, one JSON object a line.
type note struct {
	Watch  int      `json:",omitempty"` // the id of a process that must not outlive the supervisor
	Forget int      `json:",omitempty"` // the id of one that has ended
	URLs   []string `json:",omitempty"` // where to delete
	Prefix string   `json:",omitempty"` // of the keys to delete
	Dir    string   `json:",omitempty"` // of the run; the data of its servers is deleted
}

// guard is the supervisor's side.
type guard struct{ *child }

func startGuard(program, dir string) (*guard, error) {
	one, err := startChild(servers.Apart(), program, GuardArg)
	if err != nil {
		return nil, fmt.Errorf("start the process that cleans up: %w", err)
	}
	one.tell(note{Dir: dir})
	return &guard{one}, nil
}

// Watch makes the guard kill a process if the supervisor ends before it.
func (g *guard) Watch(pid int) { g.tell(note{Watch: pid}) }

// Forget makes the guard spare a process id, as its process has ended.
func (g *guard) Forget(pid int) { g.tell(note{Forget: pid}) }

// Guard runs the guard process. It cleans up when its input ends.
func Guard(in io.Reader) error {
	signal.Ignore(os.Interrupt) // Ctrl-C is for the supervisor, whose end is the end of the input
	watched := make(map[int]bool)
	var told note // a field that a line leaves out keeps its value
	for d := json.NewDecoder(in); ; {
		told.Watch, told.Forget = 0, 0
		if d.Decode(&told) != nil {
			break
		}
		if told.Watch != 0 {
			watched[told.Watch] = true
		}
		delete(watched, told.Forget)
	}
	for pid := range watched {
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		_ = p.Kill()
		end := time.Now().Add(5 * time.Second)
		for time.Now().Before(end) && p.Signal(syscall.Signal(0)) == nil { // until it is gone
			time.Sleep(5 * time.Millisecond)
		}
	}
	var err error
	if told.Prefix != "" {
		err = sweep(told.URLs, told.Prefix)
	}
	data := filepath.Join(told.Dir, ".servers")
	return errors.Join(err, os.RemoveAll(data), os.RemoveAll(registers(told.Dir)))
}

// sweep deletes all keys of a run, and again a second later: a request of a worker that was killed
// may still be on its way.
func sweep(urls []string, prefix string) error {
	a, err := openAdmin(urls)
	if err != nil {
		return err
	}
	defer a.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range 2 {
		if i > 0 {
			time.Sleep(time.Second)
		}
		err := a.each(ctx, prefix, func(c rueidis.Client, key string) error {
			_, err := do(ctx, c, "DEL", key)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tail keeps the last of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(len(*t)-4096, 0):]
	return len(p), nil
}

// child is a process of this program that reads messages, one JSON object a line. Safe for
// concurrent use.
type child struct {
	*exec.Cmd
	out  io.Reader
	said tail // on its standard error

	mu sync.Mutex // guards in
	in io.WriteCloser
}

func startChild(attr *syscall.SysProcAttr, command ...string) (c *child, err error) {
	c = &child{Cmd: exec.Command(command[0], command[1:]...)}
	c.Stderr, c.SysProcAttr = &c.said, attr
	if c.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = c.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// tell sends one message. If the process is gone, wait says so.
func (c *child) tell(what any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = json.NewEncoder(c.in).Encode(what)
}

// hangUp closes the input of the process, and so ends it.
func (c *child) hangUp() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.Close()
}

func (c *child) kill() error { return c.Process.Kill() }

// wait returns how the process ended. An error has the last of what it wrote to standard error.
func (c *child) wait() error {
	if err := c.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, c.said)
	}
	return nil
}
