package tests

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A request whose connection broke can still reach the server, after the resend over another
// connection and whatever followed. (pottery's release overtakes its SET in this way;
// redlock-rb#76.)

// straggling is a connection that keeps one request back, as if its connection had broken, and
// delivers it when told.
type straggling struct {
	conn.Conn
	mu     sync.Mutex // guards what is below
	script string     // of the request to keep; "" for none
	kept   *conn.Call
	undone int // releases that were answered since
}

// straggles returns a client of this server of whose requests one can be kept back.
func (s *memory) straggles(o redlatch.Options) (*redlatch.Client, *straggling) {
	s.t.Helper()
	c := &straggling{Conn: s.Conn()}
	return wrap(s.t, c, o), c
}

// openStraggling returns a client of whose requests one can be kept back.
func openStraggling(t *testing.T, s *redistest.Server, o redlatch.Options) (*redlatch.Client, *straggling) {
	t.Helper()
	c := &straggling{Conn: dial(t, s.Addr())}
	return wrap(t, c, o), c
}

// keep has the next request that runs this script kept back.
func (s *straggling) keep(script string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *straggling) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	s.mu.Lock()
	keep := calls[0].Script.Name == s.script
	if keep {
		s.script, s.kept = "", &calls[0]
	}
	s.mu.Unlock()
	if keep {
		return []conn.Result{{Err: errors.New("connection lost")}}
	}
	results := s.Conn.Eval(ctx, calls...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil && calls[0].Script.Name == "mutex release" && results[0].Err == nil {
		s.undone++
	}
	return results
}

// awaitUndo waits until the client has sent a release for the request that is kept back, and the
// server has answered it.
func (s *straggling) awaitUndo(t *testing.T) {
	t.Helper()
	eventually(t, "a release for the request that is kept back", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.undone > 0
	})
}

// deliver lets the server have the request.
func (s *straggling) deliver(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	if kept == nil {
		t.Fatal("no request was kept back")
	}
	if r := s.Conn.Eval(t.Context(), *kept)[0]; r.Err != nil {
		t.Fatalf("late request: %v", r.Err)
	}
}

// These tests are in bubbles. The client looks a second time for what it left behind, a third of
// RequestTimeout after the first, and a request that is later than that is not undone. On a real
// clock, a machine that pauses would make it so late.

func TestStragglerAfterTryLockFoundItTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		held := lock(t, s.Client(t, brisk(lasting)).Mutex("a"))
		c, late := s.straggles(brisk(lasting))
		late.keep("mutex acquire")
		if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock = %v, want ErrTaken", err)
		}
		release(t, held)
		late.awaitUndo(t) // which finds nothing
		late.deliver(t)
		s.awaitFree("a")
	})
}

func TestStragglerAfterTheRelease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		c, late := s.straggles(brisk(lasting))
		late.keep("mutex acquire")
		release(t, lock(t, c.Mutex("a")))
		late.deliver(t)
		s.awaitFree("a")
	})
}

// straggle has a client wait for a mutex, lock and release it, and has its first request for a place
// in line arrive after all that. It returns the lease of who holds the mutex by then.
func straggle(t *testing.T, s *memory) *redlatch.Lease {
	t.Helper()
	other := s.Client(t, sluggish()).Mutex("a")
	held := lock(t, other)
	c, late := s.straggles(brisk(lasting))
	s.hearing(c)
	late.keep("mutex acquire")
	result := goLock(t.Context(), c.Mutex("a"))
	s.queued("a", "1")
	release(t, held)
	release(t, await(t, result))
	held = lock(t, other)
	late.deliver(t)
	return held
}

// TestStragglerBringsAServedWaiterBack: it takes a place in line for an owner that has been in and
// out.
func TestStragglerBringsAServedWaiterBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		release(t, straggle(t, s))
		s.awaitFree("a")
		s.wantNothingLeft("a")
	})
}

func TestStragglerAfterTheWaitWasGivenUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		held := lock(t, s.Client(t, brisk(lasting)).Mutex("a"))
		c, late := s.straggles(brisk(lasting))
		s.hearing(c)
		late.keep("mutex acquire")
		ctx, cancel := context.WithCancel(t.Context())
		result := goLock(ctx, c.Mutex("a"))
		s.queued("a", "1")
		cancel()
		awaitError(t, result)
		s.queued("a", "0")
		late.deliver(t)
		release(t, held)
		s.awaitFree("a")
		if l, err := c.Mutex("a").TryLock(t.Context()); err != nil {
			t.Errorf("TryLock = %v, want a lease: no other client uses the name", err)
		} else {
			release(t, l)
		}
	})
}

// TestStragglingRenewalIsNothing: an extend that arrives after the release must not bring the lock
// back (redisson#7272, RedLock.net#48, redis-semaphore#175).
func TestStragglingRenewalIsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		c, late := s.straggles(brisk(lasting))
		l := lock(t, c.Mutex("a"))
		late.keep("mutex renew")
		if err := l.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v", err)
		}
		release(t, l)
		late.deliver(t)
		if got := s.Do("EXISTS", stateKey("a")); got != "0" {
			t.Error("a late extend brought the lock back")
		}
		second := lock(t, c.Mutex("a"))
		s.Do("PEXPIRE", stateKey("a"), "60000")
		late.deliver(t)
		if got := s.Do("PTTL", stateKey("a")); len(got) > len("60000") {
			t.Errorf("PTTL = %s: a late extend of an old lease extended the new one", got)
		}
		release(t, second)
	})
}

// TestStragglerWithATicket: it takes a place in line for an owner that has been in and out, while
// another client is inside.
func TestStragglerWithATicket(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		held := straggle(t, s)
		s.queued("a", "0")
		release(t, held)
	})
}

// TestStragglerAmongOthersWhoGiveUp: what is looked at a second time is looked at a while later,
// also when there is more to release until then.
func TestStragglerAmongOthersWhoGiveUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		c, late := s.straggles(brisk(lasting))
		s.hearing(c)
		held := lock(t, s.Client(t, sluggish()).Mutex("b"))
		late.keep("mutex acquire")
		release(t, lock(t, c.Mutex("a")))
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			result := goLock(ctx, c.Mutex("b"))
			s.queued("b", "1")
			cancel()
			_ = awaitError(t, result)
			s.queued("b", "0")
		}
		late.deliver(t)
		s.awaitFree("a")
		release(t, held)
	})
}
