package conntest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// noticed is how long a server that stopped answering may go unnoticed.
const noticed = 15 * time.Second

// listener is one running Subscribe.
type listener struct {
	t        *testing.T
	stop     context.CancelFunc
	ups      atomic.Int32
	up       chan struct{} // closed by the first up
	messages chan string
	ended    chan error
}

// subscribeFunc is a method of [conn.Conn].
type subscribeFunc func(ctx context.Context, channel string, up func(), message func(payload string)) error

// listen starts to subscribe and returns at once.
func listen(t *testing.T, subscribe subscribeFunc, channel string) *listener {
	ctx, stop := context.WithCancel(t.Context())
	l := &listener{t: t, stop: stop, up: make(chan struct{}), messages: make(chan string, 10_000), ended: make(chan error, 1)}
	t.Cleanup(stop)
	go func() {
		l.ended <- subscribe(ctx, channel, l.confirm, func(payload string) { l.messages <- payload })
	}()
	return l
}

func (l *listener) confirm() {
	if l.ups.Add(1) == 1 {
		close(l.up)
	}
}

// heard subscribes and returns once that is confirmed.
func heard(t *testing.T, subscribe subscribeFunc, channel string) *listener {
	t.Helper()
	l := listen(t, subscribe, channel)
	select {
	case <-l.up:
	case err := <-l.ended:
		t.Fatalf("Subscribe(%s) = %v before it was up", channel, err)
	case <-time.After(patience):
		t.Fatalf("Subscribe(%s) is not up after %v", channel, patience)
	}
	return l
}

// heardAgain subscribes until that succeeds.
func heardAgain(t *testing.T, what string, subscribe subscribeFunc, channel string) (l *listener) {
	t.Helper()
	eventually(t, what, func() error {
		l = listen(t, subscribe, channel)
		select {
		case <-l.up:
			return nil
		case err := <-l.ended:
			return err
		}
	})
	return l
}

// want receives these messages, in this order.
func (l *listener) want(messages ...string) {
	l.t.Helper()
	for i, want := range messages {
		select {
		case got := <-l.messages:
			check.Must(l.t, got == want, "message %d = %q, want %q", i, got, want)
		case err := <-l.ended:
			l.t.Fatalf("ended with %v instead of message %d, %q", err, i, want)
		case <-time.After(patience):
			l.t.Fatalf("no message %d, %q, within %v", i, want, patience)
		}
	}
}

// end returns why Subscribe ended, and checks that it was confirmed once.
func (l *listener) end(limit time.Duration) error {
	l.t.Helper()
	start := time.Now()
	select {
	case err := <-l.ended:
		check.Equal(l.t, l.ups.Load(), 1, "how often up was called")
		return err
	case <-time.After(limit + patience):
		l.t.Fatalf("Subscribe has not returned %v after it had to", time.Since(start)-limit)
		return nil
	}
}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = strconv.Itoa(i)
	}
	return all
}

func (s suite) subscribeDeliversInOrder(t *testing.T) {
	server, c := s.start(t)
	l := heard(t, c.Subscribe, "channel")
	binary := "\x00\r\n\xff ünï"
	server.Do("PUBLISH", "channel", binary)
	server.Do("PUBLISH", "other", "not for us")
	server.Do("PUBLISH", "channel", "")
	l.want(binary, "")

	// Bursts come from scripts, as grants do.
	burst := conn.NewScript("burst", "for i = 0, ARGV[1] - 1 do redis.call('PUBLISH', KEYS[1], i) end")
	for range 5 {
		eval(t, c, conn.Call{Script: burst, Keys: []string{"channel"}, Args: []string{"2000"}})
	}
	l.want(slices.Repeat(numbers(2000), 5)...)
	l.stop()
	check.Error(t, "Subscribe", l.end(prompt), context.Canceled)
}

// subscribeMissesNothingAfterUp publishes the moment that up is called, while Subscribe is still
// busy with it.
func (s suite) subscribeMissesNothingAfterUp(t *testing.T) {
	server, c := s.start(t)
	for i := range 20 {
		l := listen(t, c.Subscribe, "channel")
		select {
		case <-l.up:
		case err := <-l.ended:
			t.Fatalf("Subscribe = %v", err)
		}
		want := strconv.Itoa(i)
		n := server.Do("PUBLISH", "channel", want)
		check.Must(t, n == "1", "%s subscribers after up, want 1", n)
		l.want(want)
		l.stop()
		eventually(t, "the subscription's end", func() error { return subscribers(server, "channel", 0) })
	}
}

func (s suite) subscribeSeveralAtOnce(t *testing.T) {
	server, c := s.start(t)
	one, two, again := heard(t, c.Subscribe, "one"), heard(t, c.Subscribe, "two"), heard(t, c.Subscribe, "one")
	server.Do("PUBLISH", "one", "1")
	server.Do("PUBLISH", "two", "2")
	one.want("1")
	again.want("1")
	two.want("2")

	one.stop()
	_ = one.end(prompt)
	eventually(t, "the end of one of three", func() error { return subscribers(server, "one", 1) })
	server.Do("PUBLISH", "one", "3")
	server.Do("PUBLISH", "two", "4")
	again.want("3")
	two.want("4")
}

