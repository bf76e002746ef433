package faults

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

func TestEnsure(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		var seen help.Events
		o := help.Brisk(6 * time.Second)
		o.Hook, o.Lock.Renew = seen.Hook, redlatch.Off
		l := locktest.Lock(t, s.Client(t, o).Mutex("a"))
		if err := l.Ensure(t.Context(), 4*time.Second); err != nil || len(seen.Of(redlatch.EventExtended, "a")) != 0 {
			t.Errorf("Ensure = %v and %d extends, want nil and none: there is enough left", err, len(seen.Of(redlatch.EventExtended, "a")))
		}
		time.Sleep(3 * time.Second)
		if err := l.Ensure(t.Context(), 4*time.Second); err != nil || l.Remaining() < 4*time.Second {
			t.Errorf("Ensure = %v with %v left, want nil and that much", err, l.Remaining())
		}
		if err := l.Ensure(t.Context(), 6*time.Second); !errors.Is(err, redlatch.ErrInvalid) || !l.Held() {
			t.Errorf("Ensure(the whole TTL) = %v, Held %v, want ErrInvalid and true", err, l.Held())
		}
		check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), time.Hour))
		check.OK(t, "Ensure of less than is left", l.Ensure(t.Context(), time.Minute))
		check.OK(t, "Release", l.Release(t.Context()))
		check.Error(t, "Ensure of no time, after the release", l.Ensure(t.Context(), 0), redlatch.ErrNotHeld)
		l = locktest.Lock(t, s.Client(t, o).Mutex("a"))
		s.Lose("a")
		time.Sleep(200 * time.Millisecond)
		if err := l.Ensure(t.Context(), 5900*time.Millisecond); !errors.As(err, new(*redlatch.LostError)) {
			t.Errorf("Ensure of a lock that is gone = %v, want a LostError", err)
		}
	})
}

// late is a connection on which answers come late until the server is well, and those of replicas have a
// delay of their own.
type late struct {
	conn.Conn
	answer, replicas time.Duration
	well             atomic.Bool
}

func (c *late) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if !c.well.Load() {
		time.Sleep(c.answer)
	}
	return c.Conn.Eval(ctx, calls...)
}

func (c *late) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	select {
	case <-ctx.Done():
		return conn.Result{Err: ctx.Err()}, 0
	case <-time.After(c.replicas):
		return c.Conn.(conn.Replicated).EvalReplicated(ctx, call, n, wait)
	}
}

// tryLate runs a test with a lease of one second over this connection.
func tryLate(t *testing.T, c *late, o redlatch.LockOptions, test func(t *testing.T, l *redlatch.Lease)) {
	t.Helper()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c.Conn, o.TTL = s.Conn(), time.Second
		test(t, check.Value(wire.Wrap(t, c, redlatch.Options{Lock: o}).Mutex("a").TryLock(t.Context())).OK(t))
	})
}

// alone is a server whose replicas are away until they are back, or that refuses for as long to wait for
// them.
type alone struct {
	conn.Conn
	back    time.Time
	refuses string
}

func (c *alone) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	away := time.Now().Before(c.back)
	if away && c.refuses != "" {
		return conn.Result{Err: &conn.ReplyError{Text: c.refuses}}, 0
	}
	r, acks := c.Conn.(conn.Replicated).EvalReplicated(ctx, call, n, wait)
	if away {
		return r, 0
	}
	return r, acks
}

// TestElectionRunOutlastsItsReplicas: no process has to start Run again when the replicas are back, or the
// server, which was made a replica after it had let the leader in, is the master again.
func TestElectionRunOutlastsItsReplicas(t *testing.T) {
	t.Parallel()
	for _, refuses := range []string{"", "READONLY You can't write against a read only replica."} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			began := time.Now()
			link := &alone{s.Conn(), began.Add(5 * time.Minute), refuses}
			c := wire.Wrap(t, link, redlatch.Options{Lock: redlatch.LockOptions{Replicas: 1}})
			err := c.Election("e").Run(t.Context(), "me", func(context.Context, *redlatch.Lease) error { return help.ErrFailed })
			check.Error(t, "Run", err, help.ErrFailed)
			check.That(t, time.Since(began) < 6*time.Minute, "it led after %v", time.Since(began))
		})
	}
}

// TestLateGrantIsExtendedInTime: the acquisition was answered when most of its time had passed, and
// the extend that makes up for that came as late. The watchdog waits until a lease has been held for
// a while. It waited for longer than this one had left, and sent no extend at all.
func TestLateGrantIsExtendedInTime(t *testing.T) {
	t.Parallel()
	s := &late{answer: 900 * time.Millisecond}
	tryLate(t, s, redlatch.LockOptions{}, func(t *testing.T, l *redlatch.Lease) {
		if left := l.Remaining(); left > 100*time.Millisecond {
			t.Errorf("%v are left of a lease that came late, so this shows nothing", left)
		}
		s.well.Store(true)
		time.Sleep(10 * time.Second)
		check.That(t, l.Held(), "the lease was lost: %v", l.Err())
	})
}

