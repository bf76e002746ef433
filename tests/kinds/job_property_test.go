package kinds

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestJobBehavesLikeTheModel has rapid start and end runs of a job in random order, and compares
// with what ought to come of it.
func TestJobBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := help.Several(t, s, 3, help.Sluggish())
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		m := &onceModel{ctx: ctx, server: s, clients: clients, name: fmt.Sprint("job", round)}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "start": m.start, "succeed": m.succeed, "fail": m.fail, "die": m.die, "force": m.force, "window is over": m.windowOver,
		})
		if m.run != nil {
			m.end(t, nil)
		}
	})
}

// onceModel is what a job should do.
type onceModel struct {
	ctx     context.Context
	server  *redistest.Server
	clients []*redlatch.Client
	name    string
	run     *onceRun // that goes on, or nil
	closed  bool     // the window of a run is not over
	token   int64
}

type onceRun struct {
	lease  *redlatch.Lease
	result chan error // ends the run
	over   chan error // what Do returned
}

func (m *onceModel) start(t *rapid.T) {
	c := m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")]
	run := &onceRun{result: make(chan error, 1), over: make(chan error, 1)}
	began, skipped := make(chan *redlatch.Lease, 1), make(chan bool, 1)
	go func() {
		ran, err := c.Job(m.name, redlatch.JobOptions{Window: time.Hour}).Do(m.ctx,
			func(_ context.Context, l *redlatch.Lease) error {
				began <- l
				return <-run.result
			})
		if !ran {
			skipped <- err == nil
		}
		run.over <- err
	}()
	select {
	case run.lease = <-began:
		if m.run != nil || m.closed {
			t.Fatalf("a run began beside another, %t, or in its window, %t", m.run != nil, m.closed)
		}
		if run.lease.Token() <= m.token {
			t.Fatalf("token %d after %d, want more", run.lease.Token(), m.token)
		}
		m.token = run.lease.Token()
		m.run, m.closed = run, true
	case ok := <-skipped:
		if !ok || m.run == nil && !m.closed {
			t.Fatalf("a start was skipped, without an error %t, with nothing in its way", ok)
		}
	}
}

func (m *onceModel) going(t *rapid.T) *onceRun {
	if m.run == nil {
		t.Skip("nothing runs")
	}
	return m.run
}

// end ends the run with a result.
func (m *onceModel) end(t *rapid.T, result error) {
	run := m.run
	m.run = nil
	run.result <- result
	if err := help.Receive(t, run.over, "a run"); !errors.Is(err, result) || result == nil && err != nil {
		t.Fatalf("Do = %v, want %v", err, result)
	}
}

func (m *onceModel) succeed(t *rapid.T) {
	m.going(t)
	m.end(t, nil)
}

func (m *onceModel) fail(t *rapid.T) {
	m.going(t)
	m.end(t, help.ErrFailed)
}

// die has Redis believe that the lease is over. The window stays as it is.
func (m *onceModel) die(t *rapid.T) {
	run := m.going(t)
	m.server.Do("ZADD", locktest.StateKey(m.name), "XX", "1", run.lease.Owner())
	m.lost(t, run)
}

// force opens the window as well: whoever takes the job away wants it to run again.
func (m *onceModel) force(t *rapid.T) {
	run := m.going(t)
	if _, err := m.clients[0].ForceRelease(m.ctx, m.name, redlatch.ForceOptions{Owner: run.lease.Owner()}); err != nil {
		t.Fatalf("ForceRelease = %v", err)
	}
	m.token++ // it moves on
	m.closed = false
	m.lost(t, run)
}

func (m *onceModel) lost(t *rapid.T, run *onceRun) {
	m.run = nil
	check.Refusal(t, "Extend of a lost run", run.lease.Extend(m.ctx), redlatch.ErrNotHeld)
	run.result <- nil
	if err := help.Receive(t, run.over, "a lost run"); !errors.As(err, new(*redlatch.LostError)) {
		t.Fatalf("Do = %v, want a LostError", err)
	}
}

func (m *onceModel) windowOver(t *rapid.T) {
	if !m.closed || m.run != nil {
		t.Skip("there is none, or its run goes on, which knows when it ends")
	}
	m.server.Do("ZADD", locktest.StateKey(m.name), "XX", "1", "window")
	m.closed = false
}

func (m *onceModel) check(t *rapid.T) {
	info := check.Value(m.clients[0].Inspect(m.ctx, m.name)).OK(t)
	var running, closed bool
	for _, p := range info.Holders {
		running = running || !p.Resting
		closed = closed || p.Resting
	}
	if running != (m.run != nil) || closed != m.closed {
		t.Fatalf("running %t, window closed %t, want %t and %t", running, closed, m.run != nil, m.closed)
	}
	help.WantExpiry(t, m.server)
}
