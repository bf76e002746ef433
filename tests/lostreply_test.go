package tests

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
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// behind returns a client whose requests and replies pass a proxy. It has locked "a" before, so
// that the connection which rueidis uses for that key is up, and the server knows the scripts: else
// a request whose reply is to be lost would not take place at all.
func behind(t testing.TB, p *proxy, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c := open(t, p.url(), o)
	l := lock(t, c.Mutex("a").With(redlatch.LockOptions{TTL: lasting}))
	if err := l.Extend(t.Context()); err != nil {
		t.Fatalf("Extend = %v", err)
	}
	release(t, l)
	return c
}

// TestLostReplyToTryLockIsAdopted: go-redis#2985 and redis/rueidis's rueidislock report "held by
// others" for their own orphan, and Redisson counts a resent acquire twice (redisson#7367).
func TestLostReplyToTryLockIsAdopted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	var seen events
	o := sluggish()
	o.Hook = seen.hook
	c := behind(t, p, o)
	grants := len(seen.of(redlatch.EventGranted, "a"))

	p.swallow(replies)
	result := goTryLock(t.Context(), c.Mutex("a"))
	owner := awaitHolder(t, s, "a")
	token := s.Do("GET", fenceKey("a"))
	p.heal()

	l := await(t, result)
	if l.Owner() != owner || s.Do("GET", stateKey("a")) != owner {
		t.Errorf("owner %s, and %s in Redis, want %s, as the first request left it", l.Owner(), s.Do("GET", stateKey("a")), owner)
	}
	if got := strconv.FormatInt(l.Token(), 10); got != token || s.Do("GET", fenceKey("a")) != token {
		t.Errorf("token %s, and %s in Redis, want %s, as the first request left it", got, s.Do("GET", fenceKey("a")), token)
	}
	if n := len(seen.of(redlatch.EventGranted, "a")) - grants; n != 1 {
		t.Errorf("%d grants, want 1", n)
	}
	wantSoundDeadline(t, s, l)
	release(t, l)
	awaitFree(t, s, "a")
}

// TestLostReplyToAPlaceInLineIsAdopted: the resent request must find its ticket, not take another.
func TestLostReplyToAPlaceInLineIsAdopted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	var seen events
	o := sluggish()
	o.Hook = seen.hook
	c := behind(t, p, o)
	hearing(t, s, c)
	held := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a"))

	p.swallow(replies)
	result := goLock(t.Context(), c.Mutex("a"))
	eventually(t, "a ticket in line", func() bool { return s.Do("ZCARD", queueKey("a")) == "1" })
	place := s.Do("ZRANGE", queueKey("a"), "0", "-1", "WITHSCORES")
	p.heal()
	seen.await(t, redlatch.EventWait, "a", 0)
	if got := s.Do("ZRANGE", queueKey("a"), "0", "-1", "WITHSCORES"); got != place {
		t.Errorf("line after the resend:\n%s\nwant it unchanged:\n%s", got, place)
	}
	token := held.Token()
	release(t, held)
	l := await(t, result)
	if l.Token() <= token {
		t.Errorf("token %d after %d, want more", l.Token(), token)
	}
	release(t, l)
	awaitFree(t, s, "a")
	if s.Do("EXISTS", queueKey("a"), clientsKey("a")) != "0" {
		t.Error("a line is left behind")
	}
}

// TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp: redsync's clean-up uses the context that is
// done, so its key stays for the whole TTL; redlock-rb#76 and redis/rueidis#1010 leave it, too.
func TestLostReplyToAcquireIsUndoneWhenTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	acquire := map[string]func(context.Context, *redlatch.Mutex) <-chan outcome{"Lock": goLock, "TryLock": goTryLock}
	for call, acquire := range acquire {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := startProxy(t, s)
			c := behind(t, p, leisurely())

			p.swallow(replies)
			ctx, cancel := context.WithCancel(t.Context())
			result := acquire(ctx, c.Mutex("a"))
			awaitHolder(t, s, "a")
			cancel()
			if err := awaitError(t, result); !errors.Is(err, context.Canceled) {
				t.Errorf("%s = %v, want context.Canceled", call, err)
			}
			p.heal()
			awaitFree(t, s, "a")
		})
	}
}

