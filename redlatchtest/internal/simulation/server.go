package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// server is a server in memory, and what happens to it. It belongs to the network's goroutine.
type server struct {
	*memory.Server
	net      *network
	number   int
	replicas int // that acknowledge

	step  time.Duration // that its clock was set by
	drift float64       // part of a second that its clock gains in a second

	hangs   bool
	down    bool
	forgot  time.Duration // when it lost data last; 0 for never
	backlog []func()      // requests that came while it hung
	ears    []*ear

	peers []*server     // of a cluster, this server included; else none
	told  time.Duration // when these hear what was published last
}

// subscription is one at a server.
type subscription = memory.Subscription

func newServer(n *network, number int) *server {
	s := &server{net: n, number: number}
	s.Server = memory.New(s.String(), s.clock)
	return s
}

// clock returns the server's time.
func (s *server) clock() time.Time {
	gone := s.net.now()
	return s.net.begin.Add(gone + time.Duration(float64(gone)*s.drift) + s.step)
}

func (s *server) String() string { return fmt.Sprintf("server %d", s.number) }

// take runs a request that has arrived, or will when the server answers again.
func (s *server) take(l *Link, r *request) {
	switch {
	case s.down:
		l.back(0, func() { l.answer(r, func() { r.fail(errRefused) }) })
		return
	case s.hangs:
		s.backlog = append(s.backlog, func() { s.take(l, r) })
		return
	}
	rounds := r.do(s)
	l.back(time.Duration(2*rounds)*l.delay.least, func() { l.answer(r, func() {}) })
}

// listen begins a subscription that has arrived.
func (s *server) listen(e *ear, up func(), message func(string)) {
	switch {
	case s.down:
		e.link.back(0, func() { e.end(errRefused) })
		return
	case s.hangs:
		s.backlog = append(s.backlog, func() { s.listen(e, up, message) })
		return
	case e.over != nil:
		return
	}
	e.message = func(payload string) {
		s.net.tell("  %s tells %s: %q", s, e.link, payload)
		e.hear(func() { message(payload) })
	}
	if !e.sharded {
		e.sub = s.Subscribe(e.channel, e.message)
	} else if sub, err := s.SubscribeSharded(e.channel, e.message); err == nil {
		e.sub = sub
	} else {
		e.link.back(0, func() { e.end(err) })
		return
	}
	s.ears = append(s.ears, e)
	e.hear(up)
}

// forget ends a subscription at the server.
func (s *server) forget(e *ear) {
	if e.sub != nil {
		s.Unsubscribe(e.sub)
		e.sub = nil
	}
	s.ears = slices.DeleteFunc(s.ears, func(o *ear) bool { return o == e })
}

// hang stops the server from answering; resume has it answer again, also what came in between.
func (s *server) hang() { s.hangs = true }

func (s *server) resume() {
	s.hangs = false
	backlog := s.backlog
	s.backlog = nil
	for _, do := range backlog {
		do()
	}
}

// kill ends the process: connections end, and what came and was not served fails.
func (s *server) kill() {
	s.down, s.hangs = true, false
	s.dropSubscriptions()
	for _, do := range s.backlog {
		do()
	}
	s.backlog = nil
}

// restart begins another process with these data.
func (s *server) restart(data memory.Copy) {
	s.Restart(data)
	s.Refuse(memory.Serves)
	s.down = false
	s.tellsPeers()
}

// dropSubscriptions ends the connections of all subscriptions.
func (s *server) dropSubscriptions() {
	for _, e := range slices.Clone(s.ears) {
		s.forget(e)
		e.link.back(0, func() { e.end(errReset) })
	}
}
