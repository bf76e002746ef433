package faults

import (
	"context"
	"errors"
	"fmt"
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

// drowsy returns a client whose schedule sleeps once the lease "trap" is lost, until the test ends:
// as in a process that computes, nothing but a look finds that a deadline has passed.
func drowsy(t *testing.T, s *redistest.Server) *redlatch.Client {
	t.Helper()
	asleep, over := make(chan struct{}), make(chan struct{})
	o := help.Sluggish()
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventLost && e.Name == "trap" {
			close(asleep)
			<-over
		}
	}
	c := locktest.Open(t, s.URL(), o)
	t.Cleanup(func() { close(over) })
	locktest.Lock(t, c.Mutex("trap").With(redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off}))
	help.Receive(t, asleep, "the schedule's way into the trap")
	return c
}

// TestContextAnswersByTheClock: the deadline of a lease has passed and the schedule has not
// noticed. Work that asks the context must be told so at once, or it goes on beside the next
// holder.
func TestContextAnswersByTheClock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := drowsy(t, s)
	o := redlatch.LockOptions{TTL: 2 * time.Second, Renew: redlatch.Off}
	l := locktest.Lock(t, c.Mutex("a").With(o))
	both := check.Value(c.MultiMutex("b", "c").With(o).Lock(t.Context())).OK(t)
	for _, name := range []string{"a", "b", "c"} {
		help.AwaitFree(t, s, name) // so the deadlines, which are earlier, have passed
	}
	for what, ctx := range map[string]context.Context{"lease": l.Context(), "multi lease": both.Context()} {
		select {
		case <-ctx.Done():
			t.Errorf("%s: the schedule is awake, which makes this test an easy one", what)
		default:
		}
		err := context.Cause(ctx) // asks Err
		check.That(t, errors.As(err, new(*redlatch.LostError)) && ctx.Err() != nil, "%s: the context ends with %v, %v, want a LostError", what, ctx.Err(), err)
		help.Receive(t, ctx.Done(), what)
	}
}

// TestContextsOfALostLease: contexts of all sorts are made from that of a lease, and goroutines
// look at all of them when the lease is lost. They end, and no goroutine waits for one that waits.
func TestContextsOfALostLease(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	type key struct{}
	for range 20 {
		l := locktest.Lock(t, c.Mutex("a").With(redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off}))
		plain, cancel := context.WithCancel(l.Context())
		timed, stop := context.WithTimeout(context.WithValue(l.Context(), key{}, 1), time.Hour)
		nested := locktest.Lock(t, c.Mutex("b").With(redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off}))
		inner := context.WithoutCancel(nested.Context())
		after := make(chan struct{})
		context.AfterFunc(timed, func() { _ = l.Context().Err(); close(after) })
		all := []context.Context{l.Context(), plain, timed, context.WithValue(plain, key{}, 2), nested.Context()}
		help.Together(4*len(all), func(i int) {
			for ctx := all[i%len(all)]; ctx.Err() == nil; {
				child, done := context.WithCancel(ctx)
				_, _, _ = l.Held(), context.Cause(child), inner.Err()
				done()
			}
		})
		help.Receive(t, after, "what runs after the loss")
		check.That(t, errors.As(context.Cause(timed), new(*redlatch.LostError)), "a child ends with %v, want the LostError", context.Cause(timed))
		cancel()
		stop()
		help.WantNothingLeft(t, s, "a", "b")
	}
}

// TestTryUnderOnesOwnLease: under the context of a lease, a try for the same name fails as long as
// the lease is held, and no retry helps. The error must say so, for every kind that cannot be
// entered again.
func TestTryUnderOnesOwnLease(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, help.Sluggish())
	tries := map[string]func(context.Context) (*redlatch.Lease, error){
		"mutex":          c.Mutex("mutex").TryLock,
		"rwmutex, write": c.RWMutex("rwmutex").TryLock,
		"election": func(ctx context.Context) (*redlatch.Lease, error) {
			return c.Election("election").TryCampaign(ctx, "me")
		},
		"multi": func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := c.MultiMutex("multi", "other").TryLock(ctx)
			if err != nil {
				return nil, err
			}
			return l.Leases()[0], nil
		},
	}
	for what, try := range tries {
		l, err := try(t.Context())
		check.Must(t, err == nil, "%s: %v", what, err)
		if _, err := try(l.Context()); !errors.Is(err, redlatch.ErrDeadlock) || errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("%s: a try under its own lease = %v, want ErrDeadlock", what, err)
		}
		check.Error(t, what+": a try by another", check.ErrorOf(try(t.Context())), redlatch.ErrTaken)
	}
}