// TestLateReplicasCostNoTime: replicas acknowledged the acquisition when most of its time had passed.
// The caller got what was left, and nothing after it with Renew Off.
func TestLateReplicasCostNoTime(t *testing.T) {
	t.Parallel()
	for _, renew := range []redlatch.Switch{redlatch.On, redlatch.Off} {
		s := &late{replicas: 900 * time.Millisecond}
		tryLate(t, s, redlatch.LockOptions{Replicas: 1, Renew: renew}, func(t *testing.T, l *redlatch.Lease) {
			if left := l.Remaining(); left < 900*time.Millisecond {
				t.Errorf("with Renew %v, %v are left of a lease of 1s that replicas were slow to acknowledge", renew, left)
			}
		})
	}
}

// TestOneLostReplyCostsNoLease: the TTL is the shortest of which options.go says so. A lease that was kept
// is extended late: up to two thirds of its time have passed.
func TestOneLostReplyCostsNoLease(t *testing.T) {
	t.Parallel()
	const ttl = 400 * time.Millisecond
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		c := wire.Wrap(t, link, redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl, Linger: ttl / 3}})
		s.Hearing(c)
		for i := range 100 {
			l := locktest.Lock(t, c.Mutex("a"))
			time.Sleep(ttl * time.Duration(i) / 320)
			owner := l.Owner()
			locktest.Release(t, l)
			time.Sleep(ttl/3 - time.Millisecond)
			l = locktest.Lock(t, c.Mutex("a"))
			check.That(t, l.Owner() == owner, "the lock was not kept")
			link.Harm(wire.Unanswered, wire.Hits{Hit: func(n int) bool { return n == 0 }})
			time.Sleep(time.Second)
			check.That(t, link.Requests() > 1 && l.Held(), "after %d requests: %v", link.Requests(), l.Err())
			link.Harm(wire.Mishap{}, wire.None)
			locktest.Release(t, l)
			time.Sleep(time.Second)
		}
	})
}

// TestHookMayUseTheLease has the hook call what takes the lease's lock.
func TestHookMayUseTheLease(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		var lease atomic.Pointer[redlatch.Lease]
		var seen help.Events
		o := help.Brisk(3 * time.Second)
		o.Hook = func(ctx context.Context, e redlatch.Event) {
			if l := lease.Load(); l != nil {
				_, _, _ = l.Held(), l.Deadline(), l.Err()
				seen.Hook(ctx, e)
			}
		}
		c := s.Client(t, o)
		l := locktest.Lock(t, c.Mutex("a"))
		lease.Store(l)
		check.Nil(t, "Extend", l.Extend(t.Context()))
		s.Hang()
		help.WantLost(t, l)
		s.Resume()
		synctest.Wait()
		for _, e := range []redlatch.EventType{redlatch.EventExtended, redlatch.EventExtendFailed, redlatch.EventJeopardy, redlatch.EventLost} {
			check.That(t, len(seen.Of(e, "a")) != 0, "the hook was not told %q, so this shows less than it could", e)
		}
	})
}

// TestReleaseHeedsNoContext: an unlock was skipped when its context was canceled (ncps#913,
// authgear-server#5721).
func TestReleaseHeedsNoContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := check.Value(locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a").Lock(ctx)).OK(t)
	cancel()
	if l.Context().Err() == nil || !l.Held() {
		t.Errorf("after its parent was canceled: Context %v, Held %v, want it done, and the lock held", l.Context().Err(), l.Held())
	}
	check.Nil(t, "Release", l.Release(ctx))
	check.That(t, s.Do("EXISTS", locktest.StateKey("a")) == "0", "the lock is still there")
}

// TestLossClosesNoLock: MinHold counts for a release. A lock that is lost opens when its lease ends.
func TestLossClosesNoLock(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		answers := false
		link := &wire.Answered{Conn: s.Conn(), Script: "mutex renew", Then: func(conn.Reply) bool { return answers }}
		o := redlatch.LockOptions{TTL: 10 * time.Second, MinHold: time.Hour}
		l := locktest.Lock(t, wire.Wrap(t, link, redlatch.Options{}).Mutex("a").With(o))
		<-l.Context().Done()
		answers = true
		time.Sleep(5 * time.Second)
		check.OK(t, "TryLock", check.ErrorOf(s.Client(t, redlatch.Options{}).Mutex("a").TryLock(t.Context())))
	})
}
