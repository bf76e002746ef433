package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// closable is a server that a client may close.
type closable struct{ *answers.Server }

func (closable) Close() error { return nil }

const (
	holder, waiter = "rl-x-1~", "rl-x-2"
	granted        = 9 // the token that a poll tells
	heartbeat      = 5 * time.Second
)

// FuzzHear has a client that holds a lease, and waits for another lock, hear what any program may
// publish on its channel, a message a line. The server says that it holds the one lock, and is let
// into the other. So the lease stays, the wait ends within a heartbeat, and nothing is given up.
func FuzzHear(f *testing.F) {
	for _, seed := range []string{
		"", "grant", "grant\t1\t\trl-a-1", "grant\tx\t\to", "grant\t1", "revoke", "\t\t\t\t", "grant\t9223372036854775808\t\to",
		"grant\t7\t\t" + waiter, "grant\t7\t\t" + holder, "grant\t-1\t\t" + waiter, "first\t250\t" + waiter, "first\t9223372036854775807\t" + waiter,
		"first\t-9223372036854775808\t" + waiter, "first\t9223372036854776\t" + waiter, "revoke\t" + holder, "revoke\t" + holder + "\t5\t{}\nrevoke\t" + holder, "revoke\t" + waiter, "wanted\t" + holder,
		"asked\t1\t" + holder, "asked\t0\t" + holder + "\nwanted\t" + waiter, "zero\t1\tp:count", "zero\t0\tp:count", "free\t" + waiter,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, messages string) {
		synctest.Test(t, func(t *testing.T) { hears(t, strings.Split(messages, "\n")) })
	})
}

// opened returns a client over a server, which the test ends, and makes locks.
func opened(t *testing.T, c conn.Conn) (e *Engine, on func(name string) *lock.Lock) {
	t.Helper()
	e = New(c, Config{Prefix: "p:", Heartbeat: heartbeat, RequestTimeout: time.Second, FenceTTL: time.Hour}, Words{
		Tell:    func(context.Context, *lock.Lock, lock.Event) {},
		Lost:    func(*lock.Lock, string, int64, lock.Loss) error { return fault.ErrNotHeld },
		Refusal: func(_ *lock.Lock, reason string) error { return errors.New(reason) },
	}, clock.Now)
	t.Cleanup(func() {
		e.Stop()
		check.Nil(t, "Close", e.Close())
	})
	return e, func(name string) *lock.Lock {
		return &lock.Lock{
			Subject: ask.Subject{Kind: script.Mutex, Name: name, Keys: check.Value(keys.Of("p:", name)).OK(t)}, Client: "x",
			FenceTTL: time.Hour, Terms: lock.Terms{TTL: 10 * time.Second, Renews: true},
		}
	}
}

func hears(t *testing.T, messages []string) {
	s := answers.New(func(ctx context.Context, verb string, call conn.Call) conn.Result {
		if verb != "await" {
			return answers.Yes(ctx, verb, call)
		}
		in := conn.Reply{List: []conn.Reply{{Int: 1}, {Int: granted}, {}}}
		return conn.Result{Reply: conn.Reply{List: []conn.Reply{{Int: 60_000}, {}, {}, {Text: "other"}, {}, in}}}
	})
	e, on := opened(t, closable{s})
	held := e.Keeper.Begin(on("held"), 1, t.Context(), lock.Grant{Owner: holder, Token: 7, Sent: clock.Now(), TTL: 10 * time.Second}, clock.Now())
	held.Wanted()
	wanted := on("wanted")
	e.Line.Listen(t.Context(), wanted)
	ticket, address := e.Line.Ticket(wanted, waiter)
	w := e.Line.Add(wanted, nil, waiter, ticket, address, clock.Now())
	e.Line.Place(w, script.Standing{Arrival: 1, First: true, Remaining: time.Minute}, ask.Answer{Sent: clock.Now()})
	e.Counts.Add("p:count", 1)
	e.tries.Add(waiter)

	mayGrant := false
	for _, m := range messages {
		parsed := script.ParseMessage(m)
		mayGrant = mayGrant || parsed.Verb == script.MessageGrant && parsed.Owner == waiter
		e.hear(m)
	}
	select {
	case g := <-w.Granted:
		check.That(t, g.Err == nil && (g.Token == granted || mayGrant && g.Token > 0), "after %q the wait ends with %+v", messages, g)
	case <-time.After(heartbeat + time.Second):
		t.Errorf("after %q the waiter asks for longer than a heartbeat", messages)
	}
	time.Sleep(15 * time.Second) // longer than the lease without extends
	check.That(t, held.Held(), "the lease is lost by %q: %v", messages, held.Err())
	check.That(t, e.Cleanup.Len() == 0, "hear(%q) left %d releases to send, want none: this client gave up nothing", messages, e.Cleanup.Len())
}