func (s suite) subscribeEndsWithItsContext(t *testing.T) {
	_, c := s.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	promptly(t, "a subscription with a deadline", func() {
		check.Error(t, "Subscribe", c.Subscribe(ctx, "channel", func() {}, func(string) {}), context.DeadlineExceeded)
	})
	l := heard(t, c.Subscribe, "channel")
	promptly(t, "a canceled subscription", func() {
		l.stop()
		check.Error(t, "Subscribe", l.end(prompt), context.Canceled)
	})
}

// subscribeAgainAtOnce begins a subscription while one to the same channel ends: a Conn that has
// one subscription for both must not end it under the new one.
func (s suite) subscribeAgainAtOnce(t *testing.T) {
	server, c := s.start(t)
	wantHeardAgain(t, c.Subscribe, func(message string) { server.Do("PUBLISH", "channel", message) })
}

// wantHeardAgain begins a subscription to "channel" at many moments of the end of another.
func wantHeardAgain(t *testing.T, subscribe subscribeFunc, publish func(message string)) {
	t.Helper()
	l := heard(t, subscribe, "channel")
	for i := range 100 {
		old := l
		old.stop()
		time.Sleep(time.Duration(i) * 5 * time.Microsecond)
		l = heardAgain(t, "another subscription", subscribe, "channel")
		_ = old.end(prompt)
		publish(strconv.Itoa(i))
		l.want(strconv.Itoa(i))
	}
}

// subscribeLeavesNothingBehind wants each ended subscription gone from the server, and its
// connection closed or free for others.
func (s suite) subscribeLeavesNothingBehind(t *testing.T) {
	server, c := s.start(t)
	for range 30 {
		l := heard(t, c.Subscribe, "channel")
		l.stop()
		_ = l.end(prompt)
	}
	for range 30 { // given up at some moment before it is up
		l := listen(t, c.Subscribe, "channel")
		l.stop()
		<-l.ended
	}
	eventually(t, "the end of all subscriptions", func() error {
		if list := server.Do("CLIENT", "LIST", "TYPE", "pubsub"); list != "" {
			return fmt.Errorf("still subscribed: %s", list)
		}
		if n := strings.Count(server.Do("CLIENT", "LIST"), "\n"); n > 20 {
			return fmt.Errorf("%d connections are open", n)
		}
		return subscribers(server, "channel", 0)
	})
}

func subscribers(server *redistest.Server, channel string, want int) error {
	if got := server.Do("PUBSUB", "NUMSUB", channel); got != channel+"\n"+strconv.Itoa(want) {
		return fmt.Errorf("PUBSUB NUMSUB = %q, want %d", got, want)
	}
	return nil
}

func (s suite) subscribeReportsACutConnection(t *testing.T) {
	server, c := s.start(t)
	l := heard(t, c.Subscribe, "channel")
	server.Do("PUBLISH", "channel", "last")
	server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	promptly(t, "a cut subscription", func() { wantNoAnswer(t, t.Context(), "Subscribe on a cut connection", l.end(prompt)) })
	check.Equal(t, <-l.messages, "last", "the message from before the cut")
	stats := server.Do("INFO", "commandstats")
	check.That(t, strings.Contains(stats, "cmdstat_subscribe:calls=1,"), "it has subscribed again by itself: %s", stats)
	server.Do("PUBLISH", "channel", "missed")
	l = heard(t, c.Subscribe, "channel")
	server.Do("PUBLISH", "channel", "heard")
	l.want("heard")
}

func (s suite) subscribeReportsADeadServer(t *testing.T) {
	server, c := s.start(t)
	l := heard(t, c.Subscribe, "channel")
	server.Kill()
	promptly(t, "a subscription to a dead server", func() { wantNoAnswer(t, t.Context(), "Subscribe", l.end(prompt)) })
	server.Restart()
	l = heardAgain(t, "a new subscription", c.Subscribe, "channel")
	server.Do("PUBLISH", "channel", "heard")
	l.want("heard")
}

func (s suite) subscribeNoticesAFrozenServer(t *testing.T) {
	server := redistest.Start(t)
	c := s.connect(t, Server{Addr: server.Addr(), Silent: true})
	l := heard(t, c.Subscribe, "channel")
	given := heard(t, c.Subscribe, "given up")
	server.Pause()
	promptly(t, "a canceled subscription to a frozen server", func() {
		given.stop()
		check.Error(t, "Subscribe", given.end(prompt), context.Canceled)
	})
	took := check.Took(func() { wantNoAnswer(t, t.Context(), "Subscribe to a frozen server", l.end(noticed)) })
	check.That(t, took <= noticed, "it took %v to notice, want less than %v", took.Round(time.Millisecond), noticed)
	server.Resume()
	l = heard(t, c.Subscribe, "channel")
	server.Do("PUBLISH", "channel", "heard")
	l.want("heard")
}
