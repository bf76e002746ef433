// Package link makes connections that do harm on demand: they delay what passes, swallow it, pass it
// slowly or end in the middle of a reply. A worker dials all its connections through one [Link], so
// also those to nodes of a cluster that it learns of later, and below TLS.
package link

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Harm is what a link does to what passes. The zero value does none.
type Harm struct {
	DelayRequests, DelayReplies     time.Duration
	SwallowRequests, SwallowReplies bool
	Slow                            int    // bytes per second of the replies; 0 for no limit
	CutReply                        bool   // the next reply ends half way, with its connection
	Only                            string // the address at which this is done; "" for all
}

// late returns how late n bytes of a reply are.
func (h Harm) late(n int) time.Duration {
	if h.DelayReplies > 0 || h.Slow == 0 {
		return h.DelayReplies
	}
	return time.Duration(n) * time.Second / time.Duration(h.Slow)
}

// Link is the connections of one worker. The zero value is ready. Safe for concurrent use.
type Link struct {
	hits atomic.Int64 // chunks that were harmed, or connections that were cut, since the last Heal

	mu    sync.Mutex // guards what is below
	conns map[*conn]struct{}
	harm  Harm
	again chan struct{} // closed when harm changes
}

// Wrap returns a connection to addr that the link can harm.
func (l *Link) Wrap(addr string, c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns, l.again = make(map[*conn]struct{}), make(chan struct{})
	}
	w := &conn{Conn: c, link: l, addr: addr, closed: make(chan struct{})}
	l.conns[w] = struct{}{}
	return w
}

// Set does this harm from now on, instead of what was done before.
func (l *Link) Set(h Harm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.harm = h
	if l.again != nil {
		close(l.again)
	}
	l.again = make(chan struct{})
}

// Cut closes every connection. New ones are fine.
func (l *Link) Cut() {
	l.hits.Add(l.closeIf(func(*conn) bool { return true }))
}

// Heal ends all harm, and returns how often any was done. Connections that lost bytes are closed,
// as they are out of step.
func (l *Link) Heal() (hits int64) {
	l.Set(Harm{})
	hits = l.hits.Swap(0)
	l.closeIf(func(c *conn) bool { return c.dirty })
	return hits
}

// closeIf closes some connections, and returns how many.
func (l *Link) closeIf(which func(*conn) bool) (n int64) {
	l.mu.Lock()
	var some []*conn
	for c := range l.conns {
		if which(c) {
			some = append(some, c)
		}
	}
	l.mu.Unlock()
	for _, c := range some {
		_ = c.Close()
	}
	return int64(len(some))
}

// at returns what to do at an address. The caller holds l.mu.
func (l *Link) at(addr string) Harm {
	if l.harm.Only != "" && l.harm.Only != addr {
		return Harm{}
	}
	return l.harm
}

// pass returns what to do with bytes of a connection. swallows says whether a harm swallows them.
// pass decides and notes that in one step: otherwise, a connection that lost bytes just when the
// harm ended would go on out of step, and its client would take replies for those to other
// requests. If bytes are missing and the harm has ended, ok is false: nothing may pass any more.
func (l *Link) pass(c *conn, swallows func(Harm) bool) (h Harm, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h = l.at(c.addr)
	if swallows(h) {
		l.hits.Add(1)
		c.dirty = true
	}
	return h, !c.dirty || h.SwallowRequests || h.SwallowReplies
}

// conn is one connection.
type conn struct {
	net.Conn
	link *Link
	addr string

	once   sync.Once
	closed chan struct{}
	dirty  bool // guarded by link.mu

	mu     sync.Mutex // guards what is below
	queue  []chunk    // of requests that are delayed
	failed error
}

// chunk is requests that leave at some time.
type chunk struct {
	data []byte
	due  time.Time
}

// Write sends requests, or puts them into a queue if they are delayed. Delayed requests are sent
// even if the connection is closed before.
func (c *conn) Write(data []byte) (int, error) {
	h, ok := c.link.pass(c, func(h Harm) bool { return h.SwallowRequests })
	switch {
	case !ok:
		_ = c.Close()
		return 0, net.ErrClosed
	case h.SwallowRequests:
		return len(data), nil
	}
	c.mu.Lock()
	if c.failed != nil {
		defer c.mu.Unlock()
		return 0, c.failed
	}
	if h.DelayRequests == 0 && len(c.queue) == 0 {
		c.mu.Unlock()
		return c.Conn.Write(data)
	}
	defer c.mu.Unlock()
	c.link.hits.Add(1)
	c.queue = append(c.queue, chunk{append([]byte(nil), data...), time.Now().Add(h.DelayRequests)})
	if len(c.queue) == 1 {
		go c.drain() // ends with the last chunk
	}
	return len(data), nil
}

// drain sends what is in the queue, each chunk at its time.
func (c *conn) drain() {
	for {
		c.mu.Lock()
		next := c.queue[0]
		c.mu.Unlock()
		time.Sleep(time.Until(next.due))
		_, err := c.Conn.Write(next.data)
		c.mu.Lock()
		c.queue = c.queue[1:]
		if err != nil {
			c.failed, c.queue = err, nil
		}
		if len(c.queue) == 0 {
			break
		}
		c.mu.Unlock()
	}
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		_ = c.Conn.Close()
	default:
	}
}

// Read receives replies.
func (c *conn) Read(data []byte) (int, error) {
	for {
		n, err := c.Conn.Read(data)
		if err != nil {
			return n, err
		}
		h, ok := c.link.pass(c, func(h Harm) bool { return h.SwallowReplies })
		switch {
		case !ok:
			_ = c.Close()
			return 0, net.ErrClosed
		case h.SwallowReplies:
			continue
		case h.CutReply && n > 1:
			c.link.hits.Add(1)
			_ = c.Close()
			return n / 2, nil
		case h.late(n) > 0:
			c.link.hits.Add(1)
			c.hold(n)
		}
		return n, nil
	}
}

// hold returns when n bytes that came now have been held up for as long as the link says, or the
// connection is closed.
func (c *conn) hold(n int) {
	for came := time.Now(); ; {
		c.link.mu.Lock()
		h, again := c.link.at(c.addr), c.link.again
		c.link.mu.Unlock()
		left := h.late(n) - time.Since(came)
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-again:
		case <-c.closed:
			return
		}
	}
}

// Close ends the connection, once what is delayed has been sent.
func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	c.mu.Lock()
	delayed := len(c.queue) > 0
	c.mu.Unlock()
	if delayed {
		return c.Conn.SetReadDeadline(time.Unix(1, 0)) // a reader must not wait for it
	}
	return c.Conn.Close()
}
