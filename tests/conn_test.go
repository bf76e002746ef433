package tests

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchrueidis"
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
		if err := c.Close(); err != nil {
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

// gated is a connection that lets the first request with a script wait.
type gated struct {
	conn.Conn
	script  string
	arrived chan struct{} // closed when the request is there
	open    chan struct{} // to be closed for it to go on
	once    sync.Once
}

func (g *gated) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name == g.script {
		g.once.Do(func() {
			close(g.arrived)
			<-g.open
		})
	}
	return g.Conn.Eval(ctx, calls...)
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
