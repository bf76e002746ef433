package redlatch

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// TestSuspendedMachineLosesItsLeases moves the wall clock alone, as a suspended machine does to
// Go's clocks (golang/go#24595).
func TestSuspendedMachineLosesItsLeases(t *testing.T) {
	t.Parallel()
	var slept atomic.Int64
	now := func() clock.Reading { return clock.Now().Skewed(time.Duration(slept.Load())) }
	over := check.Value(redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}})).OK(t)
	c := check.Value(newClient(over, Options{}, now)).OK(t)
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

func mustLock(t *testing.T, m *Mutex) *Lease {
	t.Helper()
	return check.Value(m.Lock(t.Context())).OK(t)
}

// TestTermsTellLeasesApart: a goroutine must not take over a lease that differs from its own in any
// option, also in one that is added some day. How long it waited makes no difference, and where
// StrictOrder, MaxWaiters, MinHold or Yield is set no lease is taken over.
func TestTermsTellLeasesApart(t *testing.T) {
	t.Parallel()
	same := map[string]bool{
		"MaxWait": true, "MaxWaiters": true, "MinHold": true, "StrictOrder": true, "Yield": true,
		"Announce": true, // which has a queue of its own
		"Linger":   true, // which the lease that is released decides
		"FenceKey": true, // of a reentrant mutex, which is not handed over
	}
	all := reflect.TypeFor[LockOptions]()
	for i := range all.NumField() {
		var o LockOptions
		field, name := reflect.ValueOf(&o).Elem().Field(i), all.Field(i).Name
		switch set := field.Addr().Interface().(type) {
		case *Announce:
			set.Channel = "c"
		case *Yield:
			set.Every = 1
		case *string:
			*set = "k"
		default:
			field.SetInt(1)
		}
		if got := o.terms() == (LockOptions{}).terms(); got != same[name] {
			t.Errorf("with another %s the terms are the same: %v, want %v", name, got, same[name])
		}
	}
}

// inTheWay is a connection that calls meet before its first request that runs a script.
type inTheWay struct {
	conn.Conn
	script string
	meet   func()
}

func (c *inTheWay) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name == c.script && c.meet != nil {
		meet := c.meet
		c.meet = nil
		meet()
	}
	return c.Conn.Eval(ctx, calls...)
}

// TestDowngradeOfALeaseThatIsReleased: while Downgrade is about to ask Redis, another goroutine releases the
// lease for writing. The client keeps the lock, and lends it to a third, which has the same owner. No reader
// comes in beside that writer. Its own client asks for no lock that it keeps by a request, which is where this
// test can get in: so the lock seems to be that of another.
func TestDowngradeOfALeaseThatIsReleased(t *testing.T) {
	t.Parallel()
	over := &inTheWay{Conn: check.Value(redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}})).OK(t), script: "rwmutex ask"}
	c := check.Value(New(over, Options{Heartbeat: time.Minute, RequestTimeout: 30 * time.Second, Lock: LockOptions{TTL: time.Hour, Linger: 20 * time.Minute}})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	m := c.RWMutex("a")
	m.latch.Client = "another"
	var write, next *Lease
	check.Eventually(t, "a lease may be kept", func() bool {
		write = check.Value(m.Lock(t.Context())).OK(t)
		kept := script.Kept(write.core.Owner())
		if !kept {
			check.OK(t, "Release", write.Release(t.Context()))
		}
		return kept
	})
	over.meet = func() {
		check.OK(t, "Release", write.Release(t.Context()))
		next = check.Value(m.Lock(t.Context())).OK(t)
		check.Equal(t, next.core.Owner(), write.core.Owner(), "the owner of the next lease")
	}
	read, err := m.Downgrade(t.Context(), write)
	check.That(t, read == nil && errors.Is(err, ErrNotHeld), "Downgrade = %v, %v, want ErrNotHeld", read, err)
	check.OK(t, "Release", next.Release(t.Context()))
}