// hurried returns a client, and a context that is cancelled when Redis grants the client something.
func hurried(t *testing.T, s *redistest.Server) (*redlatch.Client, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return wire.Wrap(t, &wire.Heeding{Conn: wire.Dial(t, s.Addr()), Heard: cancel}, help.Sluggish()), ctx
}

// TestGrantThatIsGivenBackIsNotTaken: the context of an acquisition that does not have to wait ends
// when Redis has granted it. The lock goes back, and no other holder may be named as the reason.
func TestGrantThatIsGivenBackIsNotTaken(t *testing.T) {
	t.Parallel()
	acquisitions := map[string]func(*redlatch.Client, context.Context) error{
		"TryLock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Mutex("a").TryLock(ctx)
			return err
		},
		"Lock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Mutex("a").Lock(ctx)
			return err
		},
		"TryAcquire": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.Semaphore("a", 3).TryAcquire(ctx, 2)
			return err
		},
		"Multi.TryLock": func(c *redlatch.Client, ctx context.Context) error {
			_, err := c.MultiMutex("a", "b").TryLock(ctx)
			return err
		},
	}
	for what, acquire := range acquisitions {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c, ctx := hurried(t, s)
			if err := acquire(c, ctx); !errors.Is(err, context.Canceled) || errors.Is(err, redlatch.ErrTaken) {
				t.Errorf("%s = %v, want context.Canceled and not ErrTaken", what, err)
			}
			help.WantNothingLeft(t, s, "a", "b")
		})
	}
}

// TestJobWhoseContextEnds: Do must not say that another run is the reason when its own context
// ended before the work began. The window stays open for the next start.
func TestJobWhoseContextEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, ctx := hurried(t, s)
	job := c.Job("a", redlatch.JobOptions{Window: time.Hour})
	ran, err := job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	check.That(t, !ran && errors.Is(err, context.Canceled), "Do = %t, %v, want false and context.Canceled", ran, err)
	locktest.Eventually(t, "the window is open", func() bool { return help.RunJob(t, job, nil) })
}

// Requests that leave by themselves are sent on the goroutine of their caller while the connection
// is up. They end with their context all the same.

// unending are parameters of a URL by which no connection is given up for its silence: else a request
// that ignores its context would end with its connection, some seconds later.
const unending = "?write_timeout=1h&dial_timeout=1h"

// unlimited are options of a client whose requests end with their context, or with an answer: its
// own limit is an hour. sent counts the requests that are under way or over.
func unlimited() (o redlatch.Options, sent *wire.Counting) {
	o, sent = help.Sluggish(), &wire.Counting{}
	o.RequestTimeout = time.Hour
	o.WrapConn = func(c conn.Conn) conn.Conn {
		sent.Conn = c
		return sent
	}
	return o, sent
}

// goTryUnderWay tries a mutex on another goroutine, and returns when the request is under way.
func goTryUnderWay(t *testing.T, ctx context.Context, m *redlatch.Mutex, sent *wire.Counting) <-chan help.Outcome {
	t.Helper()
	const script = "mutex acquire"
	before := sent.Count(script)
	result := help.GoTryLock(ctx, m)
	locktest.Eventually(t, "the request is under way", func() bool { return sent.Count(script) > before })
	// From here it is a few instructions until it waits for the answer. Where they take longer than
	// this, the request ends before it waits, which makes the test an easy one.
	time.Sleep(20 * time.Millisecond)
	return result
}

// cancelledSoon wants an acquisition to end with its context, which is cancelled while the server is
// silent and the request is under way.
func cancelledSoon(t *testing.T, m *redlatch.Mutex, sent *wire.Counting) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := goTryUnderWay(t, ctx, m, sent)
	cancel()
	check.Error(t, "TryLock", help.AwaitError(t, result), context.Canceled)
}

// TestRequestEndsWithItsContext: a server that is up falls silent while a request is under way.
func TestRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 2 { // the first request may be what shows that the connection is up
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	cancelledSoon(t, c.Mutex("m"), sent)
}

// TestRequestAfterAFailureEndsWithItsContext: the connection was up, is gone, and the server that
// takes new ones says nothing. While one request waits for a connection, no other must be caught in
// that wait.
func TestRequestAfterAFailureEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 2 {
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Restart()
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	first := goTryUnderWay(t, ctx, c.Mutex("first"), sent)
	cancelledSoon(t, c.Mutex("second"), sent)
	cancel()
	check.Error(t, "the first TryLock", help.AwaitError(t, first), context.Canceled)
}

