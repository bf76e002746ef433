package tests

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestTokensGrowOverEverything: counters restart at 1 with FLUSHALL, a restart or their own TTL
// (lynx-redis-lock), or are kept for ever (redisson#6510).
func TestTokensGrowOverEverything(t *testing.T) {
	t.Parallel()
	tokensGrow(t, func(c *redlatch.Client) *redlatch.Lease { return lock(t, c.Mutex("a")) })
}

// TestTokensOfAnotherKindGrowOverEverything: a mutex that is free gets its token in another way than
// all else.
func TestTokensOfAnotherKindGrowOverEverything(t *testing.T) {
	t.Parallel()
	tokensGrow(t, func(c *redlatch.Client) *redlatch.Lease {
		l, err := c.RWMutex("a").Lock(within(t, patience))
		if err != nil {
			t.Fatalf("Lock = %v", err)
		}
		return l
	})
}

// tokensGrow wants the tokens of a name to grow, whatever happens in between.
func tokensGrow(t *testing.T, lock func(*redlatch.Client) *redlatch.Lease) {
	t.Helper()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), inOrder(sluggish())), open(t, s.URL(), inOrder(sluggish()))
	var last int64
	acquired := func(after string, l *redlatch.Lease) *redlatch.Lease {
		t.Helper()
		if token := l.Token(); token <= last {
			t.Errorf("token %d after %d, over %s, want more", token, last, after)
		} else {
			last = token
		}
		return l
	}
	steps := []struct {
		what string
		do   func(*redlatch.Lease)
	}{
		{"a release", func(l *redlatch.Lease) { release(t, l) }},
		{"an expiry", func(*redlatch.Lease) { s.Do("PEXPIRE", stateKey("a"), "1") }},
		{"a deleted key", func(*redlatch.Lease) { s.Do("DEL", stateKey("a")) }},
		{"a force-release", func(l *redlatch.Lease) {
			if _, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: l.Owner()}); err != nil {
				t.Errorf("ForceRelease = %v", err)
			}
		}},
		{"FLUSHALL", func(*redlatch.Lease) { s.Do("FLUSHALL") }},
		{"kill -9 and a restart without data", func(*redlatch.Lease) { s.Kill(); s.Restart() }},
		{"a deleted fence", func(l *redlatch.Lease) { s.Do("DEL", fenceKey("a")); release(t, l) }},
		{"a fence ahead of the clock", func(l *redlatch.Lease) {
			s.Do("SET", fenceKey("a"), "4000000000000000")
			release(t, l)
			last = 4000000000000000
		}},
		{"that, and again", func(l *redlatch.Lease) { release(t, l) }},
	}
	l := acquired("nothing", lock(a))
	for i, step := range steps {
		step.do(l)
		c := a
		if i%2 == 0 {
			c = b
		}
		l = acquired(step.what, lock(c))
	}
	release(t, l)
}

// TestWaitersGetTokensInOrder: Redisson's re-entry raises the token, and its in-band -1 can mean
// both "got it" and "no TTL".
func TestWaitersGetTokensInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), inOrder(sluggish())), open(t, s.URL(), inOrder(sluggish()))
	last := lock(t, a.Mutex("a"))
	results := make(chan outcome, 20)
	for i := range cap(results) {
		c := a
		if i%2 == 0 {
			c = b
		}
		go func() {
			l, err := c.Mutex("a").Lock(within(t, patience))
			results <- outcome{l, err}
		}()
	}
	queued(t, s, "a", cap(results))
	for range cap(results) {
		token := last.Token()
		release(t, last)
		next := await(t, results)
		if next.Token() <= token {
			t.Errorf("token %d after %d, want more", next.Token(), token)
		}
		last = next
	}
	release(t, last)
}

// TestForceReleaseMakesTheOldTokenStale: a force-release lets nobody in by itself, and still the
// old holder's writes must be refused.
func TestForceReleaseMakesTheOldTokenStale(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	hearing(t, s, a)
	l := lock(t, a.Mutex("a"))
	token := l.Token()
	if _, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: "somebody else"}); !errors.Is(err, redlatch.ErrNotHeld) || !l.Held() {
		t.Errorf("ForceRelease from another owner = %v, Held %v, want ErrNotHeld and true", err, l.Held())
	}
	before, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})
	if err != nil || len(before.Holders) != 1 || before.Holders[0].Owner != l.Owner() || before.Token != token {
		t.Errorf("ForceRelease = %+v, %v, want the holder %s with token %d", before, err, l.Owner(), token)
	}
	wantLost(t, l) // at once, as it listens: the TTL is an hour
	after, err := b.Inspect(t.Context(), "a")
	if err != nil || after.Token <= token || len(after.Holders) != 0 {
		t.Errorf("Inspect = %+v, %v, want nobody inside and a token above %d", after, err, token)
	}
	if _, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ForceRelease of a free name = %v, want ErrNotHeld", err)
	}
}
