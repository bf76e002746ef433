package tests

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// wantTakenBy checks that an error is a TakenError of this name that names this owner.
func wantTakenBy(t *testing.T, err error, name, owner string) *redlatch.TakenError {
	t.Helper()
	taken := (*redlatch.TakenError)(nil)
	if !errors.Is(err, redlatch.ErrTaken) || !errors.As(err, &taken) {
		t.Fatalf("%v, want a TakenError that matches ErrTaken", err)
	}
	if taken.Name != name || taken.Kind == "" || taken.Owner != owner {
		t.Errorf("%+v, want the name %q and the owner %q: %v", taken, name, owner, err)
	}
	return taken
}

// TestTakenNamesTheHolder: a caller that finds a lock taken is told by which client, also by its
// own, which forgot a release, and without another request.
func TestTakenNamesTheHolder(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := watched(sluggish())
		c, other := open(t, s.URL(), o), open(t, s.URL(), o)
		held := enter(t, of(c, kind))
		owner, mine, theirs := held.Owner(), " by this client", " by \""+held.Owner()+"\""
		l := of(c, kind)
		if l.Kind == "reentrant" { // Redis tells only with one command more
			owner, mine, theirs = "", "; Client.Inspect or `redlatch inspect` tells by which process", "; Client.Inspect"
		}
		check := func(err error, own bool, text string) {
			t.Helper()
			taken := wantTakenBy(t, err, l.Name, owner)
			if own = own && owner != ""; taken.Own != own || taken.Since.IsZero() == own || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v, want own: %v, and %q: %v", taken, own, text, err)
			}
			if exhausted := l.Kind == "semaphore" || l.Kind == "slotpool"; errors.Is(err, redlatch.ErrExhausted) != exhausted {
				t.Errorf("%v matches ErrExhausted: %v", err, !exhausted)
			}
		}
		wait := func(c *redlatch.Client) error {
			ctx, cancel := context.WithCancel(t.Context())
			n := len(seen.of(redlatch.EventWait, l.Name))
			waiting := goEnter(ctx, of(c, kind))
			seen.await(t, redlatch.EventWait, l.Name, n)
			cancel()
			return awaitError(t, waiting)
		}
		_, err := l.Try(t.Context())
		check(err, true, mine)
		check(wait(c), true, mine)
		check(wait(c), true, mine) // now the client listens
		_, err = of(other, kind).Try(t.Context())
		check(err, false, theirs)
		check(wait(other), false, theirs)
		release(t, held)
	})
}

// TestTakenInStrictOrder: a goroutine that stands in line by itself is told as well.
func TestTakenInStrictOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		c := s.Client(t, inOrder(sluggish()))
		held := lock(t, c.Mutex("a"))
		_, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
		if taken := wantTakenBy(t, err, "a", held.Owner()); !taken.Own || taken.Since.IsZero() {
			t.Errorf("%+v, want the client's own lease", taken)
		}
		release(t, held)
	})
}

// asking is a connection that counts the heartbeats of waiters that were answered.
type asking struct {
	conn.Conn
	answered atomic.Int64
}

func (a *asking) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := a.Conn.Eval(ctx, calls...)
	if runs(calls, " await") && results[0].Err == nil {
		a.answered.Add(1)
	}
	return results
}

// TestTakenNamesTheHolderOfNow: the holder of a minute ago may be innocent of what keeps a waiter.
func TestTakenNamesTheHolderOfNow(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, two := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
		asks, o := new(asking), brisk(lasting)
		o.WrapConn = func(over conn.Conn) conn.Conn { asks.Conn = over; return asks }
		waiter := open(t, s.URL(), o)
		first := enter(t, of(one, kind))
		next := goEnter(t.Context(), of(two, kind))
		queued(t, s, first.Name(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits := goEnter(ctx, of(waiter, kind))
		queued(t, s, first.Name(), 2)
		release(t, first)
		second := await(t, next)
		n := asks.answered.Load()
		eventually(t, "the waiter has asked since", func() bool { return asks.answered.Load() > n+1 })
		cancel()
		owner := second.Owner()
		if of(one, kind).Kind == "reentrant" {
			owner = ""
		}
		wantTakenBy(t, awaitError(t, waits), second.Name(), owner)
		release(t, second)
	})
}

// TestTakenWithoutAHolder: what is closed, full or of another library is no acquisition of a client.
func TestTakenWithoutAHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	release(t, lock(t, c.Mutex("shut").With(redlatch.LockOptions{MinHold: time.Hour})))
	_, err := c.Mutex("shut").TryLock(t.Context())
	wantTakenBy(t, err, "shut", "")

	s.Do("SET", stateKey("foreign"), "by hand")
	_, err = c.Mutex("foreign").TryLock(t.Context())
	if taken := wantTakenBy(t, err, "foreign", "by hand"); taken.Own {
		t.Errorf("%+v is the client's own", taken)
	}

	held := lock(t, c.Mutex("full"))
	m := c.Mutex("full").With(redlatch.LockOptions{MaxWaiters: 1})
	ctx, cancel := context.WithCancel(t.Context())
	waits := goLock(ctx, m)
	queued(t, s, "full", 1)
	_, err = m.Lock(t.Context())
	if wantTakenBy(t, err, "full", ""); !errors.Is(err, redlatch.ErrLineFull) {
		t.Errorf("%v, want ErrLineFull", err)
	}
	cancel()
	awaitError(t, waits)
	_, err = c.MultiMutex("full", "other").TryLock(t.Context())
	wantTakenBy(t, err, "full", held.Owner())
	release(t, held)
}

// TestQuorumTakenNamesTheHolder: as a majority of the nodes tells it.
func TestQuorumTakenNamesTheHolder(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	o, seen := watched(sluggish())
	c, other := openQuorum(t, nodes, o), openQuorum(t, nodes, o)
	held := lock(t, c.Mutex("a"))
	for client, own := range map[*redlatch.Client]bool{c: true, other: false} {
		_, err := client.Mutex("a").TryLock(t.Context())
		if taken := wantTakenBy(t, err, "a", held.Owner()); taken.Own != own {
			t.Errorf("%+v, want own: %v", taken, own)
		}
		limit := timed{t.Context(), make(chan struct{})}
		waits := goLocks(t, limit, client.Mutex("a"), seen, 1)[0]
		close(limit.over)
		if taken := wantTakenBy(t, awaitError(t, waits), "a", held.Owner()); taken.Own != own {
			t.Errorf("after a wait: %+v, want own: %v", taken, own)
		}
	}
	release(t, held)
}
