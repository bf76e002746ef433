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

// lane is a connection that one request at a time has for itself, beside the one that requests
// share. It is for a request that finds no other under way. Rueidis writes and reads there on the
// goroutine of the caller. On the shared one the caller wakes a writer, the server a reader, and
// that the caller, which for one request costs more than all else.
//
// Nothing but its deadline, or the end of the connection, ends a read on the goroutine of the
// caller. So a request that is given up costs the lane, and another is dialed in the background.
//
//	closed --- dialAfter requests ---> dialing --- answered ---> free <-- take, give --> taken
//	   ^                                  |                                                |
//	   +------------- no answer ----------+-------------------- no answer -----------------+
type lane struct {
	options rueidis.ClientOption
	life    context.Context // ends with close
	end     context.CancelFunc

	state  atomic.Int32
	missed atomic.Int32             // requests that found it closed, since it was dialed last
	socket atomic.Pointer[net.Conn] // that was dialed last

	mu     sync.Mutex // guards what is below
	client rueidis.Client
	dialed time.Time     // when it was dialed last
	pause  time.Duration // until it is dialed again
	work   sync.WaitGroup
}

// The states of a lane.
const (
	laneClosed int32 = iota
	laneDialing
	laneFree
	laneTaken
)

// dialAfter is how many requests miss a lane before it is dialed. A program that takes one lock and
// ends needs none.
const dialAfter = 16

// A lane that cannot be had is dialed again after a pause, which doubles.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// newLane returns a lane to the server of these options, which are those of the shared connection.
func newLane(o rueidis.ClientOption) *lane {
	l := &lane{pause: minPause}
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
	if l.state.CompareAndSwap(laneFree, laneTaken) {
		return true
	}
	if l.state.Load() == laneClosed && l.missed.Add(1) >= dialAfter {
		l.dial()
	}
	return false
}

// give gives the lane back, after a request that was answered or not.
func (l *lane) give(answered bool) {
	if answered {
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
	l.work.Go(func() {
		err := l.open()
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			l.pause = minPause
		} else {
			l.pause = min(2*l.pause, maxPause)
		}
		l.give(err == nil)
	})
}

// open returns nil if the lane is connected. It runs once at a time, and no request has the lane.
func (l *lane) open() (err error) {
	if l.client == nil {
		l.client, err = rueidis.NewClient(l.options)
		return err
	}
	return l.client.Do(l.life, l.client.B().Ping().Build()).Error()
}

// close closes the lane, and waits for what dials it.
func (l *lane) close() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.hangUp()
	l.work.Wait()
	if l.client != nil {
		l.client.Close()
	}
}
