package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Lazy is a connection to a node that may be down when the Lazy is made. It dials when it is used,
// and again if that failed. Once it is up, the client library reconnects by itself.
type Lazy struct {
	addr    string
	dial    func(context.Context) (conn.Conn, error)
	timeout time.Duration
	life    context.Context // of dials; Close ends it
	end     context.CancelFunc

	mu      sync.Mutex // guards what is below
	up      conn.Conn  // nil until the first dial that worked
	dialing chan struct{}
	failed  error     // of the last dial
	again   time.Time // no dial before this
	closed  bool
}

var (
	_ conn.Conn = (*Lazy)(nil)

	errClosed = errors.New("connection closed")
)

// NewLazy returns a Lazy that connects with dial, within that time. It dials nothing yet. Close
// ends the context of dial, and waits until dial returns.
func NewLazy(addr string, timeout time.Duration, dial func(context.Context) (conn.Conn, error)) *Lazy {
	life, end := context.WithCancel(context.Background())
	return &Lazy{addr: addr, dial: dial, timeout: timeout, life: life, end: end}
}

// Dial returns the connection, and makes it if there is none.
func (l *Lazy) Dial(ctx context.Context) (conn.Conn, error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, errClosed
		case l.up != nil:
			up := l.up
			l.mu.Unlock() // not deferred: a defer in a loop allocates
			return up, nil
		case l.dialing == nil && l.failed != nil && time.Now().Before(l.again):
			defer l.mu.Unlock()
			return nil, l.failed
		case l.dialing == nil:
			l.dialing = make(chan struct{})
			go l.connect()
		}
		dialing := l.dialing
		l.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect dials for all callers that wait for the connection. It is tempting to dial with the
// context of the caller that came first. But when that is done, others may still wait.
func (l *Lazy) connect() {
	ctx, cancel := context.WithTimeout(l.life, l.timeout)
	defer cancel()
	up, err := l.dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up, l.failed, l.again = up, err, time.Now().Add(retry)
	close(l.dialing)
	l.dialing = nil
}

// Eval implements [conn.Conn].
func (l *Lazy) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	up, err := l.Dial(ctx)
	if err != nil {
		return slices.Repeat([]conn.Result{{Err: err}}, len(calls))
	}
	return up.Eval(ctx, calls...)
}

// Subscribe implements [conn.Conn].
func (l *Lazy) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	c, err := l.Dial(ctx)
	if err != nil {
		return err
	}
	return c.Subscribe(ctx, channel, up, message)
}

// Scan implements [conn.Conn].
func (l *Lazy) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	c, err := l.Dial(ctx)
	if err != nil {
		return err
	}
	return c.Scan(ctx, pattern, each)
}

// Target implements [conn.Conn].
func (l *Lazy) Target() conn.Target { return conn.Target{Addr: l.addr} }

// Close implements [conn.Conn]. It cuts a dial short: a host that accepts and says nothing would
// keep it waiting for the timeout.
func (l *Lazy) Close() error {
	l.end()
	l.mu.Lock()
	l.closed = true
	for l.dialing != nil {
		dialing := l.dialing
		l.mu.Unlock()
		<-dialing
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.up == nil {
		return nil
	}
	return l.up.Close()
}
