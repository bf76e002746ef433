package verify

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/worker"
)

// supervisorFile is the history of the supervisor. Those of the workers are beside it.
const supervisorFile = "supervisor.jsonl"

// crew is the workers of a run.
type crew struct {
	run  *run
	done Progress // of lives that are over; guarded by mu

	mu     sync.Mutex // guards what is below
	posts  []*post    // one for each worker, which may have many lives
	faults int
	now    map[string]int // faults that are being done
	crash  string         // how a worker ended that was not to end
}

// post is a worker in its current life.
type post struct {
	number int
	busy   sync.Mutex // held by the fault that strikes it

	mu     sync.Mutex // guards what is below
	life   int
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser
	last   worker.Report
	exited chan struct{}
	over   bool // its end is expected
	stderr *tail
}

func newCrew(r *run) *crew {
	c := &crew{run: r, now: make(map[string]int)}
	for i := range r.plan.Workers {
		c.posts = append(c.posts, &post{number: i + 1})
	}
	return c
}

// config is what the next life of a worker is told.
func (c *crew) config(p *post) worker.Config {
	plan := c.run.plan
	pause := 5 * time.Millisecond
	if plan.Rate > 0 {
		actors := 0
		for _, kind := range plan.Kinds {
			actors += len(worker.Names(kind)) * plan.Actors
		}
		pause = max(pause, time.Duration(plan.Workers*actors)*time.Second/time.Duration(plan.Rate))
	}
	config := worker.Config{
		Worker: p.name, URLs: c.run.urls, ClientName: clientName(plan), Terms: plan.Terms, Pause: pause,
		History:  filepath.Join(c.run.dir, "worker-"+p.name+".jsonl"),
		Register: filepath.Join(c.run.dir, "r.sock"),
	}
	if c.run.own != nil {
		config.Direct = c.run.own.Real()
	}
	return config
}

// clientName is what the connections of the workers are called in Redis.
func clientName(p Plan) string { return "redlatch-" + p.Prefix[len(p.Prefix)-11:len(p.Prefix)-1] }

// hire starts all workers, and returns when they are ready.
func (c *crew) hire(ctx context.Context) error {
	errs := make(chan error, len(c.posts))
	for _, p := range c.posts {
		go func() { errs <- c.start(ctx, p) }()
	}
	var first error
	for range c.posts {
		first = cmp.Or(first, <-errs)
	}
	return first
}

// start begins a life of a worker, and returns when its client is open.
func (c *crew) start(ctx context.Context, p *post) error {
	command := c.run.Command
	if command == nil {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		command = []string{program, WorkerArg}
	}
	cmd := exec.Command(command[0], command[1:]...)
	errs := &tail{}
	cmd.Stderr = errs
	cmd.SysProcAttr = servers.DieWithParent(true)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.run.guard.Watch(cmd.Process.Pid)
	p.mu.Lock()
	p.life++
	p.name = fmt.Sprintf("%d.%d", p.number, p.life)
	p.cmd, p.in, p.last, p.over, p.exited, p.stderr = cmd, in, worker.Report{}, false, make(chan struct{}), errs
	config := c.config(p)
	p.mu.Unlock()
	c.run.rec.Note(history.Event{Type: history.Life, Target: p.name})
	ready := make(chan error, 1)
	go c.listen(p, out, ready)
	if err := json.NewEncoder(in).Encode(config); err != nil {
		return err
	}
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen takes the reports of a life until it ends.
func (c *crew) listen(p *post, out io.Reader, ready chan<- error) {
	in := json.NewDecoder(bufio.NewReader(out))
	told := false
	for {
		var report worker.Report
		if in.Decode(&report) != nil {
			break
		}
		switch {
		case report.Fatal != "":
			ready <- fmt.Errorf("a worker cannot begin: %s", report.Fatal)
			told = true
		case report.Ready:
			ready <- nil
			told = true
		default:
			p.mu.Lock()
			p.last = report
			p.mu.Unlock()
		}
	}
	err := p.cmd.Wait()
	c.run.guard.Forget(p.cmd.Process.Pid)
	if !told {
		ready <- fmt.Errorf("a worker ended before it began: %v: %s", err, p.stderr)
	}
	p.mu.Lock()
	last, expected := p.last, p.over
	p.last = worker.Report{}
	close(p.exited)
	p.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Acquired += last.Acquired
	c.done.Lost += last.Lost
	c.done.Stale += last.Stale
	if told && (!expected || err != nil && c.crash == "" && !killed(err)) {
		c.crash = fmt.Sprintf("worker %s ended by itself (%v): %s", p.name, err, p.stderr)
		c.run.rec.Note(history.Event{Type: history.Life, Target: p.name, Why: "crashed: " + c.crash})
	}
}

// tell sends a worker an order.
func (p *post) tell(o worker.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = json.NewEncoder(p.in).Encode(o) // a worker that is gone needs no orders
}

// order tells all workers.
func (c *crew) order(o worker.Order) {
	for _, p := range c.posts {
		p.tell(o)
	}
}

// claim returns a worker that no other fault strikes at the moment. The caller unlocks busy.
func (c *crew) claim(ctx context.Context) *post {
	for ctx.Err() == nil {
		if p := c.posts[rand.IntN(len(c.posts))]; p.busy.TryLock() {
			return p
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// end waits for the end of the current life, and kills it if that takes too long.
func (p *post) end(patience time.Duration) {
	p.mu.Lock()
	exited, process := p.exited, p.cmd.Process
	p.mu.Unlock()
	select {
	case <-exited:
	case <-time.After(patience):
		_ = process.Kill()
		<-exited
	}
}

// dismiss has all workers release what they hold and end.
func (c *crew) dismiss() {
	for _, p := range c.posts {
		p.mu.Lock()
		if p.cmd != nil {
			p.over = true
			_ = p.in.Close()
		}
		p.mu.Unlock()
	}
	for _, p := range c.posts {
		if p.cmd != nil {
			p.end(20 * time.Second)
		}
	}
}

// kill ends what is left of the crew.
func (c *crew) kill() {
	for _, p := range c.posts {
		p.mu.Lock()
		if p.cmd != nil {
			p.over = true
			_ = p.cmd.Process.Kill()
		}
		p.mu.Unlock()
	}
}

// striking notes that a fault is being done until the function that it returns is called.
func (c *crew) striking(fault string) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults++
	c.now[fault]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.now[fault]--; c.now[fault] == 0 {
			delete(c.now, fault)
		}
	}
}

func (c *crew) progress() Progress {
	c.mu.Lock()
	p := c.done
	p.Faults = c.faults
	p.Now = joined(c.now)
	c.mu.Unlock()
	for _, one := range c.posts {
		one.mu.Lock()
		p.Acquired += one.last.Acquired
		p.Lost += one.last.Lost
		p.Stale += one.last.Stale
		one.mu.Unlock()
	}
	return p
}

// killed reports whether a process ended by a signal, as one does that is killed.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == -1
}
