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
	"github.com/redlatch/redlatch/tests/internal/memory"
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

// TestRequestEndsWithItsContext: a server that is up falls silent while requests to it are under way, and
// is silent when it takes new connections after the others are gone. Requests that leave by themselves
// are sent on the goroutine of their caller while the connection is up: over the one that requests share,
// and over one for itself, which a client makes when it has asked for a while. They end with their context
// all the same, and none is caught where another waits for a connection. Another node of a cluster answers
// all the while.
func TestRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for way, turns := range map[string]int{"shared": 3, "lane": 200} { // after so many, a connection for itself
		for _, size := range []int{1, 3} {
			t.Run(fmt.Sprint(way, " of ", size), func(t *testing.T) {
				t.Parallel()
				nodes, url := help.StartNodes(t, 1), ""
				if url = nodes[0].URL(); size > 1 {
					nodes = redistest.StartCluster(t, size)
					url = help.ClusterURL(nodes)
				}
				sent, o := &wire.Counting{}, help.Sluggish()
				o.RequestTimeout = time.Hour
				o.WrapConn = func(c conn.Conn) conn.Conn {
					sent.Conn = c
					return sent
				}
				// By these parameters no connection is given up for its silence: else a request that
				// ignores its context would end with its connection, some seconds later.
				c := locktest.Open(t, url+"?write_timeout=1h&dial_timeout=1h", o)
				other, node := "a", nodes[0]
				if size > 1 {
					node = nodes[help.ShardOf(nodes, "{m}")]
					for n := 0; nodes[help.ShardOf(nodes, other)] == node; n++ {
						other = fmt.Sprint("other-", n)
					}
				}
				for range turns {
					locktest.Release(t, locktest.Lock(t, c.Mutex("{m}")))
					locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
				}
				end := func() {
					t.Helper()
					for range 3 { // the first shows that the connection may not be up
						ctx, cancel := context.WithCancel(t.Context())
						first := goTryUnderWay(t, ctx, c.Mutex("{m} first"), sent)
						own, cancelOwn := context.WithCancel(t.Context())
						second := goTryUnderWay(t, own, c.Mutex("{m} second"), sent)
						cancelOwn()
						check.Error(t, "the second TryLock", help.AwaitError(t, second), context.Canceled)
						cancel()
						check.Error(t, "the first TryLock", help.AwaitError(t, first), context.Canceled)
						if size > 1 {
							locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
						}
					}
				}
				defer node.Resume()
				node.Pause()
				end()
				node.Restart()
				node.Pause() // takes connections, and says nothing
				end()
			})
		}
	}
}

// TestCallerCallsItOff: the error of a call that its caller cancels while Redis takes its time does
// not say that Redis did not answer, whichever of its requests is under way.
func TestCallerCallsItOff(t *testing.T) {
	t.Parallel()
	replicas := redlatch.LockOptions{Replicas: 1}
	for what, c := range map[string]struct {
		after time.Duration // each answer takes half a second
		call  func(ctx context.Context, c *redlatch.Client) error
	}{
		"TryLock, at the replicas": {750 * time.Millisecond, func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Mutex("b").With(replicas).TryLock(ctx))
		}},
		"Inspect, at the clients": {1250 * time.Millisecond, func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Inspect(ctx, "a"))
		}},
		"List": {250 * time.Millisecond, func(ctx context.Context, c *redlatch.Client) (err error) {
			for _, err = range c.List(ctx, redlatch.ListOptions{}) {
			}
			return err
		}},
		"Deadlocks": {250 * time.Millisecond, func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Deadlocks(ctx))
		}},
	} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			one, two := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
			locktest.Lock(t, one.Mutex("a"))
			s.Delay(500 * time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(c.after, cancel)
			err := c.call(ctx, two)
			check.That(t, errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable), "%s: %v, want the error of its context alone", what, err)
			s.Delay(0)
		})
	}
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
