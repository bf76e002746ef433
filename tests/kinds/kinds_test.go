package kinds

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestWithOwnerHidesNoDeadlock: a name under which others enter again means nothing to a mutex, nor to a
// caller that is inside a read-write mutex: it may read, and would wait for itself as a writer.
func TestWithOwnerHidesNoDeadlock(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, help.Sluggish())
	m := c.Mutex("a")
	held := locktest.Lock(t, m)
	check.Error(t, "Lock", check.ErrorOf(m.Lock(redlatch.WithOwner(held.Context(), "job"))), redlatch.ErrDeadlock)
	locktest.Release(t, held)
	rw := c.RWMutex("rw")
	held = check.Value(rw.Lock(t.Context())).OK(t)
	ctx := redlatch.WithOwner(held.Context(), "job")
	check.Error(t, "TryLock", check.ErrorOf(rw.TryLock(ctx)), redlatch.ErrDeadlock)
	locktest.Release(t, check.Value(rw.TryRLock(ctx)).From(t, "TryRLock"))
	locktest.Release(t, held)
}

// TestBadInput is refused before anything is sent. So are options under which a client cannot keep a
// lock, or not for so long.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	slots := func(n int, o redlatch.SlotOptions) error {
		return check.ErrorOf(c.SlotPool("a", n, o).TryAcquire(t.Context()))
	}
	semaphore := func(n, k int64) error { return check.ErrorOf(c.Semaphore("a", n).TryAcquire(t.Context(), k)) }
	once := func(o redlatch.JobOptions) error { return check.ErrorOf(c.Job("a", o).Do(t.Context(), nil)) }
	owner := func(text string) error {
		return check.ErrorOf(c.ReentrantMutex("a").TryLock(redlatch.WithOwner(t.Context(), text)))
	}
	candidate := func(value string) error {
		return check.ErrorOf(c.Election("a").TryCampaign(t.Context(), value))
	}
	multi := func(names ...string) error { return check.ErrorOf(c.MultiMutex(names...).TryLock(t.Context())) }
	kept := func(o redlatch.LockOptions) error {
		o.Linger = cmp.Or(o.Linger, time.Second)
		return check.ErrorOf(c.Mutex("a").With(o).Lock(t.Context()))
	}
	permit := c.Semaphore("a", 2).With(redlatch.LockOptions{Linger: time.Second})
	for what, err := range map[string]error{
		"no slots": slots(0, redlatch.SlotOptions{}), "-1 slots": slots(-1, redlatch.SlotOptions{}), "too many slots": slots(1<<20+1, redlatch.SlotOptions{}),
		"negative rest": slots(1, redlatch.SlotOptions{Quarantine: -1}), "instance with a tab": slots(1, redlatch.SlotOptions{Instance: "a\tb"}),
		"no permits": semaphore(0, 1), "negative permits": semaphore(-1, 1), "none of 3": semaphore(3, 0), "4 of 3": semaphore(3, 4),
		"too many permits": semaphore(1<<41, 1), "no window": once(redlatch.JobOptions{}), "negative window": once(redlatch.JobOptions{Window: -1}),
		"no owner": owner(""), "owner with a tab": owner("a\tb"), "value with a newline": candidate("a\nb"), "no names": multi(),
		"bad name among names": multi("a", "{"), "negative depth": check.ErrorOf(c.ReentrantMutex("a").WithDepth(-1).TryLock(t.Context())),
		"resize to nothing": check.ErrorOf(c.Semaphore("a", 3).Resize(t.Context(), 0)),

		"kept for longer than a third of the TTL": kept(redlatch.LockOptions{TTL: time.Second}), "negative Linger": kept(redlatch.LockOptions{Linger: -2}),
		"Linger, StrictOrder": kept(redlatch.LockOptions{StrictOrder: redlatch.On}), "Linger, MinHold": kept(redlatch.LockOptions{MinHold: time.Second}),
		"Linger, Replicas": kept(redlatch.LockOptions{Replicas: 1}), "Linger, Yield": kept(redlatch.LockOptions{Yield: redlatch.Yield{Every: 1}}),
		"Linger of a semaphore": check.ErrorOf(permit.Acquire(t.Context(), 1)),
	} {
		check.That(t, errors.Is(err, redlatch.ErrInvalid), "%s: %v, want ErrInvalid", what, err)
	}
	if got := s.Do("KEYS", "redlatch:a*"); got != "" {
		t.Errorf("keys %q are there", got)
	}
}
