// Package subscribe keeps a client's subscriptions up.
//
//	Connect --> subscribing --- confirmed ---> connected --- lost ---> waiting to retry
//	                 ^                             |                          |
//	                 |                          messages                      |
//	                 +--------------------------------------------------------+
//	a sharded one that is not needed for a while, or all when the client is closed --> ended
//
// A client has one plain subscription, which starts with the first attempt that has to wait. In a
// cluster, from Redis 7.0 on, it has another one for each name that it has waited for, for as long
// as it waits for the name or holds it, and a while longer: a sharded channel is in the slot of the
// name, while a plain message would go to all nodes. The sharded ones of a node share a connection
// if the adapter can do that: internal/driver/trunk orders their requests.
//
// Only speed depends on a subscription. Waiters ask Redis more often while it is not connected. A
// connection that falls silent counts as connected until the adapter finds it dead, within 15 s
// (conn.Conn): internal/link/dial sets the pings of rueidis, redlatchgoredis/subscribe.go sends its
// own.
package subscribe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
)

// How many names have a subscription of their own; the others share the plain one.
const (
	maxSharded         = 64     // each over its own connection
	maxShardedTogether = 16_384 // if those of one node share a connection
)

// Handler has callbacks for what happens on subscriptions. Its functions are called while a lock of
// that subscription is held, so they must not block.
type Handler struct {
	Message func(text string)     // for each message
	Changed func(s *Subscription) // when s was connected or lost: messages may have been missed
	InUse   func(key string) bool // whether the client needs the subscription of this name
}

// Listener is the subscriptions of one client. It is safe for concurrent use.
type Listener struct {
	ctx      context.Context // done when the client is closed
	conn     conn.Conn
	timeout  time.Duration // for Connect
	idle     time.Duration // how long a sharded subscription outlives its last use
	schedule *schedule.Schedule
	now      clock.Clock
	handler  Handler
	plain    *Subscription
	running  sync.WaitGroup
	shards   conn.Sharded // conn, if it can listen to sharded channels; else nil
	most     int          // how many names have a subscription of their own
	unknown  atomic.Bool  // the server does not know sharded channels

	mu      sync.Mutex // guards sharded; before the schedule's
	sharded map[string]*Subscription
}

// Subscription is one channel that a client listens to.
type Subscription struct {
	listener *Listener
	address  string // the channel
	key      string // of the name; "" if it is the plain one
	entry    schedule.Entry
	ctx      context.Context // done when it is not needed any more
	end      context.CancelFunc
	start    sync.Once
	up       atomic.Bool
	sessions atomic.Uint32
	unused   bool                               // the last look found it so; only the schedule's goroutine touches it
	needed   clock.Reading                      // when a waiter last connected; guarded by the listener's mu
	missed   atomic.Pointer[clock.Reading]      // when a server last did not count it though it was up; nil if never
	upAt     atomic.Pointer[clock.Reading]      // when it was last connected; nil if never
	renewed  atomic.Pointer[clock.Reading]      // when a session last ended for that; nil if never
	hangUp   atomic.Pointer[context.CancelFunc] // ends the session
	settle   sync.Once
	settled  chan struct{} // closed when it was connected for the first time, or cannot be
}

// New returns the subscriptions of a client whose own channel is address. It sends nothing. All of
// them end when ctx is done.
func New(
	ctx context.Context, c conn.Conn, address string, timeout, idle time.Duration,
	s *schedule.Schedule, now clock.Clock, h Handler,
) *Listener {
	l := &Listener{
		ctx: ctx, conn: c, timeout: timeout, idle: idle, schedule: s, now: now, handler: h,
		sharded: make(map[string]*Subscription), most: maxSharded,
	}
	l.shards, _ = c.(conn.Sharded)
	if c.Target().ShardsTogether {
		l.most = maxShardedTogether
	}
	l.plain = l.subscription(address, "")
	return l
}

func (l *Listener) subscription(address, key string) *Subscription {
	s := &Subscription{listener: l, address: address, key: key, settled: make(chan struct{})}
	s.entry.Owner = s
	s.ctx, s.end = context.WithCancel(l.ctx)
	return s
}

// Plain returns the subscription to the client's own channel.
func (l *Listener) Plain() *Subscription { return l.plain }

// Sharded reports whether names have subscriptions of their own.
func (l *Listener) Sharded() bool {
	return l.shards != nil && l.conn.Target().Cluster && !l.unknown.Load()
}

