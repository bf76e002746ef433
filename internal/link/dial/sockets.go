package dial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// sockets are the connections of a rueidis client that is being made. rueidis takes no context
// there, and waits for a silent server until its own timeout. When its sockets are closed, it
// returns at once.
type sockets struct {
	mu   sync.Mutex // guards what is below
	last string     // the address that was dialed last
	open []net.Conn
	made bool // the client is made, and owns the sockets
	over bool // the client is not wanted any more
}

// under returns options with which a client opens its sockets through s, and dials until ctx is done.
func (s *sockets) under(ctx context.Context, o rueidis.ClientOption) rueidis.ClientOption {
	dial := o.DialCtxFn
	if dial == nil {
		dial = byDefault
	}
	o.DialCtxFn = func(each context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		s.dials(addr)
		each, cancel := context.WithCancel(each)
		defer cancel()
		defer context.AfterFunc(ctx, func() { // ctx ends also after the client was made
			if !s.isMade() {
				cancel()
			}
		})()
		c, err := dial(each, addr, d, t)
		if err != nil {
			return nil, err
		}
		s.add(c)
		return c, nil
	}
	return o
}

// dials notes the address that is dialed.
func (s *sockets) dials(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = addr
}

// named adds to an error the address that was dialed last, if it came from Sentinel: usually that
// of the master, otherwise of another sentinel.
func (s *sockets) named(err error, o rueidis.ClientOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Sentinel.MasterSet == "" || s.last == "" || slices.Contains(o.InitAddress, s.last) || strings.Contains(err.Error(), s.last) {
		return err
	}
	return fmt.Errorf("%w; the last address dialed was %s, which Sentinel told", err, s.last)
}

// byDefault dials as rueidis does by itself.
func byDefault(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// add notes a socket. It closes the socket if the client is not wanted any more.
func (s *sockets) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		_ = c.Close()
	case !s.made:
		s.open = append(s.open, c)
	}
}

// keep leaves the sockets to the client, which is made.
func (s *sockets) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made, s.open = true, nil
}

// cut closes the sockets of a client that is not wanted any more.
func (s *sockets) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, c := range s.open {
		_ = c.Close()
	}
	s.open = nil
}

func (s *sockets) isMade() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}
