package faults

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// These tests are in bubbles. The client looks three times for what it left behind, at last some three times
// RequestTimeout after the first, and a request that is later than that is not undone. On a real clock,
// a machine that pauses would make it so late.

// TestTextAfterALateCopy: a lease was acquired by a request that had to be sent twice, and is detached.
// Whenever the first copy arrives, it makes the text of no use to a second adoption, nor to one after
// the lease has ended, when others have had the lock.
func TestTextAfterALateCopy(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		for _, when := range []string{"while it is adopted", "after its release", "after others"} {
			c, late := s.Straggles(help.Brisk(help.Lasting))
			other := s.Client(t, help.Brisk(help.Lasting))
			locks := kindtest.Locks(c, when+" ")
			late.Keep(locks[kind].Kind + " acquire")
			l := check.Value(locks[kind].Try(t.Context())).OK(t)
			text := help.Detach(t, l)
			adopted := help.Adopt(t, other, text)
			if when == "while it is adopted" {
				late.Deliver(t)
				help.WantOver(t, other, text)
			}
			locktest.Release(t, adopted)
			if when == "after others" {
				locktest.Release(t, check.Value(kindtest.Locks(other, when+" ")[kind].Acquire(t.Context())).OK(t))
			}
			if when != "while it is adopted" {
				late.Deliver(t)
				help.WantOver(t, other, text)
			}
			locktest.Release(t, check.Value(kindtest.Locks(other, when+" ")[kind].Acquire(locktest.Within(t, locktest.Patience))).OK(t))
		}
	})
}

// TestDetachWhoseOwnerIsUnknown: the lease gets another owner before it is detached, since its
// acquisition was sent twice, and that request gets no answer. The lease ends, and is free soon,
// whichever owner it has.
func TestDetachWhoseOwnerIsUnknown(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		for _, arrives := range []bool{true, false} {
			link := &wire.Answered{Conn: s.Conn()}
			late := &wire.Straggling{Conn: link}
			o := help.Brisk(help.Lasting)
			c := wire.Wrap(t, late, o)
			l := kindtest.Locks(c, fmt.Sprint(arrives))[kind]
			late.Keep(l.Kind + " acquire")
			lease := check.Value(l.Try(t.Context())).OK(t)
			link.Script, link.Then = l.Kind+" adopt", func(conn.Reply) bool { return false }
			link.Lost = !arrives
			_, err := lease.Detach(t.Context())
			check.Error(t, "Detach", err, redlatch.ErrUnreachable)
			check.That(t, !lease.Held() && lease.Context().Err() != nil, "the lease is held after that")
			other := kindtest.Locks(s.Client(t, o), fmt.Sprint(arrives))[kind]
			next := check.Value(other.Acquire(locktest.Within(t, locktest.Patience))).OK(t)
			locktest.Release(t, lease)
			locktest.Release(t, next)
		}
	})
}

