package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// Dial returns a connection that its user closes.
func Dial(t testing.TB, addr string) conn.Conn {
	t.Helper()
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	check.Must(t, err == nil, "connect to %s: %v", addr, err)
	return c
}

// Wrap returns a client over a connection. Both are closed with the test.
func Wrap(t testing.TB, over conn.Conn, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c, err := redlatch.New(over, o)
	check.Must(t, err == nil, "New: %v", err)
	t.Cleanup(func() {
		check.Nil(t, "Close", locktest.CloseLeaving(c))
	})
	return c
}

// WrapQuorum returns a client over connections to the nodes of a quorum, which is closed with the test.
func WrapQuorum(t testing.TB, nodes []conn.Conn, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c := check.Value(redlatch.NewQuorum(nodes, o)).OK(t)
	t.Cleanup(func() { _ = locktest.CloseLeaving(c) })
	return c
}

// Divided is a connection whose subscriptions go another way than its requests.
type Divided struct {
	conn.Conn
	Subscriptions conn.Conn
}

// Subscribe implements [conn.Conn].
func (d Divided) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	return d.Subscriptions.Subscribe(ctx, channel, up, message)
}

// Close closes both connections.
func (d Divided) Close() error { return errors.Join(d.Conn.Close(), d.Subscriptions.Close()) }

// Through is a connection whose requests a function makes.
type Through struct {
	conn.Conn
	Make func(ctx context.Context, calls ...conn.Call) []conn.Result
}

// Eval implements [conn.Conn].
func (t Through) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return t.Make(ctx, calls...)
}

// Mortal is the connection of a process that can be killed at any moment: nothing that its client
// sends arrives after that, not even a goodbye, and its subscription is closed.
type Mortal struct {
	conn.Conn
	life context.Context
	Kill context.CancelFunc
}

// Eval implements [conn.Conn].
func (m *Mortal) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if m.life.Err() == nil {
		return m.Conn.Eval(ctx, calls...)
	}
	return Failing(len(calls), errors.New("killed"))
}

// Subscribe implements [conn.Conn].
func (m *Mortal) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	if m.life.Err() != nil { // else the server could hear of a subscription before its end
		return errors.New("killed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	return m.Conn.Subscribe(ctx, channel, up, message)
}

// Close leaves the connection open, which the test closes.
func (m *Mortal) Close() error { return nil }

// StartMortal returns a client that can be killed, over its own connection.
func StartMortal(t testing.TB, s *redistest.Server, o redlatch.Options) (*redlatch.Client, *Mortal) {
	t.Helper()
	over := Dial(t, s.Addr())
	t.Cleanup(func() { _ = over.Close() })
	o.RequestTimeout = locktest.Patience // nothing is given up because the machine is busy
	process := &Mortal{Conn: over}
	process.life, process.Kill = context.WithCancel(context.Background())
	c, err := redlatch.New(process, o)
	check.Must(t, err == nil, "New: %v", err)
	t.Cleanup(func() { _ = c.Close() })
	help.Hearing(t, s, c) // a waiter whose subscription takes over a second has a ticket of mode A
	return c, process
}

// Die kills a client when it waits, alone in line for a name. It returns when the server knows that
// the client does not listen at its address any more; the ticket is left behind.
func (m *Mortal) Die(
	t locktest.Reporter, s *redistest.Server, c *redlatch.Client, result <-chan help.Outcome, name string,
) {
	t.Helper()
	locktest.Eventually(t, "a process waits that is to die", func() bool {
		return len(locktest.Line(s, name)) == 1 && help.Hears(s, c)
	})
	m.Kill()
	locktest.Eventually(t, "the server knows that it died", func() bool { return !help.Hears(s, c) })
	check.Nil(t, "Close of a client that was killed", locktest.CloseLeaving(c))
	help.AwaitError(t, result)
}

// Belated is a connection whose subscriptions fail, and are reported as confirmed after that.
type Belated struct {
	conn.Conn
	Tried chan struct{} // gets a value for each subscription
	Calls sync.WaitGroup
}

// Subscribe implements [conn.Conn].
func (b *Belated) Subscribe(_ context.Context, _ string, up func(), _ func(string)) error {
	b.Tried <- struct{}{}
	b.Calls.Go(func() {
		time.Sleep(time.Millisecond) // until Subscribe has returned
		up()
	})
	return errors.New("connection lost")
}

// Counting is a connection that counts the batches sent, by the script that begins them.
type Counting struct {
	conn.Conn
	mu      sync.Mutex // guards batches
	Batches map[string]int
}

// Eval implements [conn.Conn].
func (c *Counting) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.mu.Lock()
	if c.Batches == nil {
		c.Batches = make(map[string]int)
	}
	c.Batches[calls[0].Script.Name]++
	c.mu.Unlock()
	return c.Conn.Eval(ctx, calls...)
}

// Count returns how many batches began with this script.
func (c *Counting) Count(script string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Batches[script]
}

// Runs reports whether a script whose name has this ending is among the calls. The requests of a
// quorum to one node may go together.
func Runs(calls []conn.Call, ending string) bool {
	return slices.ContainsFunc(calls, func(c conn.Call) bool { return strings.HasSuffix(c.Script.Name, ending) })
}

// Answered is a connection that looks at each reply to a script, and loses it if Then says no.
type Answered struct {
	conn.Conn
	Script string // or its beginning; "" for none
	Then   func(conn.Reply) bool
	Lost   bool // the requests do not arrive
}

// Eval implements [conn.Conn].
func (a *Answered) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	hit := a.Script != "" && strings.HasPrefix(calls[0].Script.Name, a.Script)
	if hit && a.Lost {
		return Failing(len(calls), errors.New("connection lost"))
	}
	results := a.Conn.Eval(ctx, calls...)
	if hit && !a.Then(results[0].Reply) {
		return Failing(len(calls), errors.New("connection lost"))
	}
	return results
}

// CommandOf runs the command that its arguments are. It returns the reply as text: a list as lines.
var CommandOf = conn.NewScript("command of a test", `local function text(reply)
  if not reply then return '' end
  if type(reply) ~= 'table' then return tostring(reply) end
  if reply.ok then return reply.ok end
  local lines = {}
  for i, one in ipairs(reply) do lines[i] = text(one) end
  return table.concat(lines, '\n')
end
return text(redis.call(unpack(ARGV)))`)
