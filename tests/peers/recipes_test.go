package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// The classic recipes for locks on Redis, each with what it gets wrong, and the kind of redlatch's
// that does not. docs/choosing.md names these tests.

// TestRecipeSetNXThenExpire: a process that dies between the two commands leaves a lock that never
// ends.
func TestRecipeSetNXThenExpire(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SETNX", "recipe", "me")
	// Here the process dies, and EXPIRE is never sent.
	if got := s.Do("PTTL", "recipe"); got != "-1" {
		t.Fatalf("PTTL = %s, want -1: the lock would stay for ever", got)
	}

	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	locktest.Lock(t, c.Mutex("a"))
	if left, _ := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a"))); left <= 0 {
		t.Errorf("PTTL of a mutex = %d ms, want a positive number from the first moment on", left)
	}
}

// TestRecipeGetSetWithTimestamps: the value is when the lock ends, and GETSET decides who takes
// over. The clocks are the clients', and who comes second has moved the end of the lock that it did
// not get.
func TestRecipeGetSetWithTimestamps(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "recipe", "1000") // ended long ago
	first := s.Do("GETSET", "recipe", "2000000")
	second := s.Do("GETSET", "recipe", "3000000")
	if first != "1000" || second == "1000" {
		t.Fatal("want the first to see the old end, and so to hold, and the second not")
	}
	if got := s.Do("GET", "recipe"); got != "3000000" {
		t.Fatalf("the lock ends at %s: want what the loser wrote", got)
	}

	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	l := locktest.Lock(t, c.Mutex("a"))
	if _, err := locktest.Open(t, s.URL(), help.Brisk(2*help.Lasting)).Mutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, want ErrTaken", err)
	}
	if left, _ := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a"))); s.Do("GET", locktest.StateKey("a")) != l.Owner() || time.Duration(left)*time.Millisecond > help.Lasting {
		t.Errorf("the loser changed the lock: %d ms are left", left)
	}
}

// TestRecipeDelWithoutOwner: who deletes the key without looking deletes the lock of whoever came
// after it.
func TestRecipeDelWithoutOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "recipe", "late", "NX", "PX", "1")
	locktest.Eventually(t, "the first lock is over", func() bool { return s.Do("EXISTS", "recipe") == "0" })
	s.Do("SET", "recipe", "next", "NX", "PX", "100000")
	s.Do("DEL", "recipe") // the late one is done
	if s.Do("SET", "recipe", "third", "NX", "PX", "100000") != "OK" {
		t.Fatal("want a third inside beside the second")
	}

	c := locktest.Open(t, s.URL(), help.InOrder(help.Brisk(help.Lasting)))
	late := locktest.Lock(t, c.Mutex("a"))
	s.Do("DEL", locktest.StateKey("a")) // its time is over
	next := locktest.Lock(t, c.Mutex("a"))
	check.Error(t, "Release of the late one", late.Release(t.Context()), redlatch.ErrNotHeld)
	if s.Do("GET", locktest.StateKey("a")) != next.Owner() {
		t.Error("the late one took the lock from the next")
	}
}

// TestRecipeCompareAndDelete: the best of the short recipes has no fencing token: the late write of
// a holder that was suspended cannot be told from that of the next. And whoever polls first gets
// in, not who came first.
func TestRecipeCompareAndDelete(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "recipe", "early", "NX", "PX", "1")
	locktest.Eventually(t, "the first lock is over", func() bool { return s.Do("EXISTS", "recipe") == "0" })
	s.Do("SET", "recipe", "next", "NX", "PX", "100000")
	s.Do("SET", "resource", "of next")
	s.Do("SET", "resource", "of early") // it wakes up, and writes what it was about to
	if s.Do("GET", "resource") != "of early" {
		t.Fatal("want the late write to be there")
	}

	c := locktest.Open(t, s.URL(), help.InOrder(help.Brisk(help.Lasting)))
	early := locktest.Lock(t, c.Mutex("a"))
	token := early.Token()
	s.Do("DEL", locktest.StateKey("a"))
	next := locktest.Lock(t, c.Mutex("a"))
	if next.Token() <= token {
		t.Errorf("tokens %d and then %d: a resource could not refuse the earlier one", token, next.Token())
	}
}

// TestRecipeHashReentryByCount: a re-entry that is sent again, because its reply was lost, counts
// twice, and one release is not enough.
func TestRecipeHashReentryByCount(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for range 2 { // the second is the first, sent again
		s.Do("HINCRBY", "recipe", "me", "1")
	}
	if got := s.Do("HINCRBY", "recipe", "me", "-1"); got != "1" {
		t.Fatalf("count %s after the release, want 1: it stays locked", got)
	}

	p := wire.StartProxy(t, s)
	c := locktest.Open(t, p.URL(), help.Sluggish())
	m := c.ReentrantMutex("a")
	ctx := redlatch.WithOwner(t.Context(), "me")
	warm := check.Value(m.Lock(ctx)).OK(t)
	locktest.Release(t, warm)
	p.Swallow(wire.Replies)
	result := help.GoAcquire(func() (*redlatch.Lease, error) { return m.Lock(ctx) })
	locktest.Eventually(t, "it is inside", func() bool { return s.Do("HGET", locktest.StateKey("a"), "me") == "1" })
	p.Heal()
	l := help.Await(t, result)
	if got := s.Do("HGET", locktest.StateKey("a"), "me"); got != "1" {
		t.Errorf("count %s after the resend, want 1", got)
	}
	locktest.Release(t, l)
	if got := s.Do("EXISTS", locktest.StateKey("a")); got != "0" {
		t.Error("the owner is still inside")
	}
}

