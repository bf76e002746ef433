package tests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/redlatchtest"
)

// dial returns a connection that whoever gets it closes.
func dial(t testing.TB, addr string) conn.Conn {
	t.Helper()
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	return c
}

// wrap returns a client over a connection, which both are closed with the test.
func wrap(t testing.TB, over conn.Conn, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c, err := redlatch.New(over, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := closeLeaving(c); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// divided is a connection whose subscriptions go another way than its requests.
type divided struct {
	conn.Conn
	subscriptions conn.Conn
}

func (d divided) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	return d.subscriptions.Subscribe(ctx, channel, up, message)
}

func (d divided) Close() error { return errors.Join(d.Conn.Close(), d.subscriptions.Close()) }

// mortal is the connection of a process that can be killed at any moment: nothing that its client
// sends arrives after that, not even a goodbye, and its subscription is closed.
type mortal struct {
	conn.Conn // of others as well, so it stays open
	life      context.Context
	kill      context.CancelFunc
}

// newMortal returns a connection that lives until it is killed.
func newMortal(over conn.Conn) *mortal {
	m := &mortal{Conn: over}
	m.life, m.kill = context.WithCancel(context.Background())
	return m
}

func (m *mortal) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if m.life.Err() == nil {
		return m.Conn.Eval(ctx, calls...)
	}
	results := make([]conn.Result, len(calls))
	for i := range results {
		results[i].Err = errors.New("killed")
	}
	return results
}

func (m *mortal) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	if m.life.Err() != nil { // else the server could hear of a subscription before its end
		return errors.New("killed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	return m.Conn.Subscribe(ctx, channel, up, message)
}

func (m *mortal) Close() error { return nil }

// openMortal returns a client that can be killed, over the connection of another that stays.
func openMortal(t reporter, over conn.Conn, o redlatch.Options) (*redlatch.Client, *mortal) {
	t.Helper()
	o.RequestTimeout = patience // nothing is given up because the machine is busy
	process := newMortal(over)
	c, err := redlatch.New(process, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, process
}

// startMortal is [openMortal] over a connection of its own.
func startMortal(t testing.TB, s *redistest.Server, o redlatch.Options) (*redlatch.Client, *mortal) {
	t.Helper()
	over := dial(t, s.Addr())
	t.Cleanup(func() { _ = over.Close() })
	return openMortal(t, over, o)
}

// die kills a client when it waits for what it acquires. It returns the owner of the ticket that is
// left behind; the server knows that nobody listens at its address. waits returns the last owner in
// line if the client's is there.
func (m *mortal) die(
	t reporter, s *redistest.Server, c *redlatch.Client, result <-chan outcome, waits func() (last string, ok bool),
) (owner string) {
	t.Helper()
	eventually(t, "a process waits that is to die", func() (ok bool) {
		owner, ok = waits()
		return ok && hears(s, c)
	})
	m.kill()
	eventually(t, "the server knows that it died", func() bool { return !hears(s, c) })
	if err := closeLeaving(c); err != nil {
		t.Errorf("Close of a client that was killed = %v, want nil", err)
	}
	awaitError(t, result)
	return owner
}

// deaf is a connection whose subscription is up, and whose messages are lost.
type deaf struct{ conn.Conn }

func (d deaf) Subscribe(ctx context.Context, channel string, up func(), _ func(string)) error {
	return d.Conn.Subscribe(ctx, channel, up, func(string) {})
}

// belated is a connection whose subscriptions fail, and are told to be confirmed after that.
type belated struct {
	conn.Conn
	tried chan struct{} // gets a value for each subscription
	calls sync.WaitGroup
}

func (b *belated) Subscribe(_ context.Context, _ string, up func(), _ func(string)) error {
	b.tried <- struct{}{}
	b.calls.Go(func() {
		time.Sleep(time.Millisecond) // until Subscribe has returned
		up()
	})
	return errors.New("connection lost")
}

// counting is a connection that counts the batches sent, by the script that begins them.
type counting struct {
	conn.Conn
	mu      sync.Mutex // guards batches
	batches map[string]int
}

func (c *counting) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.mu.Lock()
	if c.batches == nil {
		c.batches = make(map[string]int)
	}
	c.batches[calls[0].Script.Name]++
	c.mu.Unlock()
	return c.Conn.Eval(ctx, calls...)
}

// count is how many batches began with this script.
func (c *counting) count(script string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.batches[script]
}

// runs reports whether a script whose name ends so is among the calls. The requests of a quorum to
// one node may go together.
func runs(calls []conn.Call, ending string) bool {
	return slices.ContainsFunc(calls, func(c conn.Call) bool { return strings.HasSuffix(c.Script.Name, ending) })
}

// gated is a connection that lets the first request with a script wait, or the reply to it.
type gated struct {
	conn.Conn
	script  string
	reply   bool
	arrived chan struct{} // closed when the request is there, or the reply
	open    chan struct{} // to be closed for it to go on
	once    sync.Once
}

// newGated returns a connection that lets the reply to the first request with a script wait.
func newGated(over conn.Conn, script string) *gated {
	return &gated{Conn: over, script: script, reply: true, arrived: make(chan struct{}), open: make(chan struct{})}
}

func (g *gated) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name != g.script {
		return g.Conn.Eval(ctx, calls...)
	}
	if !g.reply {
		g.wait()
		return g.Conn.Eval(ctx, calls...)
	}
	results := g.Conn.Eval(ctx, calls...)
	g.wait()
	return results
}

