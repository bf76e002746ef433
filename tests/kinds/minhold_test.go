package kinds

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// longHold is a minimal hold that ends with no test.
const longHold = 12 * time.Hour

// holding returns o with a minimal hold.
func holding(o redlatch.Options, d time.Duration) redlatch.Options {
	o.Lock.MinHold = d
	return o
}

// eachShutKind runs a test for every kind that a release can leave shut.
func eachShutKind(t *testing.T, test func(t *testing.T, s *redistest.Server, kind int)) {
	t.Parallel()
	for i, name := range kindtest.Kinds() {
		if name == "slotpool" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t), i)
		})
	}
}

// wantShut checks that a lock is shut for nearly d, counted from the token's time by the server's
// clock, and that nobody gets in.
func wantShut(t *testing.T, c *redlatch.Client, l kindtest.Lock, token int64, d time.Duration) {
	t.Helper()
	info, err := c.Inspect(t.Context(), l.Name)
	if err != nil || len(info.Holders) != 1 || !info.Holders[0].Resting || info.Holders[0].Foreign || info.Kind != l.Kind {
		t.Fatalf("Inspect = %+v, %v, want a %s that is at rest", info, err, l.Kind)
	}
	left := info.Holders[0].Remaining
	if left > d+2*time.Millisecond || left < d-time.Hour || info.Remaining != left {
		t.Errorf("it is shut for another %v, all in all %v, want a little less than %v", left, info.Remaining, d)
	}
	if info.Holders[0].Token != token || info.Holders[0].Client == "" {
		t.Errorf("holder %+v, want the one with the token %d", info.Holders[0], token)
	}
	check.Error(t, "a try", check.ErrorOf(l.Try(t.Context())), redlatch.ErrTaken)
}

// TestEveryKindReleasedTooEarly: it stays shut, says so, and a second release changes nothing. A
// forced release opens it.
func TestEveryKindReleasedTooEarly(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold)), locktest.Open(t, s.URL(), help.Sluggish())
		held := help.Enter(t, help.LockOf(c, kind))
		token, owner := held.Token(), held.Owner()
		locktest.Release(t, held)
		locktest.Release(t, held)
		if held.Held() || !errors.Is(held.Extend(t.Context()), redlatch.ErrNotHeld) {
			t.Error("a lease that was released is still held")
		}
		wantShut(t, other, help.LockOf(other, kind), token, longHold)
		wantShut(t, c, help.LockOf(c, kind), token, longHold)
		help.WantExpiry(t, s)

		next := help.GoEnter(t.Context(), help.LockOf(other, kind))
		locktest.InLine(t, s, held.Name(), 1)
		info, err := c.ForceRelease(t.Context(), held.Name(), redlatch.ForceOptions{})
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("ForceRelease of %s = %+v, %v, want what it was before", owner, info, err)
		}
		help.WantNext(t, next, token)
		help.WantNothingLeft(t, s, held.Name())

		locktest.Release(t, help.Enter(t, help.LockOf(c, kind)))
		if _, err := c.ForceRelease(t.Context(), held.Name(), redlatch.ForceOptions{}); err != nil { // with nobody in line
			t.Errorf("ForceRelease = %v, want nil", err)
		}
		help.WantNothingLeft(t, s, held.Name())
		if _, err := c.ForceRelease(t.Context(), held.Name(), redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrNotHeld) {
			t.Errorf("ForceRelease of what is free = %v, want ErrNotHeld", err)
		}
	})
}

// TestEveryKindOpensInTime: waiters of the same client and of another follow each other no faster
// than they may, by the server's clock, and ask for nothing but at that time: no heartbeat is near.
func TestEveryKindOpensInTime(t *testing.T) {
	const hold = 700 * time.Millisecond
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := locktest.Open(t, s.URL(), holding(help.Sluggish(), hold)), locktest.Open(t, s.URL(), holding(help.Sluggish(), hold))
		held := help.Enter(t, help.LockOf(c, kind))
		name, token := held.Name(), held.Token()
		one := help.GoEnter(t.Context(), help.LockOf(c, kind))
		locktest.InLine(t, s, name, 1)
		two := help.GoEnter(t.Context(), help.LockOf(other, kind))
		locktest.InLine(t, s, name, 2)
		stats := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
		before := help.Evalshas(stats())
		locktest.Release(t, held)
		for _, next := range []<-chan help.Outcome{one, two} {
			l := help.Await(t, next)
			if after := time.Duration(l.Token()-token) * time.Microsecond; after < hold {
				t.Errorf("it was granted %v after the last time, want %v at least", after, hold)
			}
			token = l.Token()
			locktest.Release(t, l)
		}
		// Three releases; for each of two waiters an await or two, and the record of its client.
		if n := help.Evalshas(stats()) - before; n > 12 {
			t.Errorf("%d requests, want one for each release and a few for each waiter", n)
		}
		help.WantNothingLeft(t, s, name)
	})
}