// TestRecipeReaderCounter: one key counts the readers, another has the writer. A reader that dies
// is counted for ever.
func TestRecipeReaderCounter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("INCR", "recipe:readers")
	// The reader dies, and DECR is never sent. A TTL on the counter would end the other readers'
	// locks with it.
	if got := s.Do("GET", "recipe:readers"); got != "1" {
		t.Fatalf("%s readers, want 1: no writer gets in any more", got)
	}

	dead := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(500*time.Millisecond))).OK(t)
	check.OK(t, "RLock", check.ErrorOf(dead.RWMutex("a").RLock(t.Context())))
	if err := locktest.CloseLeaving(dead); err != nil { // it holds on, as if it had died
		t.Fatal(err)
	}
	w, err := locktest.Open(t, s.URL(), help.Sluggish()).RWMutex("a").Lock(locktest.Within(t, locktest.Patience))
	if err != nil {
		t.Fatalf("Lock after a reader died = %v, want a lease", err)
	}
	locktest.Release(t, w)
}

// TestRecipeReadersInOneHash: a field for each reader, and one TTL for all. A reader that dies
// lives on for as long as others come, so a writer starves.
func TestRecipeReadersInOneHash(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("HSET", "recipe", "dead", "1")
	for i := range 3 { // readers come and go, and each extends the one TTL
		reader := fmt.Sprint("reader ", i)
		s.Do("HSET", "recipe", reader, "1")
		s.Do("PEXPIRE", "recipe", "100000")
		s.Do("HDEL", "recipe", reader)
	}
	if got := s.Do("HLEN", "recipe"); got != "1" {
		t.Fatalf("%s fields, want 1: the dead reader keeps the writer out", got)
	}

	c := locktest.Open(t, s.URL(), help.Sluggish())
	help.Hearing(t, s, c)
	m := c.RWMutex("a")
	first := check.Value(m.RLock(t.Context())).OK(t)
	writer := help.GoAcquire(func() (*redlatch.Lease, error) { return m.Lock(t.Context()) })
	locktest.InLine(t, s, "a", 1)
	for range 3 {
		if _, err := m.TryRLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryRLock = %v, want ErrTaken: a writer waits", err)
		}
	}
	locktest.Release(t, first)
	locktest.Release(t, help.Await(t, writer))
}

// TestRecipeScanForAFreeID: SET NX on id:0, id:1, ... until one succeeds: n requests when n are
// taken; and a number whose holder vanished is another's at once, while the holder may still use
// it.
func TestRecipeScanForAFreeID(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const taken = 50
	for i := range taken {
		s.Do("SET", fmt.Sprint("recipe:", i), "somebody", "NX", "PX", "100000")
	}
	requests := 0
	for i := 0; ; i++ {
		requests++
		if s.Do("SET", fmt.Sprint("recipe:", i), "me", "NX", "PX", "1") == "OK" {
			break
		}
	}
	locktest.Eventually(t, "the holder is late", func() bool { return s.Do("EXISTS", "recipe:50") == "0" })
	if s.Do("SET", "recipe:50", "next", "NX", "PX", "100000") != "OK" || requests != taken+1 {
		t.Fatalf("%d requests, want %d, and the number given again at once", requests, taken+1)
	}

	c := locktest.Open(t, s.URL(), help.Sluggish())
	pool := c.SlotPool("a", taken+2, redlatch.SlotOptions{Quarantine: time.Hour})
	for range taken {
		check.OK(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())))
	}
	calls := func() int { return help.Evalshas(s.Do("INFO", "commandstats")) }
	before := calls()
	slot, err := pool.TryAcquire(t.Context())
	if err != nil || calls()-before != 1 {
		t.Fatalf("TryAcquire = %v with %d requests, want 1", err, calls()-before)
	}
	help.Vanish(s, "a", slot.Owner(), time.Hour)
	check.Error(t, "Extend of a slot at rest", slot.Extend(t.Context()), redlatch.ErrNotHeld)
	next := check.Value(pool.TryAcquire(t.Context())).OK(t)
	if id, _ := next.ID(); id != taken+1 {
		t.Errorf("slot %d, want %d: the one whose holder vanished rests", id, taken+1)
	}
}

// TestRecipeLastRun: a job looks when it last ran, and then runs. Two that look at the same time
// both run.
func TestRecipeLastRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one, other := s.Do("GET", "recipe:last_run"), s.Do("GET", "recipe:last_run")
	if one != "" || other != "" {
		t.Fatal("want both to see that it did not run yet, and so to run")
	}

	runs := 0
	for _, c := range help.Several(t, s, 2, help.Brisk(help.Lasting)) {
		_, err := c.Job("a", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(context.Context, *redlatch.Lease) error {
			runs++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}