func (g *gated) wait() {
	g.once.Do(func() {
		close(g.arrived)
		<-g.open
	})
}

// muted is a connection that loses the replies to one script.
type muted struct {
	conn.Conn
	script atomic.Value // string; "" for none
}

func (m *muted) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := m.Conn.Eval(ctx, calls...)
	if calls[0].Script.Name == m.script.Load() {
		for i := range results {
			results[i] = conn.Result{Err: errors.New("connection lost")}
		}
	}
	return results
}

// stalled is a connection over which the first request with a script is never answered.
type stalled struct {
	conn.Conn
	script string
	once   sync.Once
}

func (s *stalled) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	lost := false
	if calls[0].Script.Name == s.script {
		s.once.Do(func() { lost = true })
	}
	results := s.Conn.Eval(ctx, calls...)
	if lost {
		<-ctx.Done()
		for i := range results {
			results[i] = conn.Result{Err: ctx.Err()}
		}
	}
	return results
}

// heeding is a connection that tells of the first reply to a script that acquires, before the
// client has it.
type heeding struct {
	conn.Conn
	heard func() // what it calls then
	once  sync.Once
}

func (h *heeding) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := h.Conn.Eval(ctx, calls...)
	if name := calls[0].Script.Name; name == "multi" || strings.HasSuffix(name, " acquire") {
		h.once.Do(h.heard)
	}
	return results
}

// commandOf runs the command that its arguments are. It returns the reply as text.
var commandOf = conn.NewScript("command of a test", `local reply = redis.call(unpack(ARGV))
if type(reply) == 'table' then return table.concat(reply, '\n') end
return reply and tostring(reply) or ''`)

// commandIn has a server in memory run a command.
func commandIn(t *testing.T, s *redlatchtest.Memory, args ...string) string {
	t.Helper()
	over := s.Conn()
	defer over.Close()
	r := over.Eval(t.Context(), conn.Call{Script: commandOf, Args: args})[0]
	if r.Err != nil {
		t.Fatalf("%q: %v", args, r.Err)
	}
	return r.Reply.Text
}

// airport is a connection that counts the requests under way, and lets none through before its gate
// opens.
type airport struct {
	conn.Conn
	gate  chan struct{}
	aloft atomic.Int64
	most  atomic.Int64 // of them at once
}

func (a *airport) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	n := a.aloft.Add(int64(len(calls)))
	defer a.aloft.Add(-int64(len(calls)))
	for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); most = a.most.Load() {
	}
	select {
	case <-a.gate:
	case <-ctx.Done():
	}
	return a.Conn.Eval(ctx, calls...)
}
