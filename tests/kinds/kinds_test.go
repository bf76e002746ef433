package kinds

import (
	"cmp"
	"context"
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

// tryDo is TryDo of a kind. f is given the lease's context and whether the lease is held.
type tryDo func(ctx context.Context, f func(ctx context.Context, held bool) error) error

// tryDos is TryDo of each kind that has it, of a lock that one acquisition at a time can hold. The
// locks have different names, but for the two modes of a RWMutex.
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
		"reader":    plain(c.RWMutex("rwmutex").TryRDo),
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

// wantRun wants TryDo to run its function under a lease, and to return the function's error.
func wantRun(t *testing.T, do tryDo) {
	t.Helper()
	var held bool
	var under context.Context
	err := do(t.Context(), func(ctx context.Context, h bool) error {
		held, under = h && ctx.Err() == nil, ctx
		return help.ErrFailed
	})
	check.That(t, errors.Is(err, help.ErrFailed) && held, "TryDo = %v, ran under a lease: %t, want the error of f, and that it ran", err, held)
	check.That(t, under != nil && under.Err() != nil, "the context of f is not done after TryDo")
}

// TestTryDo: f must not run without the lock, and TryDo must not wait for it. The lock is free as soon as
// TryDo has returned, also if f failed, or panicked: a server of net/http goes on after that. Nothing
// becomes free by itself.
func TestTryDo(t *testing.T) {
	t.Parallel()
	_, c, d := locktest.StartTwo(t, help.Sluggish())
	others := tryDos(d)
	for kind, do := range tryDos(c) {
		t.Run(kind, func(t *testing.T) {
			other := others[kind]
			if kind == "reader" { // which runs beside readers
				other = others["rwmutex"]
			}
			for _, pair := range [][2]tryDo{{do, other}, {other, do}} {
				first, second, ran := pair[0], pair[1], false
				for range 2 {
					wantRun(t, first)
					wantRun(t, second)
				}
				check.Nil(t, "TryDo", first(t.Context(), func(context.Context, bool) error {
					err := second(t.Context(), func(context.Context, bool) error { ran = true; return nil })
					check.That(t, errors.Is(err, redlatch.ErrTaken) && !ran, "TryDo of a lock that is taken = %v, ran %t, want ErrTaken and that f did not run", err, ran)
					return nil
				}))
				wantRun(t, second)
				cause := help.Recovered(func() {
					_ = first(t.Context(), func(context.Context, bool) error { panic("work") })
				})
				check.That(t, cause == "work", "TryDo panicked with %v, want work", cause)
			}
			wantRun(t, other)
		})
	}
}
