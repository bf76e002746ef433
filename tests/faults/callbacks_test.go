package faults

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// What is in this file has code of the program that the library calls panic, or take long.

// TestHookPanicsOnTheWay: calls of several steps leave nothing, if the hook panics at one of them: no owner
// holds the lock for which no program has the lease, and no ticket stays of a caller that waits no more.
func TestHookPanicsOnTheWay(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		at   redlatch.EventType
		mode string
		call func(t *testing.T, c, other *redlatch.Client)
	}{
		"downgrade": {redlatch.EventReleased, "write", func(t *testing.T, c, _ *redlatch.Client) {
			l := check.Value(c.RWMutex("a").Lock(t.Context())).OK(t)
			_, _ = c.RWMutex("a").Downgrade(t.Context(), l)
		}},
		"force": {redlatch.EventLost, "", func(t *testing.T, c, _ *redlatch.Client) {
			locktest.Lock(t, c.Mutex("a").With(redlatch.LockOptions{Renew: redlatch.Off}))
			_, _ = c.Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})
		}},
		"several": {redlatch.EventExtended, "", func(t *testing.T, c, _ *redlatch.Client) {
			l := check.Value(c.MultiMutex("a", "b").Lock(t.Context())).OK(t)
			defer func() { _ = l.Release(t.Context()) }()
			_ = l.Extend(t.Context())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				var over atomic.Bool
				c := s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
					if e.Type == way.at && e.Mode == way.mode && over.CompareAndSwap(false, true) {
						panic("hook")
					}
				}})
				cause := help.Recovered(func() { way.call(t, c, s.Client(t, redlatch.Options{})) })
				check.Equal(t, cause, "hook", "it panicked with")
				time.Sleep(10 * time.Second)
				info := check.Value(c.Inspect(t.Context(), "a")).OK(t)
				left := len(info.Holders) + len(info.Waiters) + len(c.Leases())
				check.That(t, left == 0, "left behind: %v, %v, %v", info.Holders, info.Waiters, c.Leases())
				locktest.Release(t, check.Value(c.RWMutex("a").TryLock(t.Context())).OK(t))
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
