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
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// What is in this file has code of the program that the library calls panic, or take long.

// jumpy is an observer of a connection that panics once, when it is armed.
type jumpy struct{ armed atomic.Bool }

func (j *jumpy) told(context.Context, conn.Request) {
	if j.armed.CompareAndSwap(true, false) {
		panic("observer")
	}
}

// withJumpy runs a test with a client whose observer panics when the test says so, and with another client.
func withJumpy(t *testing.T, test func(t *testing.T, c, other *redlatch.Client, j *jumpy)) {
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		j := new(jumpy)
		c := wire.Wrap(t, conn.Observe(s.Conn(), j.told), redlatch.Options{})
		locktest.Release(t, locktest.Lock(t, c.Mutex("first"))) // then nothing else is under way
		time.Sleep(time.Second)
		test(t, c, s.Client(t, redlatch.Options{}), j)
	})
}

// TestExtendPanics: the release of the lease does not wait for the extend.
func TestExtendPanics(t *testing.T) {
	t.Parallel()
	withJumpy(t, func(t *testing.T, c, _ *redlatch.Client, j *jumpy) {
		cause := help.Recovered(func() {
			_ = c.Mutex("a").Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error {
				j.armed.Store(true)
				return l.Extend(ctx)
			})
		})
		check.Equal(t, cause, "observer", "Do panicked with")
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	})
}

// TestReleasePanics: the next goroutine of the client has its turn.
func TestReleasePanics(t *testing.T) {
	t.Parallel()
	withJumpy(t, func(t *testing.T, c, other *redlatch.Client, j *jumpy) {
		l := locktest.Lock(t, c.Mutex("a"))
		j.armed.Store(true)
		check.Equal(t, help.Recovered(func() { _ = l.Release(t.Context()) }), "observer", "Release panicked with")
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		time.Sleep(5 * time.Second)
		locktest.Release(t, check.Value(other.Mutex("a").TryLock(t.Context())).OK(t))
	})
}

// TestTryPanics: what its request has acquired is released.
func TestTryPanics(t *testing.T) {
	t.Parallel()
	withJumpy(t, func(t *testing.T, c, other *redlatch.Client, j *jumpy) {
		j.armed.Store(true)
		check.Equal(t, help.Recovered(func() { _, _ = c.Mutex("a").TryLock(t.Context()) }), "observer", "TryLock panicked with")
		time.Sleep(5 * time.Second)
		locktest.Release(t, check.Value(other.Mutex("a").TryLock(t.Context())).OK(t))
	})
}

// TestHookPanicsOnTheWay: calls of several steps leave nothing, if the hook panics at one of them.
func TestHookPanicsOnTheWay(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		at   redlatch.EventType
		mode string
		call func(ctx context.Context, c *redlatch.Client)
	}{
		"downgrade": {redlatch.EventReleased, "write", func(ctx context.Context, c *redlatch.Client) {
			if l, err := c.RWMutex("a").Lock(ctx); err == nil {
				_, _ = c.RWMutex("a").Downgrade(ctx, l)
			}
		}},
		"force": {redlatch.EventLost, "", func(ctx context.Context, c *redlatch.Client) {
			_, _ = c.Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}).Lock(ctx)
			_, _ = c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{})
		}},
		"several": {redlatch.EventExtended, "", func(ctx context.Context, c *redlatch.Client) {
			if l, err := c.MultiMutex("a", "b").Lock(ctx); err == nil {
				defer func() { _ = l.Release(ctx) }()
				_ = l.Extend(ctx)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				c := s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
					if e.Type == way.at && e.Mode == way.mode {
						panic("hook")
					}
				}})
				check.Equal(t, help.Recovered(func() { way.call(t.Context(), c) }), "hook", "it panicked with")
				time.Sleep(10 * time.Second)
				info := check.Value(c.Inspect(t.Context(), "a")).OK(t)
				check.That(t, len(info.Holders)+len(c.Leases()) == 0, "left behind: %v, %v", info.Holders, c.Leases())
			})
		})
	}
}

// TestSlowHookCostsNoLease: a hook that takes 100ms is told of 256 leases that were extended together, and
// of as many that outlive their context. The server has answered at once, and none is lost.
func TestSlowHookCostsNoLease(t *testing.T) {
	t.Parallel()
	for _, at := range []redlatch.EventType{redlatch.EventExtended, redlatch.EventOutlived} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			var told, lost atomic.Int64
			c := s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
				switch e.Type {
				case at:
					told.Add(1)
					time.Sleep(100 * time.Millisecond)
				case redlatch.EventLost:
					lost.Add(1)
				}
			}})
			ctx, cancel := context.WithCancel(t.Context())
			var all []*redlatch.Lease
			for i := range 256 {
				all = append(all, check.Value(c.Mutex(fmt.Sprint(i)).Lock(ctx)).OK(t))
			}
			cancel()
			time.Sleep(3 * time.Minute)
			check.That(t, told.Load() >= 256 && lost.Load() == 0, "%s is told %d times, and %d leases are lost", at, told.Load(), lost.Load())
			for _, l := range all {
				_ = l.Release(t.Context())
			}
		})
	}
}

// TestExtendUnderADoneContext: nothing is sent, which is no reason to doubt the lease.
func TestExtendUnderADoneContext(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		l := locktest.Lock(t, c.Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Error(t, "Extend", l.Extend(ctx), context.Canceled)
		check.That(t, !c.Leases()[0].Jeopardy, "the lease is in jeopardy")
	})
}

// TestResizeTakesNoRefusedOptions: what With refuses, Resize refuses.
func TestResizeTakesNoRefusedOptions(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		refused := redlatch.LockOptions{TTL: time.Microsecond}
		_, err := c.Semaphore("s", 3).With(refused).Resize(t.Context(), 4)
		check.Error(t, "Resize of a semaphore", err, redlatch.ErrInvalid)
		_, err = c.SlotPool("p", 3, redlatch.SlotOptions{}).With(refused).Resize(t.Context(), 4)
		check.Error(t, "Resize of a pool", err, redlatch.ErrInvalid)
	})
}

// TestCloseTwiceAtOnce: in virtual time, while the server does not answer.
func TestCloseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		s.Hang()
		first := make(chan error, 1)
		go func() { first <- c.Close() }()
		err := c.Close()
		check.Equal(t, fmt.Sprint(<-first), fmt.Sprint(err), "the first Close returned")
		s.Resume()
	})
}

// TestTakenErrorOfAProgram: a fake in a program's tests has an error of its own.
func TestTakenErrorOfAProgram(t *testing.T) {
	t.Parallel()
	err := &redlatch.TakenError{Kind: "mutex", Name: "a", Owner: "someone"}
	check.Error(t, "it", err, redlatch.ErrTaken)
	check.Equal(t, err.Error(), `taken by "someone"; TakenError.Describe or `+"`redlatch inspect` tells which process that is", "its text is")
	check.That(t, err.Describe(t.Context()) != "", "Describe says nothing")
}

// TestCauseOfSeveralIsTheLoss: the lease as a whole was lost before its release began.
func TestCauseOfSeveralIsTheLoss(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		l := check.Value(s.Client(t, redlatch.Options{}).MultiMutex("a", "b").Lock(t.Context())).OK(t)
		l.Context().Done()
		s.Lose("a")
		_ = l.Leases()[0].Extend(t.Context())
		_ = l.Release(t.Context())
		check.That(t, errors.As(context.Cause(l.Context()), new(*redlatch.LostError)), "Cause = %v", context.Cause(l.Context()))
	})
}