// TestEveryKindHeldForLonger: a lease that is old enough is released as any other.
func TestEveryKindHeldForLonger(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), holding(help.Sluggish(), time.Millisecond))
		held := help.Enter(t, help.LockOf(c, kind))
		began := held.Token()
		locktest.Eventually(t, "it was held for long enough", func() bool {
			now, err := strconv.ParseInt(strings.Fields(s.Do("TIME"))[0], 10, 64)
			return err == nil && now*1_000_000 > began+2000
		})
		locktest.Release(t, held)
		if got := s.Do("EXISTS", locktest.StateKey(held.Name()), help.InsideKey(held.Name())); got != "0" {
			t.Errorf("%s keys are left", got)
		}
	})
}

// TestEveryKindLostReleasesLeaveItShut: a release that is sent twice, or again in the background,
// leaves it shut as one does.
func TestEveryKindLostReleasesLeaveItShut(t *testing.T) {
	for _, m := range []wire.Mishap{wire.Unheard, wire.Unsent} {
		for _, h := range []wire.Hits{wire.First, wire.Every} {
			t.Run(m.Name+" "+h.Name, func(t *testing.T) {
				eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
					over := wire.Dial(t, s.Addr())
					t.Cleanup(func() { _ = over.Close() })
					link := &wire.Lossy{Conn: over, Hits: wire.None}
					o := help.Sluggish()
					if h.Name == wire.Every.Name { // Release gives up, and the background goes on, soon
						o = trial.Losing()
					}
					c := wire.Wrap(t, link, holding(o, longHold))
					other := locktest.Open(t, s.URL(), help.Sluggish())
					held := help.InsistLock(t, help.LockOf(c, kind).Acquire)
					token := held.Token()
					link.Harm(m, h)
					err := held.Release(t.Context())
					if unknown := errors.Is(err, redlatch.ErrUnreachable); unknown != (h.Name == wire.Every.Name) {
						t.Errorf("Release = %v, want ErrUnreachable only if no answer came", err)
					}
					link.Harm(m, wire.None)
					if h.Name == wire.Every.Name { // the background asks until Redis has said twice that it is not inside
						locktest.Eventually(t, "it is asked again", func() bool { return link.Requests() > 1 })
					}
					wantShut(t, other, help.LockOf(other, kind), token, longHold)
				})
			})
		}
	}
}

// TestGivenBackIsNotShut: an acquisition that comes to nothing closes nothing.
func TestGivenBackIsNotShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold)), locktest.Open(t, s.URL(), help.Sluggish())
	held := locktest.Lock(t, other.Mutex("b"))
	check.Error(t, "TryLock", check.ErrorOf(c.MultiMutex("a", "b").TryLock(t.Context())), redlatch.ErrTaken)
	help.AwaitFree(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	result := help.GoLock(ctx, c.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	cancel()
	locktest.Release(t, held)
	if got := help.Receive(t, result, "Lock"); got.Err == nil { // the grant was faster
		locktest.Release(t, got.Lease)
	} else {
		help.AwaitFree(t, s, "b")
	}
	both := check.Value(c.MultiMutex("c", "d").Lock(t.Context())).OK(t)
	check.Nil(t, "Release", both.Release(t.Context()))
	for _, name := range []string{"c", "d"} {
		if _, err := other.Mutex(name).TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock of %s after the release of both = %v, want ErrTaken", name, err)
		}
	}
}

// TestManyReleasesLeaveTheirNamesShut: releases that leave together may not forget what they say.
func TestManyReleasesLeaveTheirNamesShut(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold))
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			err := c.Mutex(fmt.Sprint(i)).Do(locktest.Within(t, locktest.Patience), func(context.Context, *redlatch.Lease) error { return nil })
			check.That(t, err == nil, "Do = %v", err)
		})
	}
	work.Wait()
	for i := range n {
		check.That(t, s.Do("EXISTS", locktest.StateKey(fmt.Sprint(i))) == "1", "%d is open", i)
	}
}

