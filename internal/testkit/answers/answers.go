// Package answers has a connection whose server says what a test wants, for tests of packages that
// need no Redis. It has no state: the test says what a script would do.
package answers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Server is the connection. Requests that only say which client it is are answered, and not counted.
type Server struct {
	conn.Conn

	mu     sync.Mutex
	says   Says
	asked  []conn.Call
	limits map[string]time.Duration
}

// Says answers a request. verb is the last word of its script's name: acquire, renew, release.
type Says func(ctx context.Context, verb string, call conn.Call) conn.Result

// New returns a Server that answers in this way.
func New(says Says) *Server { return &Server{says: says, limits: make(map[string]time.Duration)} }

// Yes says that an owner is inside, or that a request was done.
func Yes(context.Context, string, conn.Call) conn.Result {
	return conn.Result{Reply: conn.Reply{Int: 1}}
}

// Silent does not answer.
func Silent(ctx context.Context, _ string, _ conn.Call) conn.Result {
	<-ctx.Done()
	return conn.Result{Err: ctx.Err()}
}

// Down does not do what it is asked.
func Down(context.Context, string, conn.Call) conn.Result {
	return conn.Result{Err: errors.New("down")}
}

// Now makes the server answer in another way from now on.
func (s *Server) Now(says Says) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = says
}

func verbOf(call conn.Call) string {
	return call.Script.Name[strings.LastIndexByte(call.Script.Name, ' ')+1:]
}

// Eval implements [conn.Conn].
func (s *Server) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	for i, call := range calls {
		s.mu.Lock()
		s.asked = append(s.asked, call)
		if deadline, ok := ctx.Deadline(); ok {
			for _, key := range call.Keys {
				s.limits[key] = time.Until(deadline)
			}
		}
		says := s.says
		s.mu.Unlock()
		results[i] = says(ctx, verbOf(call), call)
	}
	return results
}

// Target implements [conn.Conn].
func (s *Server) Target() conn.Target { return conn.Target{Addr: "there"} }

// Subscribe implements [conn.Conn]. No message comes.
func (s *Server) Subscribe(ctx context.Context, _ string, up func(), _ func(string)) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// Asked returns the requests with this verb, in order.
func (s *Server) Asked(verb string) (calls []conn.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.asked {
		if verbOf(call) == verb {
			calls = append(calls, call)
		}
	}
	return calls
}

// Count returns how many requests with this verb there were.
func (s *Server) Count(verb string) int { return len(s.Asked(verb)) }

// Limit returns how long the last request about a key could have taken.
func (s *Server) Limit(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits[key]
}

// Reply makes a reply from the bytes of a fuzz target: whatever they are, a server could send that
// reply. Depth bounds how deep lists are.
func Reply(data []byte, depth int) (r conn.Reply, rest []byte) {
	if len(data) < 2 {
		return conn.Reply{Nil: true}, nil
	}
	what, n, data := data[0]%4, int(data[1]), data[2:]
	switch {
	case what == 0:
		return conn.Reply{Int: int64(int8(n))}, data
	case what == 1:
		n = min(n, len(data))
		return conn.Reply{Text: string(data[:n])}, data[n:]
	case what == 2 || depth == 0:
		return conn.Reply{Nil: true}, data
	}
	r.List = make([]conn.Reply, n%9)
	for i := range r.List {
		r.List[i], data = Reply(data, depth-1)
	}
	return r, data
}
