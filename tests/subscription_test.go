package tests

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/subscribe"
)

// channel is where a client hears of its grants.
func channel(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:grants" }

// hearing has a client wait once, so that its subscription is up.
func hearing(t testing.TB, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	name := "hearing " + c.ID()
	s.Do("SET", stateKey(name), "somebody")
	result := goLock(t.Context(), c.Mutex(name))
	eventually(t, "the subscription is up", func() bool { return hears(s, c) })
	s.Do("DEL", stateKey(name))
	release(t, await(t, result))
}

func hears(s *redistest.Server, c *redlatch.Client) bool {
	return s.Do("PUBSUB", "NUMSUB", channel(c)) == channel(c)+"\n1"
}

// openDivided returns a client whose subscription passes a proxy, and whose requests do not.
func openDivided(t testing.TB, s *redistest.Server, p *proxy, o redlatch.Options) *redlatch.Client {
	t.Helper()
	return wrap(t, divided{dial(t, s.Addr()), dial(t, p.Listen)}, o)
}

// TestSubscriptionDroppedInLine: godisson subscribes after its try and never looks again;
// Redisson's waiters slept to the end of the lease (redisson#5761, rueidislock#602).
func TestSubscriptionDroppedInLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	for range 5 {
		held := lock(t, a.Mutex("a"))
		result := goLock(t.Context(), b.Mutex("a"))
		queued(t, s, "a", 1)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		release(t, held)
		release(t, await(t, result))
	}
	awaitFree(t, s, "a")
}

// TestGrantWhileDeaf has the subscription down for as long as it takes: the waiter must ask by
// itself.
func TestGrantWhileDeaf(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	a, b := open(t, s.URL(), sluggish()), openDivided(t, s, p, sluggish())
	hearing(t, s, b)
	held := lock(t, a.Mutex("a"))
	result := goLock(t.Context(), b.Mutex("a"))
	queued(t, s, "a", 1)
	p.Stop()
	eventually(t, "nobody listens", func() bool { return !hears(s, b) })
	token := held.Token()
	release(t, held)
	l := await(t, result)
	if l.Token() <= token {
		t.Errorf("token %d after %d, want more", l.Token(), token)
	}
	release(t, l)
}

// TestGrantIntoADeadConnection has messages vanish without anybody noticing. A heartbeat finds the
// grant.
func TestGrantIntoADeadConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	o := attentive()
	a, b := open(t, s.URL(), o), openDivided(t, s, p, o)
	hearing(t, s, b)
	wantHandOver(t, s, a, b, func() { p.swallow(replies) })
}

// wantHandOver has b wait for a mutex that a holds, and be granted it after that harm, so that it
// does not hear of it. It must find the grant.
func wantHandOver(t *testing.T, s *redistest.Server, a, b *redlatch.Client, harm func()) {
	t.Helper()
	held := lock(t, a.Mutex("a"))
	result := goLock(t.Context(), b.Mutex("a"))
	queued(t, s, "a", 1)
	owner := line(s, "a")[0]
	harm()
	release(t, held)
	l := await(t, result)
	if l.Owner() != owner {
		t.Errorf("owner %s, want %s, which the server let in when it published", l.Owner(), owner)
	}
	wantSoundDeadline(t, s, l)
	release(t, l)
}

