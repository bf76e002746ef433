package wire

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Faults by enumeration: each request of an operation, and each pair of them, meets each mishap.
// What chance finds in a history after hours is found here at once, and by name.

// Mishap is what happens to a request on its way.
type Mishap struct {
	Name    string
	Runs    bool   // the server runs it at once
	Late    int    // the server runs it when this many more requests are over; 0 for never
	silent  bool   // nothing is answered until the time for an answer is over; else the connection is lost
	Answers bool   // the reply arrives
	Refusal string // the server's error, instead of running it
	Cancels bool   // the caller's context ends just before the outcome is there
}

// The mishaps after which only the server knows what has happened.
var (
	Unheard    = Mishap{Name: "unheard", Runs: true}
	Unanswered = Mishap{Name: "unanswered", Runs: true, silent: true}
	Unsent     = Mishap{Name: "unsent"}
	Swallowed  = Mishap{Name: "swallowed", silent: true}
	Overtaken  = Mishap{Name: "overtaken", Late: 1}
	Straggles  = Mishap{Name: "overtaken twice", Late: 2}
)

// The mishaps of a server that refuses, for now.
var (
	ReadOnly = Mishap{Name: "READONLY", Refusal: "READONLY You can't write against a read only replica."}
	DiskFull = Mishap{Name: "MISCONF", Refusal: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."}
)

// Hits says which requests meet a mishap, by their number from 0.
type Hits struct {
	Name string
	Hit  func(number int) bool
}

// Which requests meet a mishap.
var (
	None     = Hits{"none", func(int) bool { return false }}
	First    = Hits{"first", func(n int) bool { return n == 0 }}
	Second   = Hits{"second", func(n int) bool { return n == 1 }}
	FirstTwo = Hits{"first two", func(n int) bool { return n < 2 }}
	Some     = Hits{"first five", func(n int) bool { return n < 5 }}
	Every    = Hits{"all", func(int) bool { return true }}
)

// Lossy is a connection of one client to a server, over another that it shares. It numbers the
// requests, and does harm to some.
type Lossy struct {
	conn.Conn
	Cancel context.CancelFunc // of the caller, for a mishap that cancels

	mu     sync.Mutex // guards what is below
	mishap Mishap
	Hits   Hits
	number int // of the next request
	late   []straggler
	deaf   bool // messages are lost
}

// EvalReplicated implements [conn.Replicated]. It does no harm.
func (l *Lossy) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	return l.Conn.(conn.Replicated).EvalReplicated(ctx, call, n, wait)
}

// straggler is a batch that has not arrived.
type straggler struct {
	calls []conn.Call
	after int // requests
}

// Harm numbers requests from 0 again, and makes these meet the mishap.
func (l *Lossy) Harm(m Mishap, h Hits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mishap, l.Hits, l.number = m, h, 0
}

// Requests returns how many there were since harm.
func (l *Lossy) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// Mute loses the messages from now on, or does not.
func (l *Lossy) Mute(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
}

// Eval implements [conn.Conn].
func (l *Lossy) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name == "record" { // sent beside any operation, or not
		return l.Conn.Eval(ctx, calls...)
	}
	defer l.deliver(l.overdue())
	m, hit := l.next()
	if !hit {
		return l.Conn.Eval(ctx, calls...)
	}
	return l.suffer(ctx, m, calls)
}

// next counts a request, and returns what it meets.
func (l *Lossy) next() (m Mishap, hit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	return l.mishap, l.Hits.Hit(l.number - 1)
}

// suffer returns the results of a batch that meets a mishap.
func (l *Lossy) suffer(ctx context.Context, m Mishap, calls []conn.Call) []conn.Result {
	var results []conn.Result
	switch {
	case m.Runs:
		results = l.Conn.Eval(context.WithoutCancel(ctx), calls...)
	case m.Late > 0:
		l.mu.Lock()
		l.late = append(l.late, straggler{slices.Clone(calls), m.Late})
		l.mu.Unlock()
	}
	if m.Cancels && l.Cancel != nil {
		l.Cancel()
	}
	switch {
	case m.Answers:
		return results
	case m.Refusal != "":
		return Failing(len(calls), &conn.ReplyError{Text: m.Refusal})
	case m.silent:
		<-ctx.Done()
		return Failing(len(calls), ctx.Err())
	}
	return Failing(len(calls), io.ErrUnexpectedEOF)
}

// overdue returns the batches that arrive when one more request is over.
func (l *Lossy) overdue() (due []straggler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = slices.DeleteFunc(l.late, func(s straggler) bool {
		if s.after == 1 {
			due = append(due, s)
		}
		return s.after == 1
	})
	for i := range l.late {
		l.late[i].after--
	}
	return due
}

func (l *Lossy) deliver(due []straggler) {
	for _, s := range due {
		l.Conn.Eval(context.Background(), s.calls...)
	}
}

// Failing returns n results with an error.
func Failing(n int, err error) []conn.Result {
	results := make([]conn.Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// Subscribe implements [conn.Conn].
func (l *Lossy) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	return l.Conn.Subscribe(ctx, channel, up, func(payload string) {
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if !deaf {
			message(payload)
		}
	})
}

// Close leaves the shared connection open.
func (l *Lossy) Close() error { return nil }

// Outlasts reports whether requests arrive when even the second look at what they left is over.
// That costs a TTL.
func (m Mishap) Outlasts(h Hits) bool { return m.Late > 1 && h.Hit(1) && h.Hit(0) }
