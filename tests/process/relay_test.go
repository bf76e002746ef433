package process

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// maxRun is how many in a row a process keeps a mutex that others wait for, as the documentation
// says.
const maxRun = 128

// TestRelayGivesBack: a process with many goroutines that want a mutex again and again does not
// keep it from another.
func TestRelayGivesBack(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 200, 5
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	busy, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o)
	ctx, cancel := context.WithCancel(t.Context())
	var had atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := busy.Mutex("a").Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
					had.Add(1)
					retry.Sleep(ctx, time.Millisecond) // the work
					return nil
				})
				check.That(t, err == nil || ctx.Err() != nil, "Do = %v", err)
			}
		})
	}
	locktest.Eventually(t, "they are at it", func() bool { return had.Load() > 2*goroutines })
	for range rounds {
		waits := len(seen.Of(redlatch.EventWait, "a"))
		result := help.GoLock(t.Context(), other.Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", waits)
		// The event comes before the place in line where the client has not listened so far.
		locktest.Eventually(t, "the other process in line, or inside", func() bool {
			return slices.ContainsFunc(append(locktest.Line(s, "a"), s.Do("GET", locktest.StateKey("a"))), func(owner string) bool {
				return strings.Contains(owner, other.ID())
			})
		})
		before := had.Load()
		l := help.Await(t, result)
		// What is left of the run that is under way, and nothing after it.
		if n := had.Load() - before; n > maxRun {
			t.Errorf("the other process had it %d times meanwhile, want %d at most", n, maxRun)
		}
		locktest.InLine(t, s, "a", 1)
		locktest.Release(t, l)
	}
	cancel()
	wg.Wait()
	help.WantNothingLeft(t, s, "a")
}

// TestRelayKeepsItsPlace: the goroutine gives up that stands in line for all of its process. The
// next takes its place, not the last one.
func TestRelayKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	held := locktest.Lock(t, locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	o, seen := help.Watched(help.Sluggish())
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	ctx, cancel := context.WithCancel(t.Context())
	first := help.GoLock(ctx, m)
	locktest.InLine(t, s, "a", 1)
	second := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	other := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	locktest.InLine(t, s, "a", 2)
	place := locktest.Line(s, "a")[0]
	cancel()
	check.Error(t, "Lock", help.AwaitError(t, first), context.Canceled)
	locktest.Eventually(t, "another ticket in line", func() bool { l := locktest.Line(s, "a"); return len(l) == 2 && !slices.Contains(l, place) })
	locktest.Release(t, held)
	l := help.Await(t, second)
	select {
	case <-other:
		t.Error("another process was let in before")
	default:
	}
	locktest.Release(t, l)
	locktest.Release(t, help.Await(t, other))
	help.WantNothingLeft(t, s, "a")
}

// TestRelayTurnOfOneThatHasGivenUp: the mutex is passed on to a goroutine whose context is done
// already, and that has not noticed: it is in its hook. The one after it has its turn.
func TestRelayTurnOfOneThatHasGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	type busy struct{}
	inHook, goOn := make(chan struct{}), make(chan struct{})
	o, seen := help.Watched(help.Sluggish())
	note := o.Hook
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		note(ctx, e)
		if e.Type == redlatch.EventWait && ctx.Value(busy{}) != nil {
			close(inHook)
			<-goOn
		}
	}
	m := locktest.Open(t, s.URL(), o).Mutex("a")
	held := locktest.Lock(t, m)
	next := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), busy{}, true))
	givesUp := help.GoLock(ctx, m)
	help.Receive(t, inHook, "the hook of the one that gives up")
	last := help.GoLocks(t, t.Context(), m, seen, 1)[0]
	locktest.Release(t, held)
	l := help.Await(t, next)
	cancel()
	locktest.Release(t, l)
	close(goOn)
	check.Error(t, "Lock", help.AwaitError(t, givesUp), context.Canceled)
	locktest.Release(t, help.Await(t, last))
	help.WantNothingLeft(t, s, "a")
}

