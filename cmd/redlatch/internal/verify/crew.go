package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// supervisorFile is the history of the supervisor. Those of the workers are beside it.
const supervisorFile = "supervisor.jsonl"

// crew is the workers of a run.
type crew struct {
	run   *run
	posts []*post // one for each worker, which may have many lives

	mu     sync.Mutex // guards what is below
	done   Figures    // of lives that are over
	faults int
	now    map[string]bool // faults under way
}

// post is a worker in its current life.
type post struct {
	number int
	busy   sync.Mutex // held by the fault that strikes it, which may begin another life
	life   int
	name   string
	child  *child        // nil before the first life
	exited chan struct{} // closed at the end of this life
	over   atomic.Bool   // the end of this life is expected
	last   atomic.Pointer[Figures]
}

func newCrew(r *run) *crew {
	c := &crew{run: r, now: make(map[string]bool)}
	for i := range r.plan.Workers {
		p := &post{number: i + 1}
		p.last.Store(&Figures{})
		c.posts = append(c.posts, p)
	}
	return c
}

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
	one, err := startChild(servers.DieWithParent(true), c.run.Command...)
	if err != nil {
		return err
	}
	c.run.guard.Watch(one.Process.Pid)
	p.life++
	p.name = fmt.Sprintf("%d.%d", p.number, p.life)
	p.child, p.exited = one, make(chan struct{})
	p.over.Store(false)
	c.run.rec.Note(history.Event{Type: history.Life, Target: p.name})
	ready := make(chan error, 1)
	go c.listen(p, ready) // ends with this life
	told := config{Plan: c.run.plan, Worker: p.name, URLs: c.run.urls, Dir: c.run.dir}
	if c.run.own != nil {
		told.Direct = c.run.own.Real()
	}
	one.tell(told)
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen reads the reports of a life until it ends. The first one says that its client is open.
func (c *crew) listen(p *post, ready chan<- error) {
	told := false
	for in := json.NewDecoder(p.child.out); ; {
		var report Figures
		if in.Decode(&report) != nil {
			break
		}
		if !told {
			ready <- nil
			told = true
		}
		p.last.Store(&report)
	}
	err := p.child.wait()
	c.run.guard.Forget(p.child.Process.Pid)
	if !told {
		ready <- fmt.Errorf("a worker ended before it began: %v", err)
	}
	// A worker that was killed has the exit code -1.
	if told && (!p.over.Load() || p.child.ProcessState.ExitCode() > 0) {
		why := fmt.Sprintf("crashed: worker %s ended by itself: %v", p.name, err)
		c.run.rec.Note(history.Event{Type: history.Life, Target: p.name, Why: why})
	}
	c.mu.Lock()
	c.done.add(*p.last.Swap(&Figures{}))
	c.mu.Unlock()
	close(p.exited)
}

// claim returns a worker that no other fault strikes at the moment. The caller unlocks busy.
func (c *crew) claim(ctx context.Context) *post {
	for ctx.Err() == nil {
		if p := c.posts[rand.IntN(len(c.posts))]; p.busy.TryLock() {
			return p
		}
		retry.Sleep(ctx, 10*time.Millisecond)
	}
	return nil
}

// finish ends the current life, notes that this is expected, and returns when it has ended.
func (p *post) finish(how func(*child) error, patience time.Duration) error {
	p.over.Store(true)
	err := how(p.child)
	select {
	case <-p.exited:
	case <-time.After(patience):
		_ = p.child.kill()
		<-p.exited
	}
	return err
}

// dismiss ends all workers, and returns when they have ended.
func (c *crew) dismiss(how func(*child) error) {
	var all sync.WaitGroup
	for _, p := range c.posts {
		if p.child != nil {
			all.Go(func() { _ = p.finish(how, 20*time.Second) })
		}
	}
	all.Wait()
}

// striking notes that a fault is under way until over is called.
func (c *crew) striking(fault string) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults++
	c.now[fault] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.now, fault)
	}
}

func (c *crew) progress() Progress {
	c.mu.Lock()
	p := Progress{Figures: c.done, Faults: c.faults, Now: joined(c.now)}
	c.mu.Unlock()
	for _, one := range c.posts {
		p.add(*one.last.Load())
	}
	return p
}