// TestGrantThatIsExtendedTooLate: it was heard in time, and is extended at once, since little is left
// of it. Before that request is there, sent twice, the grant has run out, another client has had the lock,
// and a late copy of the acquisition has let the owner in again.
func TestGrantThatIsExtendedTooLate(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		held := check.Value(kindtest.Locks(s.Client(t, help.Sluggish()), "")[kind].Try(t.Context())).OK(t)
		var pollsFail atomic.Bool
		var extending atomic.Pointer[func()] // what is done before the next extend, which gets lost
		over := s.Conn()
		late := &wire.Straggling{Conn: wire.Through{Conn: over, Make: func(ctx context.Context, calls ...conn.Call) []conn.Result {
			lost := wire.Runs(calls, "await") && pollsFail.Load()
			if wire.Runs(calls, "renew") {
				if f := extending.Swap(nil); f != nil {
					(*f)()
					lost = true
				}
			}
			if lost {
				return wire.Failing(len(calls), errors.New("connection lost"))
			}
			return over.Eval(ctx, calls...)
		}}}
		c := wire.Wrap(t, late, redlatch.Options{
			Heartbeat: time.Minute, RequestTimeout: 10 * time.Minute, Lock: redlatch.LockOptions{TTL: 6 * time.Second, StrictOrder: redlatch.On},
		})
		s.Hearing(c)
		l := kindtest.Locks(c, "")[kind]
		late.Keep(l.Kind + " acquire") // it asks twice
		result := help.GoAcquire(func() (*redlatch.Lease, error) { return l.Acquire(t.Context()) })
		locktest.InLine(t, s, l.Name, 1)
		pollsFail.Store(true)
		time.Sleep(5 * time.Second)
		token := int64(0)
		meanwhile := func() {
			time.Sleep(7 * time.Second)
			// Another client has it as soon as a try gets it: a slot rests before that.
			between := help.Await(t, help.TryUntil(t, kindtest.Locks(s.Client(t, help.Sluggish()), "")[kind]))
			token = between.Token()
			locktest.Release(t, between)
			late.Deliver(t)
		}
		extending.Store(&meanwhile)
		locktest.Release(t, held)
		got := help.Await(t, result)
		check.That(t, token > 0 && got.Token() > token, "the token is %d after %d", got.Token(), token)
		locktest.Release(t, got)
	})
}

// tardy is a connection that answers an acquisition that is sent for the third time, late, and no extend.
type tardy struct {
	conn.Conn
	acquires atomic.Int64
}

// Eval implements [conn.Conn].
func (c *tardy) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if wire.Runs(calls, "renew") || wire.Runs(calls, "acquire") && c.acquires.Add(1) < 3 {
		<-ctx.Done()
		return wire.Failing(len(calls), ctx.Err())
	}
	results := c.Conn.Eval(ctx, calls...)
	if wire.Runs(calls, "acquire") {
		time.Sleep(900 * time.Millisecond)
	}
	return results
}

// EvalReplicated implements [conn.Replicated]: nothing comes back.
func (c *tardy) EvalReplicated(ctx context.Context, _ conn.Call, _ int, _ time.Duration) (conn.Result, int) {
	<-ctx.Done()
	return conn.Result{Err: ctx.Err()}, 0
}

// TestTryEndsInTime: a try is answered late, and its grant is extended, since little is left of it, or since
// replicas have to acknowledge it. Both requests together take no longer than one may.
func TestTryEndsInTime(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		for _, replicas := range []int{0, 1} {
			c := wire.Wrap(t, &tardy{Conn: s.Conn()}, redlatch.Options{
				RequestTimeout: 3 * time.Second, Lock: redlatch.LockOptions{TTL: 2 * time.Second, Renew: redlatch.Off, Replicas: replicas},
			})
			start := time.Now()
			_, err := kindtest.Locks(c, "")[kind].Try(t.Context())
			check.Error(t, "a try", err, redlatch.ErrUnreachable)
			check.That(t, time.Since(start) <= 4*time.Second, "with %d replicas it ended after %v", replicas, time.Since(start))
			time.Sleep(time.Minute)
		}
	})
}

// TestTryHasItsTimeForEachName: replicas acknowledge one of many names after the other; and a lock is
// taken by force after a look at it. Each request is answered in time, all together take longer than one
// may.
func TestTryHasItsTimeForEachName(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{Lock: redlatch.LockOptions{Replicas: 1}})
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("n", i))
		}
		s.Delay(50 * time.Millisecond)
		l := check.Value(c.MultiMutex(names...).TryLock(t.Context())).OK(t)
		check.OK(t, "Release", l.Release(t.Context()))
		locktest.Lock(t, s.Client(t, redlatch.Options{}).Mutex("a"))
		s.Delay(950 * time.Millisecond)
		locktest.Release(t, check.Value(c.Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})).OK(t))
		s.Delay(0)
	})
}
