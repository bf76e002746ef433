package kinds

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestWithOwnerHidesNoDeadlock: a name under which others enter again means nothing to a mutex.
func TestWithOwnerHidesNoDeadlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a")
	held := locktest.Lock(t, m)
	check.Error(t, "Lock", check.ErrorOf(m.Lock(redlatch.WithOwner(held.Context(), "job"))), redlatch.ErrDeadlock)
	locktest.Release(t, held)
}

// TestOwnersInsideGoPastTheLine: an owner that enters again, and a reader that reads once more,
// would otherwise wait for those who wait for them.
func TestOwnersInsideGoPastTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	for name, l := range map[string]struct {
		enter, wait func(context.Context) (*redlatch.Lease, error)
	}{
		"reentrant": {c.ReentrantMutex("reentrant").TryLock, other.ReentrantMutex("reentrant").Lock},
		"reader":    {c.RWMutex("reader").TryRLock, other.RWMutex("reader").Lock},
	} {
		first := check.Value(l.enter(t.Context())).OK(t)
		next := help.GoAcquire(func() (*redlatch.Lease, error) { return l.wait(t.Context()) })
		locktest.InLine(t, s, name, 1)
		second, err := l.enter(first.Context())
		if err != nil {
			t.Errorf("%s: entering again with somebody in line = %v, want a lease", name, err)
		} else {
			locktest.Release(t, second)
		}
		locktest.Release(t, first)
		locktest.Release(t, help.Await(t, next))
	}
}

// TestBadInput is refused before anything is sent.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	slots := func(n int, o redlatch.SlotOptions) error {
		_, err := c.SlotPool("a", n, o).TryAcquire(t.Context())
		return err
	}
	semaphore := func(n, k int64) error {
		_, err := c.Semaphore("a", n).TryAcquire(t.Context(), k)
		return err
	}
	once := func(o redlatch.JobOptions) error {
		_, err := c.Job("a", o).Do(t.Context(), nil)
		return err
	}
	owner := func(text string) error {
		_, err := c.ReentrantMutex("a").TryLock(redlatch.WithOwner(t.Context(), text))
		return err
	}
	candidate := func(value string) error {
		_, err := c.Election("a").TryCampaign(t.Context(), value)
		return err
	}
	multi := func(names ...string) error {
		_, err := c.MultiMutex(names...).TryLock(t.Context())
		return err
	}
	_, depth := c.ReentrantMutex("a").WithDepth(-1).TryLock(t.Context())
	_, resize := c.Semaphore("a", 3).Resize(t.Context(), 0)
	for what, err := range map[string]error{
		"no slots": slots(0, redlatch.SlotOptions{}), "-1 slots": slots(-1, redlatch.SlotOptions{}), "too many slots": slots(1<<20+1, redlatch.SlotOptions{}),
		"negative rest": slots(1, redlatch.SlotOptions{Quarantine: -1}), "instance with a tab": slots(1, redlatch.SlotOptions{Instance: "a\tb"}),
		"no permits": semaphore(0, 1), "negative permits": semaphore(-1, 1), "none of 3": semaphore(3, 0), "4 of 3": semaphore(3, 4),
		"too many permits": semaphore(1<<41, 1), "no window": once(redlatch.JobOptions{}), "negative window": once(redlatch.JobOptions{Window: -1}),
		"no owner": owner(""), "owner with a tab": owner("a\tb"), "value with a newline": candidate("a\nb"), "no names": multi(),
		"bad name among names": multi("a", "{"), "negative depth": depth, "resize to nothing": resize,
	} {
		check.That(t, errors.Is(err, redlatch.ErrInvalid), "%s: %v, want ErrInvalid", what, err)
	}
	if got := s.Do("KEYS", "redlatch:a*"); got != "" {
		t.Errorf("keys %q are there", got)
	}
}
