package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// dialFunc is how rueidis has connections made.
type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error)

// silence closes connections of requests that died silently: a NAT forgot them, or a host lost
// power. Rueidis itself finds out by a ping, which takes twice the KeepAlive plus the
// ConnWriteTimeout (link/dial), and until then sends all resends into the same hole. For a
// subscription, only the ping finds out.
//
// A slow server looks the same, and then a new connection does not help. So the connections to an
// address are dropped at most once per ConnWriteTimeout. Nothing is lost by that, since the
// requests that are cut off had been given up.
type silence struct {
	limit time.Duration     // how long a connection may leave a request unanswered
	pause time.Duration     // between two drops at one address
	ended func(addr string) // is called when a connection is closed

	closed  atomic.Bool // no connection is made any more
	mu      sync.Mutex
	open    map[*heard]struct{}
	dropped map[string]time.Duration // by address, on the clock of elapsed
}

// listenIn watches connections made with these options, and calls ended when each is closed. The
// options' ConnWriteTimeout must be set. No connection is made for a request that goes direct.
func listenIn(o *rueidis.ClientOption, ended func(addr string)) *silence {
	s := &silence{
		limit: o.ConnWriteTimeout / 4, pause: o.ConnWriteTimeout, ended: ended,
		open: make(map[*heard]struct{}), dropped: make(map[string]time.Duration),
	}
	dial := dialerOf(o)
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		switch {
		case ctx.Value(undialed{}) != nil:
			return nil, errUndialed
		case s.closed.Load():
			return nil, net.ErrClosed
		}
		c, err := dial(ctx, addr, d, t)
		if err != nil {
			return nil, err
		}
		h := s.watch(addr, c)
		if s.closed.Load() { // close may have looked before
			h.cut()
			return nil, net.ErrClosed
		}
		return h, nil
	}
	return s
}

// dialerOf returns what rueidis would dial with by itself.
func dialerOf(o *rueidis.ClientOption) dialFunc {
	switch {
	case o.DialCtxFn != nil:
		return o.DialCtxFn
	case o.DialFn != nil: // deprecated, and still used by rueidis
		dial := o.DialFn
		return func(_ context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			return dial(addr, d, t)
		}
	}
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if t != nil {
			return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
		}
		return d.DialContext(ctx, "tcp", addr)
	}
}

func (s *silence) watch(addr string, c net.Conn) *heard {
	h := &heard{Conn: c, addr: addr, silence: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[h] = struct{}{}
	return h
}

func (s *silence) forget(h *heard) {
	s.ended(h.addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, h)
}

// drop closes the connections that have not answered for too long. It is called when a request was
// given up. Rueidis then fails all requests that wait for them, and dials again for the next one.
func (s *silence) drop() {
	s.cut(func(h *heard, now time.Duration) bool {
		asked := time.Duration(h.asked.Load())
		return asked != 0 && now-asked >= s.limit
	})
}

// leave closes all connections. It is called when a server has said that it is a replica: a name or a
// proxy may lead to the new master by now.
func (s *silence) leave() { s.cut(func(*heard, time.Duration) bool { return true }) }

// close closes all connections, at the end of the client: nothing is under way.
func (s *silence) close() {
	s.closed.Store(true)
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, h := range all {
		h.cut()
	}
}

// cut closes the connections that meant selects, at addresses where none was cut for a pause.
func (s *silence) cut(meant func(h *heard, now time.Duration) bool) {
	now := elapsed()
	var all []*heard
	s.mu.Lock()
	for h := range s.open {
		if last, ok := s.dropped[h.addr]; meant(h, now) && (!ok || now-last >= s.pause) {
			all = append(all, h)
		}
	}
	for _, h := range all {
		s.dropped[h.addr] = now
	}
	s.mu.Unlock()
	for _, h := range all {
		h.cut()
	}
}

// heard is a connection that knows how long it has been silent.
type heard struct {
	net.Conn
	addr    string
	silence *silence
	begun   bool         // some bytes came
	refusal string       // an error that is all that came: a server sends it, and closes
	asked   atomic.Int64 // since when bytes were sent and none came back, on the clock of elapsed; 0 if some came
}

// Write implements [net.Conn].
func (h *heard) Write(p []byte) (int, error) {
	if h.asked.Load() == 0 {
		h.asked.CompareAndSwap(0, int64(elapsed()))
	}
	return h.Conn.Write(p)
}

// Read implements [net.Conn].
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.asked.Store(0)
		h.refusal = ""
		if !h.begun && p[0] == '-' {
			h.refusal, _, _ = strings.Cut(string(p[1:n]), "\r\n")
		}
		h.begun = true
	}
	if err != nil && h.refusal != "" {
		err = fmt.Errorf("%w, after %q", err, h.refusal)
	}
	return n, err
}

func (h *heard) cut() {
	h.silence.forget(h)
	hangUp(h.Conn)
}

// hangUp closes a connection without a goodbye. TLS would wait seconds to send one to a peer that
// is gone, and so would the caller.
func hangUp(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}

// Close implements [net.Conn].
func (h *heard) Close() error {
	h.silence.forget(h)
	return h.Conn.Close()
}

var began = time.Now()

// elapsed is a monotonic clock that is never 0. What it measures may be too short by a suspend,
// which would not do for a deadline.
func elapsed() time.Duration { return time.Since(began) + 1 }

// errUndialed ends a direct request that found no connection. It was not sent.
var errUndialed = errors.New("connection: none is open")

// undialed is the key of contexts under which no connection is made.
type undialed struct{}