// For returns the subscription by which a name is heard: its own if it has one, or else the plain
// one.
func (l *Listener) For(key string) *Subscription {
	if !l.Sharded() {
		return l.plain
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sharded[key]; s != nil {
		return s
	}
	return l.plain
}

// Connect starts the subscription of a name that is about to be waited for, if need be, and gives
// it a moment to be confirmed: a second or the timeout, whichever is shorter. channel is the name's
// sharded channel.
func (l *Listener) Connect(ctx context.Context, key, channel string) {
	s := l.need(key, channel)
	l.connect(ctx, s)
	if s.Sharded() && l.unknown.Load() {
		l.Connect(ctx, key, channel) // over the plain one
	}
}

// ConnectPlain is Connect for the client's own channel.
func (l *Listener) ConnectPlain(ctx context.Context) { l.connect(ctx, l.plain) }

// Start starts the subscription to the client's own channel, and does not wait for it.
func (l *Listener) Start() { l.plain.start.Do(func() { l.running.Go(l.plain.run) }) }

func (l *Listener) connect(ctx context.Context, s *Subscription) {
	s.start.Do(func() { l.running.Go(s.run) })
	if s.Connected() {
		return
	}
	timer := time.NewTimer(min(time.Second, l.timeout))
	defer timer.Stop()
	select {
	case <-s.settled:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// need is For, but first gives the name a subscription of its own if possible.
func (l *Listener) need(key, channel string) *Subscription {
	if !l.Sharded() {
		return l.plain
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sharded[key]; s != nil {
		s.needed = l.now()
		return s
	}
	if len(l.sharded) >= l.most {
		return l.plain
	}
	s := l.subscription(channel, key)
	s.needed = l.now()
	l.sharded[key] = s
	l.schedule.Set(&s.entry, l.now().Time().Add(l.idle), 0)
	return s
}

// Wait returns when all subscriptions have ended. The context of New must be done.
func (l *Listener) Wait() { l.running.Wait() }

// Address returns the channel.
func (s *Subscription) Address() string { return s.address }

// Key returns the key of the name that the subscription is for; "" if it is the plain one.
func (s *Subscription) Key() string { return s.key }

// Sharded reports whether the channel is a sharded one.
func (s *Subscription) Sharded() bool { return s.key != "" }

// Connected reports whether a message would be heard now.
func (s *Subscription) Connected() bool { return s.up.Load() }

// Session returns a number that changes each time the subscription is lost and connected again; 0
// if it is not connected.
func (s *Subscription) Session() uint32 {
	n := s.sessions.Load()
	if !s.Connected() {
		return 0
	}
	return n
}

// UpSince reports whether the subscription is up, and was never down since then.
func (s *Subscription) UpSince(then clock.Reading) bool {
	at := s.upAt.Load()
	return s.Connected() && !at.Time().After(then.Time())
}

// uncounted is how long a server that did not count a subscription is assumed not to count it.
const uncounted = time.Minute

// MarkUncounted notes that the server of the name does not count the subscription, if it is up:
// after a failover it may be at the old master, which hears all messages as a replica. The plain one is
// then made again, since its name may lead to the new master. That is done once in a minute, since the
// data may have been lost, and nothing be wrong with the subscription.
func (s *Subscription) MarkUncounted() {
	if !s.Connected() {
		return
	}
	now := s.listener.now()
	s.missed.Store(&now)
	if before := s.renewed.Load(); !s.Sharded() && (before == nil || now.Since(*before) > uncounted) {
		s.renewed.Store(&now)
		(*s.hangUp.Load())()
	}
}

// Counted reports whether the server of the name can count the subscription, as far as is known.
func (s *Subscription) Counted() bool {
	missed := s.missed.Load()
	return missed == nil || s.listener.now().Since(*missed) > uncounted
}

// Due implements [schedule.Owner]. It ends a sharded subscription that two looks in a row find
// unused. A waiter that comes at this moment gets the plain one.
func (s *Subscription) Due(clock.Reading) {
	l := s.listener
	was := s.unused
	s.unused = false
	if l.handler.InUse(s.key) {
		l.schedule.Set(&s.entry, l.now().Time().Add(l.idle), 0)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.idle - l.now().Since(s.needed); left > 0 { // a waiter connected, and may be about to stand in line
		l.schedule.Set(&s.entry, l.now().Time().Add(left), 0)
		return
	}
	if !was { // a lease may begin or be released at this moment: the next look will tell
		s.unused = true
		l.schedule.Set(&s.entry, l.now().Time().Add(l.timeout), 0)
		return
	}
	delete(l.sharded, s.key)
	s.end()
}

// refusedPause is how long a server that refuses a subscription is not asked again: each time may cost a
// connection.
const refusedPause = 5 * time.Second

// run keeps the subscription up until it is not needed any more.
func (s *Subscription) run() {
	l := s.listener
	for n := 0; s.ctx.Err() == nil; n++ {
		err := s.listen()
		if s.up.Swap(false) {
			n = 0
			l.handler.Changed(s)
		}
		if s.Sharded() && retry.Says(err, "unknown command") {
			l.unknown.Store(true)
			s.settle.Do(func() { close(s.settled) })
			return
		}
		pause := retry.Pause(min(n, 4))          // else it would be late after a failover of a second
		if err != nil && !retry.Transient(err) { // not permitted, say: no waiter need wait for it
			s.settle.Do(func() { close(s.settled) })
			pause = retry.Jitter(refusedPause, 0.5)
		}
		retry.Sleep(s.ctx, pause)
	}
}

// listen subscribes, and returns when the subscription has ended. Later calls of the library are
// ignored: they would act for a client that may be closed by then. Why it ended matters only if the
// server does not know the command: waiters find out by asking.
func (s *Subscription) listen() error {
	var mu sync.Mutex
	over := false
	heed := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
		}
	}
	subscribe := s.listener.conn.Subscribe
	if s.Sharded() {
		subscribe = s.listener.shards.SubscribeSharded
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.hangUp.Store(&cancel)
	err := subscribe(ctx, s.address,
		func() { heed(s.connected) },
		func(message string) { heed(func() { s.listener.handler.Message(message) }) })
	heed(func() { over = true })
	return err
}

// connected notes that the server has confirmed the subscription.
func (s *Subscription) connected() {
	s.missed.Store(nil)
	now := s.listener.now()
	s.upAt.Store(&now)
	s.sessions.Add(1) // before it is up: see Session
	s.up.Store(true)
	s.listener.handler.Changed(s) // messages may have been published before that
	// Only now: otherwise, a new waiter would be polled for while it is requesting its place.
	s.settle.Do(func() { close(s.settled) })
}
