package tests

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// wantTakeover has the server forget a name that is held and waited for. The old holder must be
// told when it extends, and every waiter served in the end, each with a larger token.
//
// Nobody can be in time: the next holder is let in by a server that knows nothing. It is the token
// that tells them apart.
func wantTakeover(t *testing.T, forget func(*redistest.Server)) {
	t.Helper()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), inOrder(attentive())), open(t, s.URL(), inOrder(attentive()))
	held := lock(t, a.Mutex("a"))
	var resource highWater
	old := held.Token()
	resource.admit(old)
	results := make(chan outcome, 3)
	for _, c := range []*redlatch.Client{b, a, b} {
		go func() {
			l, err := c.Mutex("a").Lock(within(t, patience))
			results <- outcome{l, err}
		}()
	}
	queued(t, s, "a", 3)
	forget(s)
	eventually(t, "an answer to an extend", func() bool { return !errors.Is(held.Extend(t.Context()), redlatch.ErrUnreachable) })
	wantLost(t, held)
	for range 3 {
		l := await(t, results)
		if !resource.admit(l.Token()) {
			t.Errorf("token %d is not the largest so far", l.Token())
		}
		release(t, l)
	}
	if resource.admit(old) {
		t.Errorf("the resource took a write with the old token %d", old)
	}
	awaitFree(t, s, "a")
}

// TestServerKilledAndRestartedEmpty: Redisson drops a lost lock from its list and tells nobody
// (redisson#4698).
func TestServerKilledAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	wantTakeover(t, func(s *redistest.Server) {
		s.Kill()
		s.Restart()
	})
}

// TestFlush: rueidislock looped without end on the invalidation that a FLUSHALL sends; Redisson's
// waiters are not woken when the key is deleted by hand (redisson#3730).
func TestFlush(t *testing.T) {
	t.Parallel()
	wantTakeover(t, func(s *redistest.Server) { s.Do("FLUSHALL") })
}

// TestFlushIsToldAtTheNextExtend has no waiter whose acquisition could tell.
func TestFlushIsToldAtTheNextExtend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		began := time.Now()
		l := lock(t, s.Client(t, brisk(3*time.Second)).Mutex("a"))
		s.LoseEverything()
		lost := wantLost(t, l)
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
	var seen events
	o := brisk(9 * time.Second) // of which a third passes until the extend that has no answer
	o.Hook = seen.hook
	l := lock(t, open(t, s.URL(), o).Mutex("a"))
	extended := len(seen.of(redlatch.EventExtended, "a"))
	s.Pause()
	seen.await(t, redlatch.EventJeopardy, "a", 0)
	s.Resume()
	seen.await(t, redlatch.EventExtended, "a", extended)
	if !l.Held() || len(seen.of(redlatch.EventLost, "a")) > 0 {
		t.Errorf("Held %v, %v, want it to be held", l.Held(), l.Err())
	}
	wantSoundDeadline(t, s, l)
	release(t, l)
}

// TestMaxWaitWhileTheServerHangs: it bounds Lock from the first request on.
func TestMaxWaitWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := sluggish()
	o.RequestTimeout = time.Hour // of which a request gets a third
	c := open(t, s.URL(), o)
	s.Pause()
	defer s.Resume()
	err := awaitError(t, goLock(t.Context(), c.Mutex("a").With(redlatch.LockOptions{MaxWait: 100 * time.Millisecond})))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("Lock = %v, want ErrUnreachable and context.DeadlineExceeded", err)
	}
}

// TestServerHangsForLongerThanTheTTL: with rueidislock's late cancel two held for 2.5 s.
func TestServerHangsForLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	l := lock(t, open(t, s.URL(), brisk(time.Second)).Mutex("a"))
	other := open(t, s.URL(), brisk(lasting))
	s.Pause()
	wantLostAtDeadline(t, l)
	s.Resume()
	next := lock(t, other.Mutex("a"))
	release(t, next)
}

// TestServerIsAwayForLessThanTheTTL has connections be refused, rather than hang, and then work
// again with the data still there.
func TestServerIsAwayForLessThanTheTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	var seen events
	o := brisk(9 * time.Second) // of which a third passes until the extend that has no answer
	o.Hook = seen.hook
	l := lock(t, behind(t, p, o).Mutex("a"))
	extended := len(seen.of(redlatch.EventExtended, "a"))
	p.Stop()
	seen.await(t, redlatch.EventJeopardy, "a", 0)
	if err := p.Start(); err != nil {
		t.Fatalf("proxy: %v", err)
	}
	seen.await(t, redlatch.EventExtended, "a", extended)
	if !l.Held() {
		t.Errorf("the lease was lost: %v", l.Err())
	}
	release(t, l)
}

// TestScriptFlushGoesUnnoticed: a server may forget scripts at any time.
func TestScriptFlushGoesUnnoticed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var seen events
	o := sluggish()
	o.Hook = seen.hook
	a, b := open(t, s.URL(), o), open(t, s.URL(), o)
	kept := lock(t, a.Mutex("kept"))
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
				err := c.Mutex("a").Do(within(t, patience), func(context.Context, *redlatch.Lease) error { return nil })
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
	if n := len(seen.of(redlatch.EventExtendFailed, "kept")); n > 0 || !kept.Held() {
		t.Errorf("Held %v after %d failed extends, want true and 0", kept.Held(), n)
	}
	release(t, kept)
}
