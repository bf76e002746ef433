package wire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// A request whose connection broke can still reach the server, after the resend over another
// connection and whatever followed. (pottery's release overtakes its SET in this way;
// redlock-rb#76.)

// Straggling is a connection that keeps one request back, as if its connection had broken, and
// delivers it when told. What goes with it in one batch is lost.
type Straggling struct {
	conn.Conn
	mu     sync.Mutex // guards what is below
	script string     // of the request to keep; "" for none
	after  int        // this many with that script
	kept   *conn.Call
}

// Keep keeps back the next request that runs this script.
func (s *Straggling) Keep(script string) { s.KeepAfter(0, script) }

// KeepAfter lets n requests that run this script through, and keeps back the next.
func (s *Straggling) KeepAfter(n int, script string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.after = script, n
}

// Eval implements [conn.Conn].
func (s *Straggling) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	s.mu.Lock()
	i := slices.IndexFunc(calls, func(c conn.Call) bool { return c.Script.Name == s.script })
	keep := i >= 0
	if keep {
		s.after--
		keep = s.after < 0
	}
	if keep {
		s.script, s.kept = "", &calls[i]
	}
	s.mu.Unlock()
	if keep {
		return Failing(len(calls), errors.New("connection lost"))
	}
	return s.Conn.Eval(ctx, calls...)
}

// Deliver lets the server have the request.
func (s *Straggling) Deliver(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	check.Must(t, kept != nil, "no request was kept back")
	if r := s.Conn.Eval(t.Context(), *kept)[0]; r.Err != nil {
		t.Fatalf("late request: %v", r.Err)
	}
}
