package subscribe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

const idle = 15 * time.Second

// server confirms subscriptions after a while, and can drop them or refuse them.
type server struct {
	conn.Conn
	cluster bool
	slow    time.Duration
	refuse  func(sharded bool) error // why a subscription is refused; nil if it is not

	mu   sync.Mutex // guards what is below
	open map[string]*channel
	log  []string // the channels that were subscribed to, in that order
}

type channel struct {
	message func(string)
	drop    context.CancelFunc
}

func (s *server) Target() conn.Target { return conn.Target{Cluster: s.cluster} }

func (s *server) Subscribe(ctx context.Context, address string, up func(), message func(string)) error {
	return s.listen(ctx, false, address, up, message)
}

func (s *server) SubscribeSharded(ctx context.Context, address string, up func(), message func(string)) error {
	return s.listen(ctx, true, address, up, message)
}

func (s *server) listen(ctx context.Context, sharded bool, address string, up func(), message func(string)) error {
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	s.mu.Lock()
	s.log = append(s.log, address)
	s.open[address] = &channel{message, drop}
	s.mu.Unlock()
	if s.refuse != nil {
		if err := s.refuse(sharded); err != nil {
			return err
		}
	}
	select {
	case <-time.After(s.slow):
		up()
	case <-ctx.Done():
		return ctx.Err()
	}
	<-ctx.Done()
	return errors.New("connection lost")
}

func (s *server) channel(address string) *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[address]
}

func (s *server) subscribed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// told is what the handler was told, and what it answers.
type told struct {
	mu       sync.Mutex // guards what is below
	messages []string
	changes  int
	inUse    bool
}

func (h *told) handler() Handler {
	locked := func(f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		f()
	}
	return Handler{
		Message: func(text string) { locked(func() { h.messages = append(h.messages, text) }) },
		Changed: func(*Subscription) { locked(func() { h.changes++ }) },
		InUse: func(string) (inUse bool) {
			locked(func() { inUse = h.inUse })
			return inUse
		},
	}
}

func (h *told) use(inUse bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inUse = inUse
}

func (h *told) all() (messages []string, changes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.messages), h.changes
}

// start runs a test in a bubble with a listener at this server.
func start(t *testing.T, s *server, test func(t *testing.T, l *Listener, h *told)) {
	t.Helper()
	startAt(t, s, clock.Now, test)
}

// startAt is start with a clock of its own.
func startAt(t *testing.T, s *server, now func() clock.Reading, test func(t *testing.T, l *Listener, h *told)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s.open = make(map[string]*channel)
		ctx, closeClient := context.WithCancel(t.Context())
		entries := schedule.Start(now, func() {})
		h := &told{}
		l := New(ctx, s, "plain", 3*time.Second, idle, entries, now, h.handler())
		test(t, l, h)
		closeClient()
		entries.Stop()
		l.Wait() // or the bubble says which goroutine is left
	})
}

// TestOnePlainSubscription: starts with the first wait, and serves all names.
func TestOnePlainSubscription(t *testing.T) {
	s := &server{slow: 10 * time.Millisecond}
	start(t, s, func(t *testing.T, l *Listener, h *told) {
		check.That(t, !l.Plain().Connected() && len(s.subscribed()) == 0, "it subscribed before it had to")
		l.Connect(t.Context(), "a", "")
		l.Connect(t.Context(), "b", "")
		if !l.For("a").Connected() || l.For("a") != l.For("b") || len(s.subscribed()) != 1 {
			t.Errorf("connected %v, subscribed to %v, want one subscription", l.For("a").Connected(), s.subscribed())
		}
		s.channel("plain").message("hello")
		if messages, changes := h.all(); !slices.Equal(messages, []string{"hello"}) || changes != 1 {
			t.Errorf("messages %v, %d changes, want one of each", messages, changes)
		}
	})
}

