package tests

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Faults by enumeration: of the requests of an operation, each and each pair meets each mishap.
// What chance finds in a history after hours is found here at once, and by name.

// mishap is what happens to a request on its way.
type mishap struct {
	name    string
	runs    bool   // the server runs it at once
	late    int    // the server runs it when so many more requests are over; 0 for never
	silent  bool   // nothing is answered until the time for an answer is over; else the connection is lost
	answers bool   // the reply arrives
	refusal string // the server's error, instead of running it
	cancels bool   // the caller's context ends just before the outcome is there
}

// The mishaps after which nobody but the server knows what has happened.
var (
	unheard    = mishap{name: "unheard", runs: true}
	unanswered = mishap{name: "unanswered", runs: true, silent: true}
	unsent     = mishap{name: "unsent"}
	swallowed  = mishap{name: "swallowed", silent: true}
	overtaken  = mishap{name: "overtaken", late: 1}
	straggles  = mishap{name: "overtaken twice", late: 2}
)

// The mishaps of a server that will not, for now.
var (
	readOnly = mishap{name: "READONLY", refusal: "READONLY You can't write against a read only replica."}
	diskFull = mishap{name: "MISCONF", refusal: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."}
)

// hits says which requests meet a mishap, by their number from 0.
type hits struct {
	name string
	hit  func(number int) bool
}

// Which requests meet a mishap.
var (
	none     = hits{"none", func(int) bool { return false }}
	first    = hits{"first", func(n int) bool { return n == 0 }}
	second   = hits{"second", func(n int) bool { return n == 1 }}
	third    = hits{"third", func(n int) bool { return n == 2 }}
	firstTwo = hits{"first two", func(n int) bool { return n < 2 }}
	some     = hits{"first five", func(n int) bool { return n < 5 }}
	every    = hits{"all", func(int) bool { return true }}
)

// lossy is a connection of one client to a server, over another that it shares. It numbers the
// requests, and does harm to some.
type lossy struct {
	conn.Conn
	cancel context.CancelFunc // of the caller, for a mishap that cancels

	mu     sync.Mutex // guards what is below
	mishap mishap
	hits   hits
	number int // of the next request
	late   []straggler
	deaf   bool // messages are lost
}

// EvalReplicated implements [conn.Replicated]. It does no harm.
func (l *lossy) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	return l.Conn.(conn.Replicated).EvalReplicated(ctx, call, n, wait)
}

// straggler is a batch that has not arrived.
type straggler struct {
	calls []conn.Call
	after int // requests
}

// harm numbers requests from 0 again, and has these meet the mishap.
func (l *lossy) harm(m mishap, h hits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mishap, l.hits, l.number = m, h, 0
}

// requests returns how many there were since harm.
func (l *lossy) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// mute loses the messages from now on, or does not.
func (l *lossy) mute(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
}

func (l *lossy) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
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
func (l *lossy) next() (m mishap, hit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	return l.mishap, l.hits.hit(l.number - 1)
}

// suffer is what a batch comes to that meets a mishap.
func (l *lossy) suffer(ctx context.Context, m mishap, calls []conn.Call) []conn.Result {
	var results []conn.Result
	switch {
	case m.runs:
		results = l.Conn.Eval(context.WithoutCancel(ctx), calls...)
	case m.late > 0:
		l.mu.Lock()
		l.late = append(l.late, straggler{slices.Clone(calls), m.late})
		l.mu.Unlock()
	}
	if m.cancels && l.cancel != nil {
		l.cancel()
	}
	switch {
	case m.answers:
		return results
	case m.refusal != "":
		return failing(len(calls), &conn.ReplyError{Text: m.refusal})
	case m.silent:
		<-ctx.Done()
		return failing(len(calls), ctx.Err())
	}
	return failing(len(calls), io.ErrUnexpectedEOF)
}

// overdue returns the batches that arrive when one more request is over.
func (l *lossy) overdue() (due []straggler) {
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

func (l *lossy) deliver(due []straggler) {
	for _, s := range due {
		l.Conn.Eval(context.Background(), s.calls...)
	}
}

// failing is n results with an error.
func failing(n int, err error) []conn.Result {
	results := make([]conn.Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

func (l *lossy) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
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
func (l *lossy) Close() error { return nil }
