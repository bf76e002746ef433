package faults

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestLostReplyToAPlaceInLineIsAdopted: the resent request must find its ticket, not take another.
func TestLostReplyToAPlaceInLineIsAdopted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	o, seen := help.Watched(help.Sluggish())
	c := wire.Behind(t, p, o)
	help.Hearing(t, s, c)
	held := locktest.Lock(t, locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a"))

	p.Swallow(wire.Replies)
	result := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.Eventually(t, "a ticket in line", func() bool { return s.Do("ZCARD", help.QueueKey("a")) == "1" })
	place := s.Do("ZRANGE", help.QueueKey("a"), "0", "-1", "WITHSCORES")
	p.Heal()
	seen.Await(t, redlatch.EventWait, "a", 0)
	if got := s.Do("ZRANGE", help.QueueKey("a"), "0", "-1", "WITHSCORES"); got != place {
		t.Errorf("line after the resend:\n%s\nwant it unchanged:\n%s", got, place)
	}
	token := held.Token()
	locktest.Release(t, held)
	help.WantNext(t, result, token)
	help.AwaitFree(t, s, "a")
	check.That(t, s.Do("EXISTS", help.QueueKey("a"), help.ClientsKey("a")) == "0", "a line is left behind")
}

// leisurely are options of a client whose requests are lost, and are answered in time by a machine
// that pauses.
func leisurely() redlatch.Options {
	o := help.Brisk(help.Lasting)
	o.RequestTimeout = 9 * time.Second
	return o
}

// TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp: redsync's clean-up uses the context that is
// done, so its key stays for the whole TTL; redlock-rb#76 and redis/rueidis#1010 leave it, too.
func TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	acquire := map[string]func(context.Context, *redlatch.Mutex) <-chan help.Outcome{"Lock": help.GoLock, "TryLock": help.GoTryLock}
	for call, acquire := range acquire {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := wire.StartProxy(t, s)
			c := wire.Behind(t, p, leisurely())

			p.Swallow(wire.Replies)
			ctx, cancel := context.WithCancel(t.Context())
			result := acquire(ctx, c.Mutex("a"))
			help.AwaitHolder(t, s, "a")
			cancel()
			if err := help.AwaitError(t, result); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", call, err)
			}
			p.Heal()
			help.AwaitFree(t, s, "a")
		})
	}
}

// TestLostReplyToExtendKeepsTheDeadline: nothing but a reply may move the deadline (rueidislock
// gave its holder 2.5 s beyond the key).
func TestLostReplyToExtendKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	o, seen := help.Watched(help.Brisk(help.Lasting)) // so that no pause of the machine is what ends it, nor its own extends
	l := locktest.Lock(t, wire.Behind(t, p, o).Mutex("a"))
	deadline := l.Deadline()

	p.Swallow(wire.Replies)
	check.Error(t, "Extend whose replies are lost", l.Extend(t.Context()), redlatch.ErrUnreachable)
	seen.Await(t, redlatch.EventJeopardy, "a", 0)
	if !l.Held() || !l.Deadline().Equal(deadline) {
		t.Errorf("in jeopardy: Held %v, deadline moved by %v, want true and 0", l.Held(), l.Deadline().Sub(deadline))
	}
	p.Heal()
	help.Insist(t, "Extend", func() (struct{}, error) { return struct{}{}, l.Extend(t.Context()) })
	if !l.Held() || !l.Deadline().After(deadline) {
		t.Errorf("after the fault: Held %v, deadline moved by %v, want true and more than 0", l.Held(), l.Deadline().Sub(deadline))
	}
	help.WantSoundDeadline(t, s, l)
	locktest.Release(t, l)
}