// TestLostSubscriptionComesBack: both the loss and the return are told, since messages may have
// been missed.
func TestLostSubscriptionComesBack(t *testing.T) {
	s := &server{}
	start(t, s, func(t *testing.T, l *Listener, h *told) {
		l.Connect(t.Context(), "a", "")
		late := s.channel("plain")
		late.drop()
		synctest.Wait()
		if _, changes := h.all(); l.Plain().Connected() || changes != 2 {
			t.Errorf("connected %v, %d changes after the loss, want false and 2", l.Plain().Connected(), changes)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, changes := h.all(); !l.Plain().Connected() || changes != 3 {
			t.Errorf("connected %v, %d changes a second later, want true and 3", l.Plain().Connected(), changes)
		}
		late.message("from the connection of before")
		if messages, _ := h.all(); len(messages) != 0 {
			t.Errorf("messages %v of a subscription that is over, want none", messages)
		}
	})
}

// TestConnectIsBounded: a server without publish/subscribe costs a moment, and the context ends it.
func TestConnectIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ patience, want time.Duration }{
		"server that does not confirm": {time.Hour, time.Second},
		"caller in a hurry":            {time.Millisecond, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, &server{slow: time.Hour}, func(t *testing.T, l *Listener, _ *told) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				l.Connect(ctx, "a", "")
				check.Equal(t, time.Since(began), c.want, "it took")
			})
		})
	}
}

// TestConnectOfAUserWithoutTheRight: it costs no waiter a moment.
func TestConnectOfAUserWithoutTheRight(t *testing.T) {
	refuse := func(bool) error { return &conn.ReplyError{Text: "NOPERM No permissions to access a channel"} }
	start(t, &server{refuse: refuse}, func(t *testing.T, l *Listener, _ *told) {
		began := time.Now()
		l.Connect(t.Context(), "a", "")
		l.Connect(t.Context(), "b", "")
		check.Equal(t, time.Since(began), 0, "it took")
	})
}

// TestNamesOfACluster: each has a subscription of its own, up to a bound, until no waiter has
// needed it for a while.
func TestNamesOfACluster(t *testing.T) {
	s := &server{cluster: true}
	start(t, s, func(t *testing.T, l *Listener, h *told) {
		h.use(true)
		for i := range maxSharded {
			name := string(rune('A' + i))
			l.Connect(t.Context(), name, "of "+name)
			if got := l.For(name); !got.Sharded() || got.Address() != "of "+name {
				t.Fatalf("name %d has the subscription %q, want one of its own", i, got.Address())
			}
		}
		l.Connect(t.Context(), "more", "of more")
		if l.For("more") != l.Plain() {
			t.Errorf("one name above the bound has the subscription %q, want the plain one", l.For("more").Address())
		}
		time.Sleep(10 * idle)
		check.That(t, l.For("A").Sharded(), "a subscription ended while a waiter needed it")
		time.Sleep(idle / 2)
		h.use(false) // for one look, as while a lease begins or is released
		time.Sleep(idle/2 + time.Millisecond)
		h.use(true)
		time.Sleep(10 * idle)
		check.That(t, l.For("A").Sharded(), "a subscription ended that one look found unused")
		h.use(false)
		time.Sleep(2 * idle)
		synctest.Wait()
		if got := l.For("A"); got != l.Plain() {
			t.Errorf("a name that no waiter needs has the subscription %q, want the plain one", got.Address())
		}
		l.Connect(t.Context(), "A", "of A")
		check.That(t, l.For("A").Connected(), "it does not come back when it is needed again")
	})
}

// TestConnWithoutShardedChannels: what an adapter cannot do is never asked of it.
func TestConnWithoutShardedChannels(t *testing.T) {
	s := &server{cluster: true, open: make(map[string]*channel)}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		plain := struct{ conn.Conn }{s} // hides SubscribeSharded
		l := New(ctx, plain, "plain", time.Second, idle, schedule.Start(clock.Now, func() {}), clock.Now,
			Handler{Message: func(string) {}, Changed: func(*Subscription) {}, InUse: func(string) bool { return true }})
		l.Connect(t.Context(), "a", "of a")
		if want := []string{"plain"}; !slices.Equal(s.subscribed(), want) || !l.For("a").Connected() {
			t.Errorf("subscribed to %v, want %v", s.subscribed(), want)
		}
		cancel()
		l.Wait()
		l.schedule.Stop()
	})
}

// TestServerWithoutShardedChannels: the first answer says so, and all goes over the plain channel
// from then on.
func TestServerWithoutShardedChannels(t *testing.T) {
	s := &server{cluster: true, refuse: func(sharded bool) error {
		if sharded {
			return &conn.ReplyError{Text: "ERR unknown command 'SSUBSCRIBE'"}
		}
		return nil
	}}
	start(t, s, func(t *testing.T, l *Listener, _ *told) {
		l.Connect(t.Context(), "a", "of a")
		l.Connect(t.Context(), "b", "of b")
		if want := []string{"of a", "plain"}; !slices.Equal(s.subscribed(), want) || !l.For("b").Connected() || l.Sharded() {
			t.Errorf("subscribed to %v, want %v", s.subscribed(), want)
		}
	})
}