// TestRelayTurnOfOneThatIsOutOfTime: a goroutine has its turn when its time is nearly over, and its
// request no answer by then. Redis was well when it answered last, so the mutex is taken. Where
// Redis was known to be silent, it is unreachable.
func TestRelayTurnOfOneThatIsOutOfTime(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("a"))
			o, seen := help.Watched(help.Sluggish())
			if silent {
				o.Heartbeat, o.RequestTimeout = 500*time.Millisecond, 2400*time.Millisecond
			}
			m := s.Client(t, o).Mutex("a")
			ctx, cancel := context.WithCancel(t.Context())
			first := help.GoLock(ctx, m)
			locktest.InLine(t, s, "a", 1)
			limit := help.Timed{Context: t.Context(), Over: make(chan struct{})}
			second := help.GoLocks(t, limit, m, seen, 1)[0]
			s.Hang()
			if silent {
				seen.Await(t, redlatch.EventUnreachable, "a", 0)
			}
			cancel()
			help.AwaitError(t, first)
			synctest.Wait() // the second asks
			close(limit.Over)
			err := help.AwaitError(t, second)
			if errors.Is(err, redlatch.ErrUnreachable) != silent || !silent && !errors.Is(err, redlatch.ErrTaken) {
				t.Errorf("Lock = %v, want ErrUnreachable if Redis is known to be silent, else ErrTaken", err)
			}
			s.Resume()
			locktest.InLine(t, s, "a", 0)
			locktest.Release(t, held)
			help.WantNothingLeft(t, s, "a")
		})
	}
}

// TestRelayTurnOutOfTimeInOneProcess: the same where no other process wants the mutex. The client is
// not subscribed then, and the first request of the next goroutine only tries.
func TestRelayTurnOutOfTimeInOneProcess(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Sluggish())
		m := s.Client(t, o).Mutex("a")
		held := locktest.Lock(t, m)
		limit := help.Timed{Context: t.Context(), Over: make(chan struct{})}
		next := help.GoLocks(t, limit, m, seen, 1)[0]
		s.Delay(time.Second) // less than after which a request is sent again
		locktest.Release(t, held)
		synctest.Wait() // the next, whose turn it is, asks
		close(limit.Over)
		if err := help.AwaitError(t, next); errors.Is(err, redlatch.ErrUnreachable) || !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("Lock = %v, want ErrTaken and not ErrUnreachable", err)
		}
		s.Delay(0)
		help.AwaitFree(t, s, "a")
		help.WantNothingLeft(t, s, "a")
	})
}

// TestRelayIsExtendedInTime: a mutex that is passed on all the time is extended as often as one
// that is held, and a loss is found as soon.
func TestRelayIsExtendedInTime(t *testing.T) {
	t.Parallel()
	const n, ttl, hold = 120, 12 * time.Second, 60 * time.Millisecond // all in one run
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Brisk(ttl))
		m := s.Client(t, o).Mutex("a")
		held := locktest.Lock(t, m)
		results := help.GoLocks(t, t.Context(), m, seen, n)
		locktest.Release(t, held)
		began := time.Now()
		for _, result := range results[:10] {
			l := help.Await(t, result)
			time.Sleep(hold)
			locktest.Release(t, l)
		}
		s.LoseEverything()
		for _, result := range results[10:] {
			l := help.Await(t, result)
			time.Sleep(hold)
			if err := l.Release(t.Context()); errors.Is(err, redlatch.ErrNotHeld) {
				// An extend is due every third of the TTL, a tenth of that later at most.
				if took := time.Since(began); took > ttl*11/30+hold {
					t.Errorf("%v have passed since the mutex was acquired, and it is extended every %v", took, ttl/3)
				}
				for _, result := range results[10:] { // those that are left acquire it anew
					if len(result) > 0 {
						locktest.Release(t, help.Await(t, result))
					}
				}
				return
			} else if err != nil {
				t.Fatalf("Release = %v", err)
			}
		}
		t.Error("no goroutine noticed that the server forgot the mutex")
	})
}

// TestRelayWithoutRedis: who waits in one process for a server that does not answer is told at the
// same time, not one after the other.
func TestRelayWithoutRedis(t *testing.T) {
	t.Parallel()
	const n, timeout = 20, 500 * time.Millisecond
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(redlatch.Options{RequestTimeout: timeout, Lock: redlatch.LockOptions{TTL: time.Second, Renew: redlatch.Off}})
		m := s.Client(t, o).Mutex("a")
		held := locktest.Lock(t, m)
		results := help.GoLocks(t, t.Context(), m, seen, n)
		s.Hang()
		help.WantLost(t, held) // and with it the first of those that wait has its turn
		over := time.Now()
		for _, result := range results {
			check.Error(t, "Lock", help.AwaitError(t, result), redlatch.ErrUnreachable)
		}
		if took := time.Since(over); took > 4*timeout {
			t.Errorf("it took %v until all were told, with a request timeout of %v", took, timeout)
		}
		s.Resume()
	})
}
