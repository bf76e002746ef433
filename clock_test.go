package redlatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// connected returns a connection to a new server.
func connected(t *testing.T) conn.Conn {
	t.Helper()
	s := redistest.Start(t)
	c := check.Value(redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{s.Addr()}})).OK(t)
	return c
}

// TestSuspendedMachineLosesItsLeases moves the wall clock alone, as a suspended machine does to
// Go's clocks (golang/go#24595).
func TestSuspendedMachineLosesItsLeases(t *testing.T) {
	t.Parallel()
	var slept atomic.Int64
	now := func() clock.Reading { return clock.Now().Skewed(time.Duration(slept.Load())) }
	c := check.Value(newClient(connected(t), Options{}, now)).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	asked, idle := mustLock(t, c.Mutex("asked")), mustLock(t, c.Mutex("idle"))

	slept.Store(int64(15 * time.Second)) // of a TTL of 30s
	check.That(t, asked.Held(), "after 15s of sleep Held = false, %v, want true: the lease has some 14s left", asked.Err())
	slept.Store(int64(31 * time.Second))
	if asked.Token() != 0 || asked.Held() || asked.Context().Err() == nil {
		t.Errorf("after 31s of sleep Token = %d, Held = %v, Context %v", asked.Token(), asked.Held(), asked.Context().Err())
	}
	select { // without a question to it
	case <-idle.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("nobody told the work that the machine had slept")
	}
	if lost := (*LostError)(nil); !errors.As(context.Cause(idle.Context()), &lost) || lost.Name != "idle" {
		t.Errorf("Cause = %v, want a LostError for idle", context.Cause(idle.Context()))
	}
}

// slow delays every reply, and remembers when the last request was sent.
type slow struct {
	conn.Conn
	by   time.Duration
	sent time.Time
}

func (s *slow) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name != "record" {
		s.sent = time.Now()
	}
	r := s.Conn.Eval(ctx, calls...)
	time.Sleep(s.by)
	return r
}

// TestDeadlineCountsFromBeforeTheRequest has Redis answer late: etcd's client counts from the
// answer, and believes too long.
func TestDeadlineCountsFromBeforeTheRequest(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	late := &slow{Conn: connected(t), by: 100 * time.Millisecond}
	c, err := New(late, Options{Lock: LockOptions{TTL: ttl, Renew: Off}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l, err := c.Mutex("a").TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Deadline().Sub(late.sent); got > ttl-lock.Drift(ttl) {
		t.Errorf("the deadline is %v after the request, want at most %v", got, ttl-lock.Drift(ttl))
	}
	check.OK(t, "Extend", l.Extend(t.Context()))
	if got := l.Deadline().Sub(late.sent); got > ttl-lock.Drift(ttl) {
		t.Errorf("after Extend the deadline is %v after the request, want at most %v", got, ttl-lock.Drift(ttl))
	}
}

func mustLock(t *testing.T, m *Mutex) *Lease {
	t.Helper()
	l := check.Value(m.Lock(t.Context())).OK(t)
	return l
}
