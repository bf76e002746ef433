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

// tryDo is TryDo of a kind. f is given the lease's context and whether the lease is held.
type tryDo func(ctx context.Context, f func(ctx context.Context, held bool) error) error

// tryDos is TryDo of each kind that has it, of a lock that one acquisition at a time can hold. The
// locks have different names.
func tryDos(c *redlatch.Client) map[string]tryDo {
	plain := func(do func(context.Context, func(context.Context, *redlatch.Lease) error) error) tryDo {
		return func(ctx context.Context, f func(context.Context, bool) error) error {
			return do(ctx, func(ctx context.Context, l *redlatch.Lease) error { return f(ctx, l.Held()) })
		}
	}
	semaphore := c.Semaphore("semaphore", 3)
	return map[string]tryDo{
		"mutex":     plain(c.Mutex("mutex").TryDo),
		"reentrant": plain(c.ReentrantMutex("reentrant").TryDo),
		"rwmutex":   plain(c.RWMutex("rwmutex").TryDo),
		"semaphore": plain(func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
			return semaphore.TryDo(ctx, 2, f)
		}),
		"slotpool": func(ctx context.Context, f func(context.Context, bool) error) error {
			return c.SlotPool("slotpool", 1, redlatch.SlotOptions{}).TryDo(ctx, func(ctx context.Context, s *redlatch.Slot) error {
				return f(ctx, s.Held())
			})
		},
		"multi": func(ctx context.Context, f func(context.Context, bool) error) error {
			return c.MultiMutex("one", "two").TryDo(ctx, func(ctx context.Context, l *redlatch.MultiLease) error {
				return f(ctx, l.Held())
			})
		},
	}
}

// eachTryDo runs a test for TryDo of each kind, by two clients of one server with which nothing
// becomes free by itself.
func eachTryDo(t *testing.T, test func(t *testing.T, do, other tryDo)) {
	t.Parallel()
	s := redistest.Start(t)
	one, two := tryDos(locktest.Open(t, s.URL(), help.Sluggish())), tryDos(locktest.Open(t, s.URL(), help.Sluggish()))
	for kind, do := range one {
		t.Run(kind, func(t *testing.T) { test(t, do, two[kind]) })
	}
}

// wantRun wants TryDo to run its function under a lease, and to return the function's error.
func wantRun(t *testing.T, do tryDo) {
	t.Helper()
	var held bool
	var under context.Context
	err := do(t.Context(), func(ctx context.Context, h bool) error {
		held, under = h && ctx.Err() == nil, ctx
		return help.ErrFailed
	})
	if !errors.Is(err, help.ErrFailed) || !held {
		t.Errorf("TryDo = %v, ran under a lease: %t, want the error of f, and that it ran", err, held)
	}
	if under == nil || under.Err() == nil {
		t.Error("the context of f is not done after TryDo")
	}
}

// TestTryDoReleases: the lock is free as soon as TryDo has returned, also if f failed.
func TestTryDoReleases(t *testing.T) {
	eachTryDo(t, func(t *testing.T, do, other tryDo) {
		for range 2 {
			wantRun(t, do)
			wantRun(t, other)
		}
	})
}

// TestTryDoOfATakenLock: f must not run without the lock, and TryDo must not wait for it.
func TestTryDoOfATakenLock(t *testing.T) {
	eachTryDo(t, func(t *testing.T, do, other tryDo) {
		wantTaken := func() {
			t.Helper()
			ran := false
			err := other(t.Context(), func(context.Context, bool) error { ran = true; return nil })
			if !errors.Is(err, redlatch.ErrTaken) || ran {
				t.Errorf("TryDo of a lock that is taken = %v, ran %t, want ErrTaken and that f did not run", err, ran)
			}
		}
		check.Nil(t, "TryDo", do(t.Context(), func(context.Context, bool) error { wantTaken(); return nil }))
		wantRun(t, other)
	})
}

// TestTryDoReadsBesideReaders: a reader runs beside a reader, not beside a writer.
func TestTryDoReadsBesideReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := locktest.Open(t, s.URL(), help.Sluggish()).RWMutex("a"), locktest.Open(t, s.URL(), help.Sluggish()).RWMutex("a")
	ran := 0
	count := func(context.Context, *redlatch.Lease) error { ran++; return nil }
	if err := m.TryRDo(t.Context(), func(ctx context.Context, _ *redlatch.Lease) error {
		return errors.Join(other.TryRDo(t.Context(), count), m.TryRDo(ctx, count))
	}); err != nil || ran != 2 {
		t.Errorf("readers beside a reader: %v, %d ran, want both", err, ran)
	}
	err := m.TryDo(t.Context(), func(context.Context, *redlatch.Lease) error { return other.TryRDo(t.Context(), count) })
	if !errors.Is(err, redlatch.ErrTaken) || ran != 2 {
		t.Errorf("a reader beside a writer: %v, ran %t, want ErrTaken", err, ran != 2)
	}
}

// TestTryDoReleasesAfterAPanic: a server of net/http goes on after a handler that panicked, and its
// lock would stay taken.
func TestTryDoReleasesAfterAPanic(t *testing.T) {
	eachTryDo(t, func(t *testing.T, do, other tryDo) {
		cause := help.Recovered(func() {
			_ = do(t.Context(), func(context.Context, bool) error { panic("work") })
		})
		check.That(t, cause == "work", "TryDo panicked with %v, want work", cause)
		wantRun(t, other)
	})
}