// TestLostReplyToAnExtendOfItsOwn: the same for an extend that the client sends by itself, which it
// sends again in time.
func TestLostReplyToAnExtendOfItsOwn(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(redlatch.Options{})
		link := &wire.Muted{Conn: s.Conn()}
		l := locktest.Lock(t, wire.Wrap(t, link, o).Mutex("a"))
		deadline := l.Deadline()
		link.Script.Store("mutex renew")
		seen.Await(t, redlatch.EventJeopardy, "a", 0)
		if !l.Held() || !l.Deadline().Equal(deadline) {
			t.Errorf("in jeopardy: Held %v, deadline moved by %v, want true and 0", l.Held(), l.Deadline().Sub(deadline))
		}
		left, err := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a")))
		if expiry := time.Now().Add(time.Duration(left) * time.Millisecond); err != nil || expiry.Before(deadline.Add(time.Second)) {
			t.Errorf("Redis has it end %v after its deadline, %v, want some seconds: the extend took place", expiry.Sub(deadline), err)
		}
		link.Script.Store("")
		seen.Await(t, redlatch.EventExtended, "a", 0)
		if !l.Held() || !l.Deadline().After(deadline) {
			t.Errorf("after the fault: Held %v, deadline moved by %v, want true and more than 0", l.Held(), l.Deadline().Sub(deadline))
		}
		locktest.Release(t, l)
	})
}

// TestLostRepliesToExtendEndTheLeaseAtItsDeadline: every extend takes place, so Redis keeps the
// key, but its holder cannot know.
func TestLostRepliesToExtendEndTheLeaseAtItsDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	l := locktest.Lock(t, wire.Behind(t, p, help.Brisk(4*time.Second)).Mutex("a"))
	p.Swallow(wire.Replies)
	extends := help.CommandCalls(s, "pexpire")
	help.WantLostAtDeadline(t, l)
	check.That(t, help.CommandCalls(s, "pexpire") != extends, "the server extended nothing until the lease was lost")
	p.Heal()
	if lost := (*redlatch.LostError)(nil); !errors.As(l.Release(t.Context()), &lost) {
		t.Error("Release of a lost lease is no LostError")
	}
}

// TestLostReplyToReleaseIsConfirmedByTheResend: Redisson tells real owners "not locked by current
// thread" (redisson#6651).
func TestLostReplyToReleaseIsConfirmedByTheResend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	l := locktest.Lock(t, wire.Behind(t, p, help.Sluggish()).Mutex("a"))
	next := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a"))
	locktest.Eventually(t, "a waiter in line", func() bool { return s.Do("ZCARD", help.QueueKey("a")) == "1" })

	p.Swallow(wire.Replies)
	released := make(chan error, 1)
	go func() { released <- l.Release(context.Background()) }()
	second := help.Await(t, next) // so the release took place
	p.Heal()
	check.Nil(t, "Release", help.Receive(t, released, "Release"))
	if !second.Held() || s.Do("GET", locktest.StateKey("a")) != second.Owner() {
		t.Errorf("the resent release took the lock from the next holder: Held %v", second.Held())
	}
	locktest.Release(t, second)
	help.AwaitFree(t, s, "a")
}

// TestDeadlineIsSoundUnderEveryDelay: etcd's client and rueidislock count from the reply.
func TestDeadlineIsSoundUnderEveryDelay(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{wire.Requests, wire.Replies} {
		for _, delay := range []time.Duration{0, 40 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
			t.Run(direction+" "+delay.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				p := wire.StartProxy(t, s)
				o := help.Brisk(6 * time.Second)
				o.RequestTimeout = 9 * time.Second
				c := wire.Behind(t, p, o)
				near := locktest.Open(t, s.URL(), o)
				help.Hearing(t, s, c)
				p.Delay(direction, delay)

				l := check.Value(c.Mutex("tried").TryLock(t.Context())).OK(t)
				help.WantSoundDeadline(t, s, l)
				check.Nil(t, "Extend", l.Extend(t.Context()))
				help.WantSoundDeadline(t, s, l)

				first := locktest.Lock(t, near.Mutex("waited for"))
				result := help.GoLock(t.Context(), c.Mutex("waited for"))
				locktest.Eventually(t, "a waiter in line", func() bool { return s.Do("ZCARD", help.QueueKey("waited for")) == "1" })
				locktest.Release(t, first)
				granted := help.Await(t, result)
				help.WantSoundDeadline(t, s, granted)
			})
		}
	}
}

