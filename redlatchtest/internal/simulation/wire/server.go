package wire

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// Server is a server in memory, and what happens to it. It belongs to the network's goroutine.
type Server struct {
	*memory.Server
	net      *Network
	Number   int
	Replicas int // that acknowledge

	Takes time.Duration // for each script, one after the other; 0 for none
	free  time.Duration // when it will have run those that came

	Step  time.Duration // by how much its clock was set
	Drift float64       // part of a second that its clock gains in a second

	Hangs   bool
	Down    bool
	Forgot  time.Duration // when it lost data last; 0 for never
	backlog []func()      // requests that came while it hung
	Ears    []*ear

	peers []*Server     // of a cluster, this server included; else none
	told  time.Duration // when the peers hear the latest message
}

// subscription is a subscription at a server.
type subscription = memory.Subscription

// NewServer returns a server without data.
func NewServer(n *Network, number int) *Server {
	s := &Server{net: n, Number: number}
	s.Server = memory.New(s.String(), s.Clock)
	return s
}

// Clock returns the server's time.
func (s *Server) Clock() time.Time {
	gone := s.net.Now()
	return s.net.Begin.Add(gone + time.Duration(float64(gone)*s.Drift) + s.Step)
}

func (s *Server) String() string { return fmt.Sprintf("server %d", s.Number) }

// take runs a request that has arrived, now or when the server answers again.
func (s *Server) take(l *Link, r *request) {
	switch {
	case s.Down:
		l.back(0, func() { l.answer(r, func() { r.fail(errRefused) }) })
		return
	case s.Hangs:
		s.backlog = append(s.backlog, func() { s.take(l, r) })
		return
	}
	s.free = max(s.free, s.net.Now()) + s.Takes*time.Duration(5+r.scripts)/5
	serve := func() {
		if s.Down {
			return
		}
		rounds := r.do(s)
		l.back(time.Duration(2*rounds)*l.Delay.Least, func() { l.answer(r, func() {}) })
	}
	if wait := s.free - s.net.Now(); wait > 0 {
		s.net.After(wait, serve)
		return
	}
	serve()
}

// listen begins a subscription that has arrived.
func (s *Server) listen(e *ear, up func(), message func(string)) {
	switch {
	case s.Down:
		e.Link.back(0, func() { e.end(errRefused) })
		return
	case s.Hangs:
		s.backlog = append(s.backlog, func() { s.listen(e, up, message) })
		return
	case e.over != nil:
		return
	}
	e.message = func(payload string) {
		s.net.tell("  %s tells %s: %q", s, e.Link, payload)
		e.hear(func() { message(payload) })
	}
	if !e.sharded {
		e.sub = s.Subscribe(e.channel, e.message)
	} else if sub, err := s.SubscribeSharded(e.channel, e.message); err == nil {
		e.sub = sub
	} else {
		e.Link.back(0, func() { e.end(err) })
		return
	}
	s.Ears = append(s.Ears, e)
	e.hear(up)
}

// Forget ends a subscription at the server.
func (s *Server) Forget(e *ear) {
	if e.sub != nil {
		s.Unsubscribe(e.sub)
		e.sub = nil
	}
	s.Ears = slices.DeleteFunc(s.Ears, func(o *ear) bool { return o == e })
}

// Hang stops the server from answering until Resume, which also answers what came in between.
func (s *Server) Hang() { s.Hangs = true }

// Resume makes the server answer again.
func (s *Server) Resume() {
	s.Hangs = false
	backlog := s.backlog
	s.backlog = nil
	for _, do := range backlog {
		do()
	}
}

// Kill ends the process: connections end, and requests that came but were not served fail.
func (s *Server) Kill() {
	s.Down, s.Hangs = true, false
	s.DropSubscriptions()
	for _, do := range s.backlog {
		do()
	}
	s.backlog = nil
}

// Restart begins another process with these data.
func (s *Server) Restart(data memory.Copy) {
	s.Server.Restart(data)
	s.free = 0
	s.Refuse(memory.Serves)
	s.Down = false
	s.tellsPeers()
}

// DropSubscriptions ends the connections of all subscriptions.
func (s *Server) DropSubscriptions() {
	for _, e := range slices.Clone(s.Ears) {
		s.Forget(e)
		e.Link.back(0, func() { e.end(errReset) })
	}
}

// JoinServers makes servers the nodes of a cluster.
func JoinServers(nodes []*Server) {
	for _, s := range nodes {
		s.peers = nodes
		s.tellsPeers()
	}
}

// busDelay is how long a message is under way between two nodes of a cluster.
const busDelay = 100 * time.Microsecond

// tellsPeers makes the other nodes of a cluster hear what is published here, in order.
func (s *Server) tellsPeers() {
	if s.peers == nil {
		return
	}
	s.Relay(func(channel, payload string) {
		s.told = max(s.told+1, s.net.Now()+busDelay)
		s.net.After(s.told-s.net.Now(), func() {
			for _, o := range s.peers {
				if o != s && !o.Down && !o.Hangs {
					o.hears(channel, payload)
				}
			}
		})
	})
}

// hears tells listeners what was published at another node.
func (s *Server) hears(channel, payload string) {
	for _, e := range slices.Clone(s.Ears) {
		if e.channel == channel && !e.sharded {
			e.message(payload)
		}
	}
}

// Lease returns for how many more ms an owner holds the lock of a key. silent says that this cannot
// be seen just now, or in this way.
func (s *Server) Lease(key, owner string) (ms int64, found, silent bool) {
	kind := s.Do("TYPE", key)
	switch {
	case kind.Err != nil || kind.Reply.Text == "hash": // a reentrant mutex notes entries
		return 0, false, true
	case kind.Reply.Text == "string":
		return s.Do("PTTL", key).Reply.Int, s.Do("GET", key).Reply.Text == owner, false
	case kind.Reply.Text == "zset":
		ends, err := strconv.ParseFloat(s.Do("ZSCORE", key, owner).Reply.Text, 64)
		return int64(ends) - s.Clock().UnixMilli(), err == nil, false
	}
	return 0, false, false
}