func TestSubscriptionsKilledAllTheTime(t *testing.T) {
	t.Parallel()
	const clients, workers, turns = 3, 3, 12
	s := redistest.Start(t)
	over := make(chan struct{})
	var wg, killer sync.WaitGroup
	killer.Go(func() {
		for tick := time.NewTicker(7 * time.Millisecond); ; {
			select {
			case <-over:
				tick.Stop()
				return
			case <-tick.C:
				_, _ = s.DoErr("CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
	})
	var last highWater
	for range clients {
		m := open(t, s.URL(), sluggish()).Mutex("a")
		for range workers {
			wg.Go(func() {
				for range turns {
					l, err := m.Lock(within(t, patience))
					if err != nil {
						t.Errorf("Lock = %v", err)
						return
					}
					if token := l.Token(); !last.admit(token) {
						t.Errorf("token %d is not the largest so far", token)
					}
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	close(over)
	killer.Wait()
	awaitFree(t, s, "a")
}

// TestWaitingWithoutPubSub has a user who may use every key and command but no channel, as on
// servers that offer no publish/subscribe (asynq#1095).
func TestWaitingWithoutPubSub(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, "right to a channel that could be withheld")
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels")
	url := "redis://deaf:secret@" + s.Addr()
	a, b := open(t, url, inOrder(sluggish())), open(t, url, inOrder(sluggish()))
	for range 3 {
		held := lock(t, a.Mutex("a"))
		results := make(chan outcome, 2)
		for _, c := range []*redlatch.Client{b, a} {
			go func() {
				l, err := c.Mutex("a").Lock(within(t, patience))
				results <- outcome{l, err}
			}()
		}
		queued(t, s, "a", 2)
		release(t, held)
		release(t, await(t, results))
		release(t, await(t, results))
	}
	awaitFree(t, s, "a")
}

// heard is a connection that tells of each message, once the client has heard it.
type heard struct {
	conn.Conn
	told chan string
}

func (h *heard) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	return h.Conn.Subscribe(ctx, channel, up, func(payload string) {
		message(payload)
		h.told <- payload
	})
}

// TestWordToAskDuringAPoll: Redis has answered a poll, and then tells the first in line to ask at
// once. The waiter hears that before it has the reply. It must ask again, not wait for its next
// heartbeat.
func TestWordToAskDuringAPoll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := open(t, s.URL(), sluggish())
	gate := newGated(dial(t, s.Addr()), "mutex await")
	asks := &counting{Conn: gate}
	over := &heard{Conn: asks, told: make(chan string, 16)}
	c := wrap(t, over, sluggish())
	l := lock(t, holder.Mutex("a"))
	result := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 1)
	eventually(t, "the waiter listens", func() bool { return hears(s, c) })
	ticket := strings.Split(s.Do("ZRANGE", queueKey("a"), "0", "0"), "\t")
	word := strings.Join([]string{"first", "0", ticket[len(ticket)-1]}, "\t")
	s.Do("PUBLISH", channel(c), word)
	receive(t, gate.arrived, "the reply to the poll")
	for len(over.told) > 0 {
		<-over.told
	}
	s.Do("PUBLISH", channel(c), word)
	if got := receive(t, over.told, "the message"); got != word {
		t.Fatalf("the client heard %q, want %q", got, word)
	}
	close(gate.open)
	eventually(t, "another poll", func() bool { return asks.count("mutex await") > 1 })
	release(t, l)
	release(t, await(t, result))
}

// confirming is a connection that confirms each subscription, and can do nothing else.
type confirming struct{ conn.Conn }

func (confirming) Target() conn.Target { return conn.Target{} }

func (confirming) Subscribe(ctx context.Context, _ string, up func(), _ func(string)) error {
	up()
	<-ctx.Done()
	return ctx.Err()
}

// TestSubscriptionCountsAgain: a server that did not count a subscription is taken to count it again
// after a minute, by the clock that went further. A wall clock that is set back does not put that
// off, and the sleep of a suspended machine, which the wall clock alone tells, counts.
func TestSubscriptionCountsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // of the wall clock
		now := func() clock.Reading { return clock.Now().Skewed(time.Duration(ahead.Load())) }
		ctx, end := context.WithCancel(t.Context())
		entries := schedule.Start(now, func() {})
		l := subscribe.New(ctx, confirming{}, "channel", time.Second, time.Minute, entries, now, subscribe.Handler{
			Message: func(string) {}, Changed: func(*subscribe.Subscription) {}, InUse: func(string) bool { return true },
		})
		l.ConnectPlain(ctx)
		s := l.Plain()
		want := func(when string, counted bool) {
			t.Helper()
			if s.Counted() != counted {
				t.Errorf("%s: Counted = %v, want %v", when, !counted, counted)
			}
		}
		want("at first", true)
		s.MarkUncounted()
		want("when it was missed", false)
		ahead.Store(int64(-24 * time.Hour))
		time.Sleep(59 * time.Second)
		want("59s later, with a wall clock that was set back", false)
		time.Sleep(2 * time.Second)
		want("61s later, with a wall clock that was set back", true)
		s.MarkUncounted()
		want("when it was missed again", false)
		ahead.Add(int64(61 * time.Second))
		want("when the machine has slept for 61s", true)
		end()
		l.Wait()
		entries.Stop()
	})
}