// TestSubscriptionOfAWaiterThatIsAboutToCome: the schedule looks whether it is needed when a waiter has
// connected, and is not in line yet.
func TestSubscriptionOfAWaiterThatIsAboutToCome(t *testing.T) {
	start(t, &server{cluster: true}, func(t *testing.T, l *Listener, h *told) {
		h.use(true)
		l.Connect(t.Context(), "A", "of A")
		time.Sleep(idle / 2)
		h.use(false) // the earlier waiter has gone
		l.Connect(t.Context(), "A", "of A")
		l.sharded["A"].Due(clock.Now())
		h.use(true)
		check.That(t, l.For("A").Sharded() && l.For("A").Connected(), "its subscription has ended")
		h.use(false)
		time.Sleep(3 * idle)
		check.That(t, !l.For("A").Sharded(), "a subscription that none uses stays")
	})
}

// TestUncountedIsSubscribedAgain: the subscription stays up at a server that is the master no more. One
// that counts is made instead, once in a minute: perhaps the master has lost the line, and nothing else.
func TestUncountedIsSubscribedAgain(t *testing.T) {
	s := &server{}
	start(t, s, func(t *testing.T, l *Listener, _ *told) {
		l.ConnectPlain(t.Context())
		for range 5 {
			l.Plain().MarkUncounted()
			time.Sleep(5 * time.Second)
		}
		check.Equal(t, len(s.subscribed()), 2, "subscriptions within a minute")
		check.That(t, l.Plain().Connected() && !l.Plain().Counted(), "it is not connected, or counts")
		time.Sleep(2 * uncounted)
		l.Plain().MarkUncounted()
		time.Sleep(time.Second)
		check.Equal(t, len(s.subscribed()), 3, "subscriptions after that")
	})
}

// TestUpSince: a subscription that was lost for a moment was not up all the time.
func TestUpSince(t *testing.T) {
	s := &server{}
	start(t, s, func(t *testing.T, l *Listener, _ *told) {
		check.That(t, !l.Plain().UpSince(clock.Now()), "a subscription that never was is up")
		l.ConnectPlain(t.Context())
		then := clock.Now()
		time.Sleep(time.Second)
		check.That(t, l.Plain().UpSince(then), "it has been up since then")
		s.channel("plain").drop()
		time.Sleep(time.Second)
		check.That(t, l.Plain().UpSince(clock.Now()) && !l.Plain().UpSince(then), "it is not up, or was lost for nobody")
	})
}

// TestRefusedSubscriptionIsRare: a user without the right to a channel was refused three times a second,
// each time over a new connection.
func TestRefusedSubscriptionIsRare(t *testing.T) {
	s := &server{refuse: func(bool) error { return &conn.ReplyError{Text: "NOPERM"} }}
	start(t, s, func(t *testing.T, l *Listener, _ *told) {
		l.ConnectPlain(t.Context())
		time.Sleep(time.Minute)
		n := len(s.subscribed())
		check.That(t, n > 6 && n < 25, "%d subscriptions were tried in a minute, want one in 5s", n)
	})
}

// TestSubscriptionCountsAgain: a server that did not count a subscription is taken to count it again
// after a minute, by the clock that went further. A wall clock that is set back does not put that
// off, and the sleep of a suspended machine, which the wall clock alone tells, counts.
func TestSubscriptionCountsAgain(t *testing.T) {
	var ahead atomic.Int64 // of the wall clock
	now := func() clock.Reading { return clock.Now().Skewed(time.Duration(ahead.Load())) }
	startAt(t, &server{}, now, func(t *testing.T, l *Listener, _ *told) {
		l.ConnectPlain(t.Context())
		s := l.Plain()
		want := func(when string, counted bool) {
			t.Helper()
			check.Equal(t, s.Counted(), counted, "%s, it counts", when)
		}
		miss := func() { // by the new subscription, too
			s.MarkUncounted()
			time.Sleep(time.Second)
			s.MarkUncounted()
		}
		want("at first", true)
		miss()
		want("when it was missed", false)
		ahead.Store(int64(-24 * time.Hour))
		time.Sleep(59 * time.Second)
		want("59s later, with a wall clock that was set back", false)
		time.Sleep(2 * time.Second)
		want("61s later, with a wall clock that was set back", true)
		miss()
		want("when it was missed again", false)
		ahead.Add(int64(61 * time.Second))
		want("when the machine has slept for 61s", true)
	})
}