// TestSemaphoreBoundsHowOften: n permits, each of which is back a minimal hold after it was taken.
func TestSemaphoreBoundsHowOften(t *testing.T) {
	t.Parallel()
	const n, turns, hold = 3, 9, 400 * time.Millisecond
	s := redistest.Start(t)
	var tokens []int64
	for _, c := range help.Several(t, s, turns, holding(help.Sluggish(), hold)) {
		l := check.Value(c.Semaphore("a", n).Acquire(locktest.Within(t, locktest.Patience), 1)).OK(t)
		tokens = append(tokens, l.Token())
		locktest.Release(t, l)
	}
	for i := n; i < turns; i++ {
		if d := time.Duration(tokens[i]-tokens[i-n]) * time.Microsecond; d < hold {
			t.Errorf("%d acquisitions within %v, want %v at least", n+1, d, hold)
		}
	}
	help.WantNothingLeft(t, s, "a")
}

// TestReentrantIsShutByItsLastEntry: also for its own owner.
func TestReentrantIsShutByItsLastEntry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold))
	ctx, m := redlatch.WithOwner(t.Context(), "me"), c.ReentrantMutex("a")
	first := check.Value(m.TryLock(ctx)).OK(t)
	token := first.Token()
	second := check.Value(m.TryLock(ctx)).OK(t)
	locktest.Release(t, first)
	third := check.Value(m.TryLock(ctx)).From(t, "TryLock by the owner that is inside")
	locktest.Release(t, second)
	locktest.Release(t, third)
	check.Error(t, "TryLock by its last owner", check.ErrorOf(m.TryLock(ctx)), redlatch.ErrTaken)
	wantShut(t, c, kindtest.Lock{Kind: "reentrant", Name: "a", Try: m.TryLock}, token, longHold)
}

// TestReadersThatAreShut keep writers out and no reader.
func TestReadersThatAreShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), help.Sluggish()).RWMutex("a").With(redlatch.LockOptions{MinHold: longHold})
	for range 2 {
		l := check.Value(m.TryRLock(t.Context())).OK(t)
		locktest.Release(t, l)
	}
	check.Error(t, "TryLock", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
}

// TestOfficeThatIsShut has no leader, and those who observe are told at once.
func TestOfficeThatIsShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold)).Election("a")
	leaders := e.Observe(t.Context())
	term := check.Value(e.Campaign(t.Context(), "me")).OK(t)
	for p := help.Receive(t, leaders, "news of the leader"); p.Term == 0; {
		p = help.Receive(t, leaders, "news of the leader")
	}
	check.OK(t, "Release", term.Release(t.Context()))
	if p := help.Receive(t, leaders, "news of the end"); p.Term != 0 {
		t.Errorf("the leader is %+v, want none", p)
	}
	check.Error(t, "Leader", check.ErrorOf(e.Leader(t.Context())), redlatch.ErrNotHeld)
}

// TestFullServerShuts: it needs no memory that a full server does not have.
func TestFullServerShuts(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := locktest.Open(t, s.URL(), holding(help.Sluggish(), longHold)), locktest.Open(t, s.URL(), help.Sluggish())
		help.UseOnce(t, help.LockOf(other, kind))
		held := help.Enter(t, help.LockOf(c, kind))
		token := held.Token()
		mend := help.FillMemory(t, s)
		locktest.Release(t, held)
		mend()
		wantShut(t, other, help.LockOf(other, kind), token, longHold)
	})
}

// TestMinHoldIsRefused where it means nothing, unless it is taken away again.
func TestMinHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), holding(help.Brisk(help.Lasting), longHold))
	none := redlatch.LockOptions{MinHold: redlatch.None}
	pool, job := c.SlotPool("pool", 1, redlatch.SlotOptions{}), c.Job("job", redlatch.JobOptions{Window: time.Hour})
	work := func(context.Context, *redlatch.Lease) error { return nil }
	_, slotErr := pool.TryAcquire(t.Context())
	_, jobErr := job.Do(t.Context(), work)
	_, quorumErr := help.OpenQuorum(t, help.StartNodes(t, 3), help.Brisk(help.Lasting)).Mutex("a").With(redlatch.LockOptions{MinHold: time.Hour}).TryLock(t.Context())
	for what, err := range map[string]error{"slot pool": slotErr, "job": jobErr, "quorum": quorumErr} {
		if !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrInvalid and ErrUnsupported", what, err)
		}
	}
	if _, err := pool.With(none).TryAcquire(t.Context()); err != nil {
		t.Errorf("slot pool without it: %v", err)
	}
	if ran, err := job.With(none).Do(t.Context(), work); !ran || err != nil {
		t.Errorf("job without it: %v, %v", ran, err)
	}
}
