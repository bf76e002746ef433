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

func TestStragglerAfterTryLockFoundItTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	held := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a"))
	c, late := openStraggling(t, s, brisk(lasting))
	late.keep("mutex acquire")
	if _, err := c.Mutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, want ErrTaken", err)
	}
	release(t, held)
	late.awaitUndo(t) // which finds nothing
	late.deliver(t)
	awaitFree(t, s, "a")
}

func TestStragglerAfterTheRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := openStraggling(t, s, brisk(lasting))
	late.keep("mutex acquire")
	release(t, lock(t, c.Mutex("a")))
	late.deliver(t)
	awaitFree(t, s, "a")
}

// straggle has a client with these options wait for a mutex, lock and release it, and has its first
// request for a place in line arrive after all that. It returns the lease of who holds the mutex by
// then.
func straggle(t *testing.T, s *redistest.Server, o redlatch.Options) *redlatch.Lease {
	t.Helper()
	other := open(t, s.URL(), sluggish()).Mutex("a")
	held := lock(t, other)
	c, late := openStraggling(t, s, o)
	hearing(t, s, c)
	late.keep("mutex acquire")
	result := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 1)
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
	s := redistest.Start(t)
	release(t, straggle(t, s, brisk(lasting)))
	awaitFree(t, s, "a")
	wantNothingLeft(t, s, "a")
}

func TestStragglerAfterTheWaitWasGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	held := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a"))
	c, late := openStraggling(t, s, brisk(lasting))
	hearing(t, s, c)
	late.keep("mutex acquire")
	ctx, cancel := context.WithCancel(t.Context())
	result := goLock(ctx, c.Mutex("a"))
	eventually(t, "a waiter in line", func() bool { return s.Do("ZCARD", queueKey("a")) == "1" })
	cancel()
	awaitError(t, result)
	eventually(t, "the line is empty", func() bool { return s.Do("ZCARD", queueKey("a")) == "0" })
	late.deliver(t)
	release(t, held)
	awaitFree(t, s, "a")
	if l, err := c.Mutex("a").TryLock(t.Context()); err != nil {
		t.Errorf("TryLock = %v, want a lease: nobody else uses the name", err)
	} else {
		release(t, l)
	}
}

// TestStragglingRenewalIsNothing: an extend that arrives after the release must not bring the lock
// back (redisson#7272, RedLock.net#48, redis-semaphore#175).
func TestStragglingRenewalIsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := openStraggling(t, s, brisk(lasting))
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
}

// TestStragglerWithATicket: it takes a place in line for an owner that has been in and out, while
// somebody else is inside.
func TestStragglerWithATicket(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := brisk(lasting)
	o.RequestTimeout = patience / 3 // so that the second look comes after the straggler
	held := straggle(t, s, o)
	queued(t, s, "a", 0)
	release(t, held)
}

// TestStragglerAmongOthersWhoGiveUp: what is looked at a second time is looked at a while later,
// also when there is more to release until then.
func TestStragglerAmongOthersWhoGiveUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := brisk(lasting)
	o.RequestTimeout = patience / 3
	c, late := openStraggling(t, s, o)
	hearing(t, s, c)
	held := lock(t, open(t, s.URL(), sluggish()).Mutex("b"))
	late.keep("mutex acquire")
	release(t, lock(t, c.Mutex("a")))
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		result := goLock(ctx, c.Mutex("b"))
		queued(t, s, "b", 1)
		cancel()
		_ = awaitError(t, result)
		queued(t, s, "b", 0)
	}
	late.deliver(t)
	awaitFree(t, s, "a")
	release(t, held)
}
