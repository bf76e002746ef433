package tests

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
	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/internal/redistest"
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
	if _, err := l.Try(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("a try = %v, want ErrTaken", err)
	}
}

// TestEveryKindReleasedTooEarly: it stays shut, says so, and a second release changes nothing. A
// forced release opens it.
func TestEveryKindReleasedTooEarly(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := open(t, s.URL(), holding(sluggish(), longHold)), open(t, s.URL(), sluggish())
		held := enter(t, of(c, kind))
		token, owner := held.Token(), held.Owner()
		release(t, held)
		release(t, held)
		if held.Held() || !errors.Is(held.Extend(t.Context()), redlatch.ErrNotHeld) {
			t.Error("a lease that was released is still held")
		}
		wantShut(t, other, of(other, kind), token, longHold)
		wantShut(t, c, of(c, kind), token, longHold)
		wantExpiry(t, s)

		next := goEnter(t.Context(), of(other, kind))
		queued(t, s, held.Name(), 1)
		info, err := c.ForceRelease(t.Context(), held.Name(), redlatch.ForceOptions{})
		if err != nil || len(info.Holders) != 1 {
			t.Fatalf("ForceRelease of %s = %+v, %v, want what it was before", owner, info, err)
		}
		l := await(t, next)
		if l.Token() <= token {
			t.Errorf("token %d after %d, want more", l.Token(), token)
		}
		release(t, l)
		wantNothingLeft(t, s, held.Name())

		release(t, enter(t, of(c, kind)))
		if _, err := c.ForceRelease(t.Context(), held.Name(), redlatch.ForceOptions{}); err != nil { // with nobody in line
			t.Errorf("ForceRelease = %v, want nil", err)
		}
		wantNothingLeft(t, s, held.Name())
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
		c, other := open(t, s.URL(), holding(sluggish(), hold)), open(t, s.URL(), holding(sluggish(), hold))
		held := enter(t, of(c, kind))
		name, token := held.Name(), held.Token()
		one := goEnter(t.Context(), of(c, kind))
		queued(t, s, name, 1)
		two := goEnter(t.Context(), of(other, kind))
		queued(t, s, name, 2)
		stats := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
		before := evalshas(stats())
		release(t, held)
		for _, next := range []<-chan outcome{one, two} {
			l := await(t, next)
			if after := time.Duration(l.Token()-token) * time.Microsecond; after < hold {
				t.Errorf("it was granted %v after the last time, want %v at least", after, hold)
			}
			token = l.Token()
			release(t, l)
		}
		// Three releases; for each of two waiters an await or two, and the record of its client.
		if n := evalshas(stats()) - before; n > 12 {
			t.Errorf("%d requests, want one for each release and a few for each waiter", n)
		}
		wantNothingLeft(t, s, name)
	})
}

// TestEveryKindHeldForLonger: a lease that is old enough is released as any other.
func TestEveryKindHeldForLonger(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := open(t, s.URL(), holding(sluggish(), time.Millisecond))
		held := enter(t, of(c, kind))
		began := held.Token()
		eventually(t, "it was held for long enough", func() bool {
			now, err := strconv.ParseInt(strings.Fields(s.Do("TIME"))[0], 10, 64)
			return err == nil && now*1_000_000 > began+2000
		})
		release(t, held)
		if got := s.Do("EXISTS", stateKey(held.Name()), insideKey(held.Name())); got != "0" {
			t.Errorf("%s keys are left", got)
		}
	})
}

// TestEveryKindLostReleasesLeaveItShut: a release that is sent twice, or again in the background,
// leaves it shut as one does.
func TestEveryKindLostReleasesLeaveItShut(t *testing.T) {
	for _, m := range []mishap{unheard, unsent} {
		for _, h := range []hits{first, every} {
			t.Run(m.name+" "+h.name, func(t *testing.T) {
				eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
					over := dial(t, s.Addr())
					t.Cleanup(func() { _ = over.Close() })
					link := &lossy{Conn: over, hits: none}
					o := sluggish()
					if h.name == every.name { // Release gives up, and the background goes on, soon
						o = losing()
					}
					c := wrap(t, link, holding(o, longHold))
					other := open(t, s.URL(), sluggish())
					held := insistLock(t, of(c, kind).Acquire)
					token := held.Token()
					link.harm(m, h)
					err := held.Release(t.Context())
					if unknown := errors.Is(err, redlatch.ErrUnreachable); unknown != (h.name == every.name) {
						t.Errorf("Release = %v, want ErrUnreachable only if no answer came", err)
					}
					link.harm(m, none)
					if h.name == every.name { // the background asks until Redis has said twice that it is not inside
						eventually(t, "it is asked again", func() bool { return link.requests() > 1 })
					}
					wantShut(t, other, of(other, kind), token, longHold)
				})
			})
		}
	}
}