// TestLostReplyToExtendKeepsTheDeadline: nothing but a reply may move the deadline (rueidislock
// gave its holder 2.5 s beyond the key).
func TestLostReplyToExtendKeepsTheDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	o, seen := watched(brisk(lasting)) // so that no pause of the machine is what ends it, nor its own extends
	l := lock(t, behind(t, p, o).Mutex("a"))
	deadline := l.Deadline()

	p.swallow(replies)
	if err := l.Extend(t.Context()); !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("Extend whose replies are lost = %v, want ErrUnreachable", err)
	}
	seen.await(t, redlatch.EventJeopardy, "a", 0)
	if !l.Held() || !l.Deadline().Equal(deadline) {
		t.Errorf("in jeopardy: Held %v, deadline moved by %v, want true and 0", l.Held(), l.Deadline().Sub(deadline))
	}
	p.heal()
	insist(t, "Extend", func() (struct{}, error) { return struct{}{}, l.Extend(t.Context()) })
	if !l.Held() || !l.Deadline().After(deadline) {
		t.Errorf("after the fault: Held %v, deadline moved by %v, want true and more than 0", l.Held(), l.Deadline().Sub(deadline))
	}
	wantSoundDeadline(t, s, l)
	release(t, l)
}

// TestLostReplyToAnExtendOfItsOwn: the same for an extend that the client sends by itself, which it
// sends again in time.
func TestLostReplyToAnExtendOfItsOwn(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		o, seen := watched(redlatch.Options{})
		link := &muted{Conn: s.Conn()}
		l := lock(t, wrap(t, link, o).Mutex("a"))
		deadline := l.Deadline()
		link.script.Store("mutex renew")
		seen.await(t, redlatch.EventJeopardy, "a", 0)
		if !l.Held() || !l.Deadline().Equal(deadline) {
			t.Errorf("in jeopardy: Held %v, deadline moved by %v, want true and 0", l.Held(), l.Deadline().Sub(deadline))
		}
		left, err := strconv.Atoi(commandIn(t, s, "PTTL", stateKey("a")))
		if expiry := time.Now().Add(time.Duration(left) * time.Millisecond); err != nil || expiry.Before(deadline.Add(time.Second)) {
			t.Errorf("Redis has it end %v after its deadline, %v, want some seconds: the extend took place", expiry.Sub(deadline), err)
		}
		link.script.Store("")
		seen.await(t, redlatch.EventExtended, "a", 0)
		if !l.Held() || !l.Deadline().After(deadline) {
			t.Errorf("after the fault: Held %v, deadline moved by %v, want true and more than 0", l.Held(), l.Deadline().Sub(deadline))
		}
		release(t, l)
	})
}

// TestLostRepliesToExtendEndTheLeaseAtItsDeadline: every extend takes place, so Redis keeps the
// key, but its holder cannot know.
func TestLostRepliesToExtendEndTheLeaseAtItsDeadline(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	l := lock(t, behind(t, p, brisk(4*time.Second)).Mutex("a"))
	p.swallow(replies)
	extends := commandCalls(s, "pexpire")
	wantLostAtDeadline(t, l)
	if commandCalls(s, "pexpire") == extends {
		t.Error("the server extended nothing until the lease was lost")
	}
	p.heal()
	if lost := (*redlatch.LostError)(nil); !errors.As(l.Release(t.Context()), &lost) {
		t.Error("Release of a lost lease is no LostError")
	}
}

