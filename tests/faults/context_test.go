package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
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
		if !errors.As(err, new(*redlatch.LostError)) || ctx.Err() == nil {
			t.Errorf("%s: the context ends with %v, %v, want a LostError", what, ctx.Err(), err)
		}
		help.Receive(t, ctx.Done(), what)
	}
}

// TestContextsOfALostLease: contexts of all sorts are made from that of a lease, and goroutines
// look at all of them when the lease is lost. They end, and nobody waits for somebody who waits.
func TestContextsOfALostLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
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
		if !errors.As(context.Cause(timed), new(*redlatch.LostError)) {
			t.Errorf("a child ends with %v, want the LostError", context.Cause(timed))
		}
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
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
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