// TestRequestInALaneEndsWithItsContext: so does a request that has a connection for itself, which a
// client makes when it has asked for a while.
func TestRequestInALaneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 200 {
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	for range 3 { // once in the lane, and then over the connection that requests share
		cancelledSoon(t, c.Mutex("m"), sent)
	}
}

// TestRequestInAClusterEndsWithItsContext: a node of a cluster falls silent while a request to it is
// under way. Requests to another node are answered all the while.
func TestRequestInAClusterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for way, turns := range map[string]int{"shared": 3, "lane": 200} { // after so many, a connection for itself
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.StartCluster(t, 3)
			o, sent := unlimited()
			c := locktest.Open(t, help.ClusterURL(nodes)+unending, o)
			silent, other := "m", "a"
			for n := 0; help.ShardOf(nodes, other) == help.ShardOf(nodes, silent); n++ {
				other = fmt.Sprint("other-", n)
			}
			for range turns {
				locktest.Release(t, locktest.Lock(t, c.Mutex(silent)))
				locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
			}
			node := nodes[help.ShardOf(nodes, silent)]
			node.Pause()
			for range 2 { // the first shows that the connection may not be up
				cancelledSoon(t, c.Mutex(silent), sent)
				locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
			}
			node.Restart()
			node.Pause() // takes connections, and says nothing
			defer node.Resume()
			for range 2 {
				cancelledSoon(t, c.Mutex(silent), sent)
				locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
			}
		})
	}
}

// TestRequestEndsWithItsLimit: a request that the server leaves without an answer ends, whatever
// its context allows.
func TestRequestEndsWithItsLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Sluggish()
	o.RequestTimeout = 300 * time.Millisecond
	c := locktest.Open(t, s.URL(), o)
	for range 2 {
		help.InsistRelease(t, help.InsistLock(t, c.Mutex("m").Lock))
	}
	s.Pause()
	defer s.Resume()
	check.Error(t, "TryLock", help.AwaitError(t, help.GoTryLock(t.Context(), c.Mutex("m"))), redlatch.ErrUnreachable)
}

// panicking are options whose hook panics at the first event of a kind for the name "a".
func panicking(o redlatch.Options, kind redlatch.EventType) redlatch.Options {
	armed := true
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Type == kind && e.Name == "a" && armed {
			armed = false
			panic("hook")
		}
	}
	return o
}

// TestHookPanicsAtGrant: no program has the lease, so no owner must hold the lock.
func TestHookPanicsAtGrant(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, panicking(help.Sluggish(), redlatch.EventGranted))
	if cause := help.Recovered(func() { _, _ = c.Mutex("a").TryLock(t.Context()) }); cause != "hook" {
		t.Fatalf("TryLock panicked with %v, want hook", cause)
	}
	help.AwaitFree(t, s, "a")
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
}

// TestHookPanicsAtWait: the caller waits no more, so no ticket must stay in line.
func TestHookPanicsAtWait(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, panicking(help.Sluggish(), redlatch.EventWait))
	held := locktest.Lock(t, locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	if cause := help.Recovered(func() { _, _ = c.Mutex("a").Lock(t.Context()) }); cause != "hook" {
		t.Fatalf("Lock panicked with %v, want hook", cause)
	}
	locktest.InLine(t, s, "a", 0)
	locktest.Release(t, held)
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	help.WantNothingLeft(t, s, "a")
}

// hookPanics is the key of a context for whose events a hook panics.
type hookPanics struct{}

// TestHookPanicsInItsTurn: a hook panics for a goroutine to which the mutex is being passed on
// within the process. The turn must go on to the next goroutine, and the mutex must not stay
// without a holder.
func TestHookPanicsInItsTurn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	passed, cause := make(chan struct{}), make(chan any, 1)
	o, seen := help.Watched(help.Sluggish())
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		seen.Hook(ctx, e)
		if ctx.Value(hookPanics{}) != nil && e.Type == redlatch.EventWait {
			<-passed
			panic("hook")
		}
	}
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	held := locktest.Lock(t, m)
	leader := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	go func() {
		ctx := context.WithValue(t.Context(), hookPanics{}, true)
		cause <- help.Recovered(func() { _, _ = m.Lock(ctx) })
	}()
	seen.Await(t, redlatch.EventWait, "a", 1)
	next := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, leader)) // its acquisition took tokens for the goroutines that wait
	close(passed)
	check.Equal(t, help.Receive(t, cause, "Lock"), "hook", "Lock panicked with")
	locktest.Release(t, help.Await(t, next))
	help.WantNothingLeft(t, s, "a")
}