// cluster is a server where names have subscriptions of their own, which cut breaks.
type cluster struct {
	closable
	cut chan struct{}
}

func (cluster) Target() conn.Target { return conn.Target{Addr: "there", Cluster: true} }

func (c cluster) SubscribeSharded(ctx context.Context, _ string, up func(), _ func(string)) error {
	up()
	select {
	case <-ctx.Done():
	case <-c.cut:
	}
	return errors.New("the connection is gone")
}

// TestHearsOfWhatItHolds: in a cluster, a client goes on hearing of a name that it has waited for,
// as long as it holds it, and as long as an older copy of the data may name it as the holder. So it
// does when the owner has entered again, and has left the outer entry.
func TestHearsOfWhatItHolds(t *testing.T) {
	for _, kind := range []*script.Kind{script.Mutex, script.Reentrant} {
		synctest.Test(t, func(t *testing.T) {
			e, on := opened(t, cluster{closable: closable{answers.New(answers.Yes)}})
			held := on("held")
			held.TTL, held.Kind = time.Minute, kind
			hears := func() bool { return e.Listener.For(held.Keys.State()).Sharded() }
			e.Line.Listen(t.Context(), held)
			if kind == script.Reentrant {
				held.Param = "0:me"
			}
			l := e.Keeper.Begin(held, 1, t.Context(), lock.Grant{Owner: holder, Token: 7, Sent: clock.Now(), TTL: time.Minute}, clock.Now())
			if kind == script.Reentrant {
				inner, _ := e.Keeper.Reenter(t.Context(), held, l.NamedOwner(), 0, 2, clock.Now())
				inner.Entered()
				check.OK(t, "Release of the outer entry", l.Release(t.Context()))
				l = inner
			}
			time.Sleep(time.Hour)
			check.That(t, hears(), "it does not hear of a name that it holds: %s", kind.Name)
			check.OK(t, "Release", l.Release(t.Context()))
			time.Sleep(time.Minute - time.Second)
			check.That(t, hears(), "it does not hear of a name that it has released lately: %s", kind.Name)
			time.Sleep(time.Minute)
			check.That(t, !hears(), "it hears of a name that it has released long ago: %s", kind.Name)
		})
	}
}

// TestReleasedAgainAtEachReturn: each time that the subscription of a name is back, the server may
// be one that does not know of a release, however short the time since the last.
func TestReleasedAgainAtEachReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := cluster{closable{answers.New(answers.Yes)}, make(chan struct{})}
		e, on := opened(t, s)
		held := on("held")
		e.Line.Listen(t.Context(), held)
		l := e.Keeper.Begin(held, 1, t.Context(), lock.Grant{Owner: holder, Token: 7, Sent: clock.Now(), TTL: held.TTL}, clock.Now())
		check.OK(t, "Release", l.Release(t.Context()))
		for again := range 3 {
			check.Equal(t, s.Count("release"), 1+again, "releases")
			s.cut <- struct{}{}
			time.Sleep(time.Second)
		}
	})
}
