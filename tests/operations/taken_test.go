package operations

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
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
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := help.Watched(help.Sluggish())
		c, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
		held := help.Enter(t, help.LockOf(c, kind))
		owner, mine, theirs := held.Owner(), " by this client", " by \""+held.Owner()+"\""
		l := help.LockOf(c, kind)
		if l.Kind == "reentrant" { // Redis tells only with one command more
			owner, mine, theirs = "", "; Client.Inspect or `redlatch inspect` tells by which process", "; Client.Inspect"
		}
		wanted := func(err error, own bool, text string) {
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
			n := len(seen.Of(redlatch.EventWait, l.Name))
			waiting := help.GoEnter(ctx, help.LockOf(c, kind))
			seen.Await(t, redlatch.EventWait, l.Name, n)
			cancel()
			return help.AwaitError(t, waiting)
		}
		_, err := l.Try(t.Context())
		wanted(err, true, mine)
		wanted(wait(c), true, mine)
		wanted(wait(c), true, mine) // now the client listens
		_, err = help.LockOf(other, kind).Try(t.Context())
		wanted(err, false, theirs)
		wanted(wait(other), false, theirs)
		locktest.Release(t, held)
	})
}

// TestTakenInStrictOrder: a goroutine that stands in line by itself is told as well.
func TestTakenInStrictOrder(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, help.InOrder(help.Sluggish()))
		held := locktest.Lock(t, c.Mutex("a"))
		_, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
		if taken := wantTakenBy(t, err, "a", held.Owner()); !taken.Own || taken.Since.IsZero() {
			t.Errorf("%+v, want the client's own lease", taken)
		}
		locktest.Release(t, held)
	})
}

// asking is a connection that counts the heartbeats of waiters that were answered.
type asking struct {
	conn.Conn
	answered atomic.Int64
}

func (a *asking) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := a.Conn.Eval(ctx, calls...)
	if wire.Runs(calls, " await") && results[0].Err == nil {
		a.answered.Add(1)
	}
	return results
}

// TestTakenNamesTheHolderOfNow: the holder of a minute ago may be innocent of what keeps a waiter.
func TestTakenNamesTheHolderOfNow(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, two := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
		asks, o := new(asking), help.Brisk(help.Lasting)
		o.WrapConn = func(over conn.Conn) conn.Conn { asks.Conn = over; return asks }
		waiter := locktest.Open(t, s.URL(), o)
		first := help.Enter(t, help.LockOf(one, kind))
		next := help.GoEnter(t.Context(), help.LockOf(two, kind))
		locktest.InLine(t, s, first.Name(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits := help.GoEnter(ctx, help.LockOf(waiter, kind))
		locktest.InLine(t, s, first.Name(), 2)
		locktest.Release(t, first)
		second := help.Await(t, next)
		n := asks.answered.Load()
		locktest.Eventually(t, "the waiter has asked since", func() bool { return asks.answered.Load() > n+1 })
		cancel()
		owner := second.Owner()
		if help.LockOf(one, kind).Kind == "reentrant" {
			owner = ""
		}
		wantTakenBy(t, help.AwaitError(t, waits), second.Name(), owner)
		locktest.Release(t, second)
	})
}

// TestTakenWithoutAHolder: what is closed, full or of another library is no acquisition of a client.
func TestTakenWithoutAHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	locktest.Release(t, locktest.Lock(t, c.Mutex("shut").With(redlatch.LockOptions{MinHold: time.Hour})))
	_, err := c.Mutex("shut").TryLock(t.Context())
	wantTakenBy(t, err, "shut", "")

	s.Do("SET", locktest.StateKey("foreign"), "by hand")
	_, err = c.Mutex("foreign").TryLock(t.Context())
	if taken := wantTakenBy(t, err, "foreign", "by hand"); taken.Own {
		t.Errorf("%+v is the client's own", taken)
	}

	held := locktest.Lock(t, c.Mutex("full"))
	m := c.Mutex("full").With(redlatch.LockOptions{MaxWaiters: 1})
	ctx, cancel := context.WithCancel(t.Context())
	waits := help.GoLock(ctx, m)
	locktest.InLine(t, s, "full", 1)
	_, err = m.Lock(t.Context())
	if wantTakenBy(t, err, "full", ""); !errors.Is(err, redlatch.ErrLineFull) {
		t.Errorf("%v, want ErrLineFull", err)
	}
	cancel()
	help.AwaitError(t, waits)
	_, err = c.MultiMutex("full", "other").TryLock(t.Context())
	wantTakenBy(t, err, "full", held.Owner())
	locktest.Release(t, held)
}

// TestQuorumTakenNamesTheHolder: as a majority of the nodes tells it.
func TestQuorumTakenNamesTheHolder(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	o, seen := help.Watched(help.Sluggish())
	c, other := help.OpenQuorum(t, nodes, o), help.OpenQuorum(t, nodes, o)
	held := locktest.Lock(t, c.Mutex("a"))
	for client, own := range map[*redlatch.Client]bool{c: true, other: false} {
		_, err := client.Mutex("a").TryLock(t.Context())
		if taken := wantTakenBy(t, err, "a", held.Owner()); taken.Own != own {
			t.Errorf("%+v, want own: %v", taken, own)
		}
		limit := help.Timed{Context: t.Context(), Over: make(chan struct{})}
		waits := help.GoLocks(t, limit, client.Mutex("a"), seen, 1)[0]
		close(limit.Over)
		if taken := wantTakenBy(t, help.AwaitError(t, waits), "a", held.Owner()); taken.Own != own {
			t.Errorf("after a wait: %+v, want own: %v", taken, own)
		}
	}
	locktest.Release(t, held)
}
