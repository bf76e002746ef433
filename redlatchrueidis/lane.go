package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// lane is a connection that one request at a time has for itself, next to the one that requests
// share. A request takes a lane if no other is on the shared connection. In a lane, rueidis writes
// and reads on the goroutine of the caller. On the shared connection, a goroutine that writes, a
// goroutine that reads and the caller are woken in turn, which for few requests costs more than
// everything else.
//
// Rueidis does so for requests with a deadline, until two requests meet on the connection: the
// caller's and a ping of rueidis after some idle seconds. From then on the lane is as slow as the
// other connection, and no worse.
//
// Only its deadline, or the end of the connection, ends a read on the goroutine of the caller. So a
// request that is given up costs the lane, and another is dialed in the background.
//
//	closed --- dialAfter requests ---> dialing --- answered ---> free <-- take, give --> taken
//	   ^                                  |                        |                       |
//	   +------------- no answer ----------+--- the other one ended +---- no answer --------+
type lane struct {
	options rueidis.ClientOption
	server  *node           // that it leads to
	life    context.Context // ends with close
	end     context.CancelFunc

	state  atomic.Int32
	missed atomic.Int32             // requests that found the lane closed, since it was dialed last
	socket atomic.Pointer[net.Conn] // the last that was dialed
	mark   uint64                   // of server, before the lane was dialed; for the goroutine that dials or has taken it
	client rueidis.Client           // likewise

	mu     sync.Mutex // guards what is below, and the end of life
	dialed time.Time  // when the lane was dialed last
	pause  time.Duration
}

// The states of a lane.
const (
	laneClosed int32 = iota
	laneDialing
	laneFree
	laneTaken
)

// dialAfter is how many requests miss a lane before it is dialed. A program that takes one lock and
// ends needs no lane.
const dialAfter = 16

// A lane that could not be dialed is dialed again after a pause, which doubles.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// maxLanes is how many lanes there are to one server. Three or more goroutines that send one
// request after another do just as well on the shared connection.
const maxLanes = 2

// newLanes returns n lanes to the server of these options; none if they may lead to several servers.
func newLanes(o rueidis.ClientOption, server *node, n int) (lanes []*lane) {
	if len(o.InitAddress) != 1 || len(o.Standalone.ReplicaAddress) > 0 || o.Standalone.EnableRedirect {
		return nil
	}
	for range n {
		lanes = append(lanes, newLane(o, server))
	}
	return lanes
}

// takeLane returns a lane that the caller has until it gives it back; nil if none is free. In that
// case, the first lane that is not taken misses a request: a lane is dialed only for requests that
// find those before it taken.
func takeLane(lanes []*lane) *lane {
	for _, l := range lanes {
		if l.take() {
			return l
		}
	}
	for _, l := range lanes {
		if l.state.Load() != laneTaken {
			l.miss()
			return nil
		}
	}
	return nil
}

// newLane returns a lane to the server of these options, which are those of the connection that
// requests share.
func newLane(o rueidis.ClientOption, server *node) *lane {
	l := &lane{server: server, pause: minPause}
	l.life, l.end = context.WithCancel(context.Background())
	o.ForceSingleClient = true
	o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 4<<10, 4<<10, 4 // for one request
	dial := dialerOf(&o)
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if ctx.Value(undialed{}) != nil {
			return nil, errUndialed
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.life, cancel)()
		c, err := dial(ctx, addr, d, t)
		if err != nil {
			return nil, err
		}
		if l.socket.Store(&c); l.life.Err() != nil { // close may have looked before
			l.hangUp()
		}
		return c, nil
	}
	l.options = o
	return l
}

// take reports whether the caller has the lane, until it gives it back.
func (l *lane) take() bool {
	if !l.state.CompareAndSwap(laneFree, laneTaken) {
		return false
	}
	if l.mark == l.server.mark() {
		return true
	}
	// The shared connection ended. Rueidis reads here only for a request, so this one may have
	// ended, too, or lead to a server that is no longer the master.
	l.hangUp()
	l.give(false)
	return false
}

// miss notes that a request found the lane closed, and dials it after some of them.
func (l *lane) miss() {
	if l.state.Load() == laneClosed && l.missed.Add(1) >= dialAfter {
		l.dial()
	}
}

// give gives the lane back; open says whether it is still open.
func (l *lane) give(open bool) {
	if open {
		l.state.Store(laneFree)
	} else {
		l.state.Store(laneClosed)
	}
}

// hangUp ends the request that is under way, and the connection.
func (l *lane) hangUp() {
	if c := l.socket.Load(); c != nil {
		hangUp(*c)
	}
}

// dial dials the lane in the background, unless it was dialed a moment ago.
func (l *lane) dial() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil || time.Since(l.dialed) < l.pause || !l.state.CompareAndSwap(laneClosed, laneDialing) {
		return
	}
	l.dialed = time.Now()
	l.missed.Store(0)
	go l.redial() // ends with the handshake, or with life
}

// redial closes the last client, if there is one, and makes another. Rueidis does not know about a
// connection that was hung up, and would find out only at the next request.
func (l *lane) redial() {
	if l.client != nil {
		l.client.Close()
	}
	var err error
	l.mark = l.server.mark()
	if l.client, err = rueidis.NewClient(l.options); err != nil && l.client != nil {
		l.client.Close()
		l.client = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.life.Err() != nil: // close has left the client to this
		if l.client != nil {
			l.client.Close()
		}
		return
	case err != nil:
		l.pause = min(2*l.pause, maxPause)
	default:
		l.pause = minPause
	}
	l.give(err == nil)
}

// close closes the lane. A request that is under way ends with an error.
func (l *lane) close() {
	l.mu.Lock()
	l.end()
	dialing := l.state.Load() == laneDialing
	l.mu.Unlock()
	l.hangUp()
	if !dialing && l.client != nil {
		l.client.Close()
	}
}