// TestLostReplyToReleaseIsConfirmedByTheResend: Redisson tells real owners "not locked by current
// thread" (redisson#6651).
func TestLostReplyToReleaseIsConfirmedByTheResend(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	l := lock(t, behind(t, p, sluggish()).Mutex("a"))
	next := goLock(t.Context(), open(t, s.URL(), brisk(lasting)).Mutex("a"))
	eventually(t, "a waiter in line", func() bool { return s.Do("ZCARD", queueKey("a")) == "1" })

	p.swallow(replies)
	released := make(chan error, 1)
	go func() { released <- l.Release(context.Background()) }()
	second := await(t, next) // so the release took place
	p.heal()
	if err := receive(t, released, "Release"); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	if !second.Held() || s.Do("GET", stateKey("a")) != second.Owner() {
		t.Errorf("the resent release took the lock from the next holder: Held %v", second.Held())
	}
	release(t, second)
	awaitFree(t, s, "a")
}

// TestDeadlineIsSoundUnderEveryDelay: etcd's client and rueidislock count from the reply.
func TestDeadlineIsSoundUnderEveryDelay(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{requests, replies} {
		for _, delay := range []time.Duration{0, 40 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond} {
			t.Run(direction+" "+delay.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				p := startProxy(t, s)
				o := brisk(6 * time.Second)
				o.RequestTimeout = 9 * time.Second
				c := behind(t, p, o)
				near := open(t, s.URL(), o)
				hearing(t, s, c)
				p.delay(direction, delay)

				l, err := c.Mutex("tried").TryLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantSoundDeadline(t, s, l)
				if err := l.Extend(t.Context()); err != nil {
					t.Errorf("Extend = %v", err)
				}
				wantSoundDeadline(t, s, l)

				first := lock(t, near.Mutex("waited for"))
				result := goLock(t.Context(), c.Mutex("waited for"))
				eventually(t, "a waiter in line", func() bool { return s.Do("ZCARD", queueKey("waited for")) == "1" })
				release(t, first)
				granted := await(t, result)
				wantSoundDeadline(t, s, granted)
			})
		}
	}
}

// TestReplyLaterThanTheTTLIsNoLease: node-redlock returns locks that have expired already
// (node-redlock#296).
func TestReplyLaterThanTheTTLIsNoLease(t *testing.T) {
	t.Parallel()
	for _, direction := range []string{requests, replies} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
				link := &slow{Conn: s.Conn()}
				c := wrap(t, link, brisk(300*time.Millisecond))
				release(t, lock(t, c.Mutex("a")))
				link.delay(direction, 500*time.Millisecond)

				l, err := c.Mutex("a").TryLock(t.Context())
				wantNoDeadLease(t, "TryLock", l, err)
				if !errors.Is(err, redlatch.ErrUnreachable) {
					t.Errorf("TryLock = %v, want ErrUnreachable", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				l, err = c.Mutex("a").Lock(ctx)
				wantNoDeadLease(t, "Lock", l, err)
				if !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Lock = %v, want ErrTaken and context.DeadlineExceeded", err)
				}
				link.delay(direction, 0)
				eventually(t, "it is free", func() bool { return commandIn(t, s, "EXISTS", stateKey("a")) == "0" })
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
	if direction == requests {
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
		return failing(len(calls), ctx.Err())
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
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		const ttl = 30 * time.Second
		held := lock(t, s.Client(t, sluggish()).Mutex("a"))
		o, seen := watched(inOrder(brisk(ttl)))
		c := s.Client(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan outcome
		for range 5 {
			gone = append(gone, goLock(ctx, c.Mutex("a")))
		}
		stays := goLock(t.Context(), c.Mutex("a"))
		seen.await(t, redlatch.EventWait, "a", 5) // all six know their places: a wait outlasts the outage, a first request does not
		s.Cut(c)
		cancel()
		for _, g := range gone {
			_ = awaitError(t, g)
		}
		time.Sleep(3 * ttl)
		s.Mend(c)
		eventually(t, "one is in line", func() bool { return commandIn(t, s, "ZCARD", queueKey("a")) == "1" })
		release(t, held)
		release(t, await(t, stays))
		eventually(t, "nothing is left", func() bool {
			return commandIn(t, s, "EXISTS", stateKey("a"), queueKey("a"), clientsKey("a")) == "0"
		})
	})
}
