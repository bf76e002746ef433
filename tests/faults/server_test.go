package faults

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestFlush: rueidislock looped without end on the invalidation that a FLUSHALL sends; Redisson's
// waiters are not woken when the key is deleted by hand (redisson#3730).
func TestFlush(t *testing.T) {
	t.Parallel()
	help.WantTakeover(t, func(s *redistest.Server) { s.Do("FLUSHALL") })
}

// TestFlushIsToldAtTheNextExtend has no waiter whose acquisition could tell.
func TestFlushIsToldAtTheNextExtend(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		began := time.Now()
		l := locktest.Lock(t, s.Client(t, help.Brisk(3*time.Second)).Mutex("a"))
		s.LoseEverything()
		lost := help.WantLost(t, l)
		// It is sent after a third of the TTL, or a tenth of that later.
		if told := lost.At.Sub(began); told > 1100*time.Millisecond {
			t.Errorf("told after %v of a TTL of 3s, want at the next extend", told)
		}
	})
}

// TestServerHangsForLessThanTheTTL: renewals were skipped or given up for good after one failure
// (redisson#5698, cozy-stack#4911).
func TestServerHangsForLessThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var seen help.Events
	o := help.Brisk(9 * time.Second) // of which a third passes until the extend that has no answer
	o.Hook = seen.Hook
	l := locktest.Lock(t, locktest.Open(t, s.URL(), o).Mutex("a"))
	extended := len(seen.Of(redlatch.EventExtended, "a"))
	s.Pause()
	seen.Await(t, redlatch.EventJeopardy, "a", 0)
	s.Resume()
	seen.Await(t, redlatch.EventExtended, "a", extended)
	if !l.Held() || len(seen.Of(redlatch.EventLost, "a")) > 0 {
		t.Errorf("Held %v, %v, want it to be held", l.Held(), l.Err())
	}
	help.WantSoundDeadline(t, s, l)
	locktest.Release(t, l)
}

// TestMaxWaitWhileTheServerHangs: it bounds Lock from the first request on.
func TestMaxWaitWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Sluggish()
	o.RequestTimeout = time.Hour // of which a request gets a third
	c := locktest.Open(t, s.URL(), o)
	s.Pause()
	defer s.Resume()
	err := help.AwaitError(t, help.GoLock(t.Context(), c.Mutex("a").With(redlatch.LockOptions{MaxWait: 100 * time.Millisecond})))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("Lock = %v, want ErrUnreachable and context.DeadlineExceeded", err)
	}
}

// TestServerIsAwayForLessThanTheTTL has connections be refused, rather than hang, and then work
// again with the data still there.
func TestServerIsAwayForLessThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := wire.StartProxy(t, s)
	var seen help.Events
	o := help.Brisk(9 * time.Second) // of which a third passes until the extend that has no answer
	o.Hook = seen.Hook
	l := locktest.Lock(t, wire.Behind(t, p, o).Mutex("a"))
	extended := len(seen.Of(redlatch.EventExtended, "a"))
	p.Stop()
	seen.Await(t, redlatch.EventJeopardy, "a", 0)
	if err := p.Start(); err != nil {
		t.Fatalf("proxy: %v", err)
	}
	seen.Await(t, redlatch.EventExtended, "a", extended)
	check.That(t, l.Held(), "the lease was lost: %v", l.Err())
	locktest.Release(t, l)
}

// TestScriptFlushGoesUnnoticed: a server may forget scripts at any time.
func TestScriptFlushGoesUnnoticed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	a, b := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	kept := locktest.Lock(t, a.Mutex("kept"))
	over := make(chan struct{})
	var flusher, wg sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_, _ = s.DoErr("SCRIPT", "FLUSH")
			}
		}
	})
	for _, c := range []*redlatch.Client{a, b, a, b} {
		wg.Go(func() {
			for range 50 {
				err := c.Mutex("a").Do(locktest.Within(t, locktest.Patience), func(context.Context, *redlatch.Lease) error { return nil })
				if err != nil {
					t.Errorf("Do = %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		if err := kept.Extend(t.Context()); err != nil {
			t.Errorf("Extend = %v", err)
			break
		}
	}
	wg.Wait()
	close(over)
	flusher.Wait()
	if n := len(seen.Of(redlatch.EventExtendFailed, "kept")); n > 0 || !kept.Held() {
		t.Errorf("Held %v after %d failed extends, want true and 0", kept.Held(), n)
	}
	locktest.Release(t, kept)
}