// TestGivenBackIsNotShut: an acquisition that comes to nothing closes nothing.
func TestGivenBackIsNotShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), holding(sluggish(), longHold)), open(t, s.URL(), sluggish())
	held := lock(t, other.Mutex("b"))
	if _, err := c.MultiMutex("a", "b").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, want ErrTaken", err)
	}
	awaitFree(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	result := goLock(ctx, c.Mutex("b"))
	queued(t, s, "b", 1)
	cancel()
	release(t, held)
	if got := receive(t, result, "Lock"); got.err == nil { // the grant was faster
		release(t, got.lease)
	} else {
		awaitFree(t, s, "b")
	}
	both, err := c.MultiMutex("c", "d").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
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
	c := open(t, s.URL(), holding(sluggish(), longHold))
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			err := c.Mutex(fmt.Sprint(i)).Do(within(t, patience), func(context.Context, *redlatch.Lease) error { return nil })
			if err != nil {
				t.Errorf("Do = %v", err)
			}
		})
	}
	work.Wait()
	for i := range n {
		if s.Do("EXISTS", stateKey(fmt.Sprint(i))) != "1" {
			t.Errorf("%d is open", i)
		}
	}
}

// TestSemaphoreBoundsHowOften: n permits, each of which is back a minimal hold after it was taken.
func TestSemaphoreBoundsHowOften(t *testing.T) {
	t.Parallel()
	const n, turns, hold = 3, 9, 400 * time.Millisecond
	s := redistest.Start(t)
	var tokens []int64
	for _, c := range several(t, s, turns, holding(sluggish(), hold)) {
		l, err := c.Semaphore("a", n).Acquire(within(t, patience), 1)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, l.Token())
		release(t, l)
	}
	for i := n; i < turns; i++ {
		if d := time.Duration(tokens[i]-tokens[i-n]) * time.Microsecond; d < hold {
			t.Errorf("%d acquisitions within %v, want %v at least", n+1, d, hold)
		}
	}
	wantNothingLeft(t, s, "a")
}

// TestReentrantIsShutByItsLastEntry: also for its own owner.
func TestReentrantIsShutByItsLastEntry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), holding(sluggish(), longHold))
	ctx, m := redlatch.WithOwner(t.Context(), "me"), c.ReentrantMutex("a")
	first, err := m.TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	token := first.Token()
	second, err := m.TryLock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	release(t, first)
	third, err := m.TryLock(ctx)
	if err != nil {
		t.Fatalf("TryLock by the owner that is inside = %v, want a lease", err)
	}
	release(t, second)
	release(t, third)
	if _, err := m.TryLock(ctx); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock by its last owner = %v, want ErrTaken", err)
	}
	wantShut(t, c, kindtest.Lock{Kind: "reentrant", Name: "a", Try: m.TryLock}, token, longHold)
}

// TestReadersThatAreShut keep writers out and no reader.
func TestReadersThatAreShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), sluggish()).RWMutex("a").WithRead(redlatch.LockOptions{MinHold: longHold})
	for range 2 {
		l, err := m.TryRLock(t.Context())
		if err != nil {
			t.Fatalf("TryRLock = %v, want a lease", err)
		}
		release(t, l)
	}
	if _, err := m.TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, want ErrTaken", err)
	}
}

// TestOfficeThatIsShut has no leader, and those who observe are told at once.
func TestOfficeThatIsShut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := open(t, s.URL(), holding(sluggish(), longHold)).Election("a")
	leaders := e.Observe(t.Context())
	term, err := e.Campaign(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	for p := receive(t, leaders, "news of the leader"); p.Term == 0; {
		p = receive(t, leaders, "news of the leader")
	}
	if err := e.Resign(t.Context(), term); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, leaders, "news of the end"); p.Term != 0 {
		t.Errorf("the leader is %+v, want none", p)
	}
	if p, err := e.Leader(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Leader = %+v, %v, want ErrNotHeld", p, err)
	}
}

// TestFullServerShuts: it needs no memory that a full server does not have.
func TestFullServerShuts(t *testing.T) {
	eachShutKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c, other := open(t, s.URL(), holding(sluggish(), longHold)), open(t, s.URL(), sluggish())
		useOnce(t, of(other, kind))
		held := enter(t, of(c, kind))
		token := held.Token()
		mend := fillMemory(t, s)
		release(t, held)
		mend()
		wantShut(t, other, of(other, kind), token, longHold)
	})
}

// TestMinHoldIsRefused where it means nothing, unless it is taken away again.
func TestMinHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), holding(brisk(lasting), longHold))
	none := redlatch.LockOptions{MinHold: redlatch.None}
	pool, job := c.SlotPool("pool", 1, redlatch.SlotOptions{}), c.Job("job", redlatch.JobOptions{Window: time.Hour})
	work := func(context.Context, *redlatch.Lease) error { return nil }
	_, slotErr := pool.TryAcquire(t.Context())
	_, jobErr := job.Do(t.Context(), work)
	_, quorumErr := openQuorum(t, startNodes(t, 3), brisk(lasting)).Mutex("a").With(redlatch.LockOptions{MinHold: time.Hour}).TryLock(t.Context())
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
