package verify

import (
	"bufio"
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
	"time"
)

// The guard is a process that cleans up after the supervisor, however that ends: it waits for the end
// of its input. Then it kills what is left of the workers and servers, and deletes what is left in
// Redis. A supervisor that ends well has no other way to clean up.

// GuardArg is the argument with which the executable is started as the guard; it then calls [Guard].
const GuardArg = "verify-guard"

// note is what the guard is told, one JSON object a line.
type note struct {
	Watch  int      `json:",omitempty"` // the id of a process that must not outlive the supervisor
	Forget int      `json:",omitempty"` // the id of one that has ended
	URLs   []string `json:",omitempty"` // where to delete
	Prefix string   `json:",omitempty"` // what
	Dir    string   `json:",omitempty"` // of the run; the data of its servers is deleted
}

// guard is the supervisor's side.
type guard struct {
	cmd *exec.Cmd
	out *tail

	mu sync.Mutex // guards in
	in io.WriteCloser
}

func startGuard(dir string) (*guard, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &guard{cmd: exec.Command(program, GuardArg), out: &tail{}}
	g.cmd.Stderr = g.out
	g.cmd.SysProcAttr = outliving()
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that cleans up: %w", err)
	}
	g.tell(note{Dir: dir})
	return g, nil
}

func (g *guard) tell(n note) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = json.NewEncoder(g.in).Encode(n) // one that is gone is found at the end
}

// Watch has the guard kill a process if the supervisor ends before it.
func (g *guard) Watch(pid int) { g.tell(note{Watch: pid}) }

// Forget has the guard leave a process alone that has ended.
func (g *guard) Forget(pid int) { g.tell(note{Forget: pid}) }

func (g *guard) sweepLater(urls []string, prefix string) { g.tell(note{URLs: urls, Prefix: prefix}) }

// finish has the guard clean up, and returns when it has.
func (g *guard) finish() error {
	g.mu.Lock()
	_ = g.in.Close()
	g.mu.Unlock()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, g.out)
	}
	return nil
}

// Guard is the guard process. It ends after its input.
func Guard(in io.Reader) error {
	signal.Ignore(os.Interrupt) // of the terminal: it means the supervisor, which ends and so ends the input
	watched := make(map[int]bool)
	var last note
	for d := json.NewDecoder(bufio.NewReader(in)); ; {
		var n note
		if d.Decode(&n) != nil {
			break
		}
		switch {
		case n.Watch != 0:
			watched[n.Watch] = true
		case n.Forget != 0:
			delete(watched, n.Forget)
		case n.Dir != "":
			last.Dir = n.Dir
		default:
			last.URLs, last.Prefix = n.URLs, n.Prefix
		}
	}
	for pid := range watched {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
			gone(pid, 5*time.Second)
		}
	}
	var err error
	if last.Prefix != "" {
		err = sweepPrefix(last.URLs, last.Prefix)
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(last.Dir, ".servers")), os.RemoveAll(filepath.Join(last.Dir, "r.sock")))
}

// sweepPrefix deletes all keys of a run. A request of a worker that was killed may still be on its
// way, so it looks until it finds none, a second later.
func sweepPrefix(urls []string, prefix string) error {
	a, err := openAdmin(urls)
	if err != nil {
		return err
	}
	defer a.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := a.sweep(ctx, prefix); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return a.sweep(ctx, prefix)
}

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - 4096; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
