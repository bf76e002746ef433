package faults

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// openDivided returns a client whose subscription passes a proxy, and whose requests do not.
func openDivided(t testing.TB, s *redistest.Server, p *wire.Proxy, o redlatch.Options) *redlatch.Client {
	t.Helper()
	return wire.Wrap(t, wire.Divided{Conn: wire.Dial(t, s.Addr()), Subscriptions: wire.Dial(t, p.Listen)}, o)
}

// TestForceWhileDeaf: a lock is taken by force, and another gets a waiter, while the subscription of
// the holders is down. They find out when it is back, and not a third of their TTL later.
func TestForceWhileDeaf(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	o := help.Brisk(help.Lasting)
	admin, c := locktest.Open(t, s.URL(), o), openDivided(t, s, p, o)
	help.Hearing(t, s, c)
	robbed, wanted := locktest.Lock(t, c.Mutex("a")), locktest.Lock(t, c.Mutex("b"))
	told := wanted.Wanted()
	locktest.Eventually(t, "the wish is in Redis", func() bool { return s.Do("ZCARD", help.ClientsKey("b")) == "1" })
	p.Stop()
	locktest.Eventually(t, "nobody listens", func() bool { return !help.Hears(s, c) })
	check.OK(t, "ForceRelease", check.ErrorOf(admin.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})))
	next := help.GoLock(t.Context(), admin.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	check.That(t, robbed.Held(), "the holder knows by another way, which makes this test an easy one")
	check.Must(t, p.Start() == nil, "the proxy does not start again")
	help.Receive(t, robbed.Context().Done(), "the loss of what was taken by force")
	help.Receive(t, told, "the word that the lock is waited for")
	locktest.Release(t, wanted)
	locktest.Release(t, help.Await(t, next))
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
	s, holder := locktest.Start(t, help.Sluggish())
	direct, arrived, open := wire.Dial(t, s.Addr()), make(chan struct{}, 16), make(chan struct{})
	replyWaits := func(ctx context.Context, calls ...conn.Call) []conn.Result {
		results := direct.Eval(ctx, calls...)
		if wire.Runs(calls, "mutex await") {
			arrived <- struct{}{}
			<-open
		}
		return results
	}
	asks := &wire.Counting{Conn: wire.Through{Conn: direct, Make: replyWaits}}
	over := &heard{Conn: asks, told: make(chan string, 16)}
	c := wire.Wrap(t, over, help.Sluggish())
	l := locktest.Lock(t, holder.Mutex("a"))
	result := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Eventually(t, "the waiter listens", func() bool { return help.Hears(s, c) })
	ticket := strings.Split(s.Do("ZRANGE", help.QueueKey("a"), "0", "0"), "\t")
	word := strings.Join([]string{"first", "0", ticket[len(ticket)-1]}, "\t")
	s.Do("PUBLISH", help.GrantsChannel(c), word)
	help.Receive(t, arrived, "the reply to the poll")
	for len(over.told) > 0 {
		<-over.told
	}
	s.Do("PUBLISH", help.GrantsChannel(c), word)
	if got := help.Receive(t, over.told, "the message"); got != word {
		t.Fatalf("the client heard %q, want %q", got, word)
	}
	// The client asks some milliseconds later. Where the reply comes before that, the test is an easy one.
	time.Sleep(100 * time.Millisecond)
	close(open)
	locktest.Eventually(t, "another poll", func() bool { return asks.Count("mutex await") > 1 })
	locktest.Release(t, l)
	locktest.Release(t, help.Await(t, result))
}