// TestReplyLaterThanTheTTLIsNoLease: node-redlock returns locks that have expired already
// (node-redlock#296).
func TestReplyLaterThanTheTTLIsNoLease(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{wire.Requests, wire.Replies} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				link := &slow{Conn: s.Conn()}
				c := wire.Wrap(t, link, help.Brisk(300*time.Millisecond))
				locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
				link.delay(direction, 500*time.Millisecond)

				l, err := c.Mutex("a").TryLock(t.Context())
				wantNoDeadLease(t, "TryLock", l, err)
				check.Error(t, "TryLock", err, redlatch.ErrUnreachable)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l, err = c.Mutex("a").Lock(ctx)
				wantNoDeadLease(t, "Lock", l, err)
				if !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock = %v, want ErrTaken and context.DeadlineExceeded", err)
				}
				link.delay(direction, 0)
				locktest.Eventually(t, "it is free", func() bool { return s.Do("EXISTS", locktest.StateKey("a")) == "0" })
			})
		})
	}
}

// slow is a connection that holds requests up, or replies.
type slow struct {
	conn.Conn
	before, after atomic.Int64 // durations
	underWay      sync.WaitGroup
}

func (s *slow) delay(direction string, d time.Duration) {
	if direction == wire.Requests {
		s.before.Store(int64(d))
	} else {
		s.after.Store(int64(d))
	}
}

// Eval implements [conn.Conn]. What is on its way arrives also when the caller has given up.
func (s *slow) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	calls = slices.Clone(calls)
	answer := make(chan []conn.Result, 1)
	s.underWay.Go(func() {
		time.Sleep(time.Duration(s.before.Load()))
		results := s.Conn.Eval(context.WithoutCancel(ctx), calls...)
		time.Sleep(time.Duration(s.after.Load()))
		answer <- results
	})
	select {
	case results := <-answer:
		return results
	case <-ctx.Done():
		return wire.Failing(len(calls), ctx.Err())
	}
}

// Close implements [conn.Conn]. It returns when nothing is on its way any more.
func (s *slow) Close() error {
	s.underWay.Wait()
	return s.Conn.Close()
}

func wantNoDeadLease(t *testing.T, call string, l *redlatch.Lease, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s returned a lease with %v left, when every reply takes longer than the TTL", call, l.Remaining())
	}
}

// TestTicketsGivenUpInAnOutage: goroutines give up while Redis is out of reach, for longer than
// their leases would last, and another of the same client waits on, which keeps all their tickets
// believed alive. Nobody is there for what they would be granted.
func TestTicketsGivenUpInAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const ttl = 30 * time.Second
		held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("a"))
		o, seen := help.Watched(help.InOrder(help.Brisk(ttl)))
		c := s.Client(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan help.Outcome
		for range 5 {
			gone = append(gone, help.GoLock(ctx, c.Mutex("a")))
		}
		stays := help.GoLock(t.Context(), c.Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", 5) // all six know their places: a wait outlasts the outage, a first request does not
		s.Cut(c)
		cancel()
		for _, g := range gone {
			_ = help.AwaitError(t, g)
		}
		time.Sleep(3 * ttl)
		s.Mend(c)
		locktest.Eventually(t, "one is in line", func() bool { return s.Do("ZCARD", help.QueueKey("a")) == "1" })
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, stays))
		locktest.Eventually(t, "nothing is left", func() bool {
			return s.Do("EXISTS", locktest.StateKey("a"), help.QueueKey("a"), help.ClientsKey("a")) == "0"
		})
	})
}
