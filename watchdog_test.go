package redlatch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// timed is a connection that remembers how long each extend may take.
type timed struct {
	conn.Conn
	mu     sync.Mutex
	limits map[string]time.Duration // by key
}

func (c *timed) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if deadline, ok := ctx.Deadline(); ok {
		c.mu.Lock()
		for _, call := range calls {
			for _, key := range call.Keys {
				c.limits[key] = time.Until(deadline)
			}
		}
		c.mu.Unlock()
	}
	return c.Conn.Eval(ctx, calls...)
}

// TestShortLeaseHurriesNoOther: leases that are extended at the same time go together. One that is
// about to end must not have the answers to the others given up as early as its own.
func TestShortLeaseHurriesNoOther(t *testing.T) {
	t.Parallel()
	over := &timed{Conn: connected(t), limits: make(map[string]time.Duration)}
	c, err := New(over, Options{RequestTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var leases []*Lease
	for name, ttl := range map[string]time.Duration{"short": 12 * time.Second, "long": time.Hour, "longer": 2 * time.Hour} {
		l := mustLock(t, c.Mutex(name).With(LockOptions{TTL: ttl, Renew: Off}))
		l.mu.Lock()
		l.pending = true // as due begins it
		l.mu.Unlock()
		leases = append(leases, l)
	}
	c.keeper.extend(leases)
	for _, l := range leases {
		l.mu.Lock()
		pending, settled := l.pending, l.settledLocked()
		l.mu.Unlock()
		if pending {
			<-settled
		}
	}
	over.mu.Lock()
	defer over.mu.Unlock()
	if got := over.limits["redlatch:short"]; got > 6*time.Second {
		t.Errorf("the extend of a lease of 12s may take %v, want half of what is left at most", got)
	}
	for _, name := range []string{"long", "longer"} {
		if got := over.limits["redlatch:"+name]; got < 7*time.Second { // less what the machine was late
			t.Errorf("the extend of %s may take %v, want a third of RequestTimeout", name, got)
		}
	}
}
