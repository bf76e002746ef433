package faults

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// The keys of a lock end with the last place in it that is alive. Each test has a holder with a
// lease of an hour that leaves, or keeps less of it, and another holder that crashes.

// crashed is the TTL of the holder that crashes. A pause of the machine does not end it before the
// crash.
const crashed = 3 * time.Second

// wantSoon checks that acquire succeeds when the lease of the holder that crashed has ended, and
// releases what it acquired. Nothing else lets it in while the test is patient.
func wantSoon(t *testing.T, what string, acquire func(ctx context.Context) (*redlatch.Lease, error)) {
	t.Helper()
	began := time.Now()
	var l *redlatch.Lease
	var err error
	locktest.Eventually(t, what+" gets a lease, as the last holder crashed", trial.Seldom(func() bool {
		l, err = acquire(locktest.Within(t, locktest.Patience))
		check.That(t, err == nil || time.Since(began) <= locktest.Patience, "%s = %v", what, err)
		return err == nil
	}))
	t.Logf("%v, of %v", time.Since(began).Round(time.Millisecond), crashed)
	locktest.Release(t, l)
}

// wantShort checks that the keys of a lock end with the lease of the holder that crashes.
func wantShort(t *testing.T, s *redistest.Server, name string) {
	t.Helper()
	for _, key := range []string{locktest.StateKey(name), help.InsideKey(name)} {
		if left, _ := strconv.ParseInt(s.Do("PTTL", key), 10, 64); left > (crashed + 10*time.Millisecond).Milliseconds() {
			t.Errorf("%s ends in %d ms, want %v at most", key, left, crashed)
		}
	}
}

// TestReentrantEndsWithItsLastEntry: of two entries of one owner the one with the long lease is
// gone, or has a short one now, and the process of the other dies.
func TestReentrantEndsWithItsLastEntry(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	less := redlatch.LockOptions{TTL: crashed, Renew: redlatch.Off}
	ways := map[string]func(t *testing.T, long *redlatch.Lease){
		"released": func(t *testing.T, long *redlatch.Lease) { locktest.Release(t, long) },
		"adopted for less": func(t *testing.T, long *redlatch.Lease) {
			check.OK(t, "Adopt", check.ErrorOf(c.Adopt(t.Context(), help.Detach(t, long), less)))
		},
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := redlatch.WithOwner(t.Context(), "workflow 7")
			long := check.Value(c.ReentrantMutex(name).TryLock(ctx)).OK(t)
			dying, process := wire.StartMortal(t, s, help.Lasts(crashed))
			short := check.Value(dying.ReentrantMutex(name).TryLock(ctx)).OK(t)
			end(t, long)
			wantShort(t, s, name)
			err, lost := short.Extend(t.Context()), (*redlatch.LostError)(nil)
			if err != nil && (!errors.As(short.Err(), &lost) || lost.Reason != redlatch.LossExpired) {
				t.Errorf("the entry that lives on is lost, and not as on a machine that stood still for its TTL: %v", err)
			}
			process.Kill()
			wantSoon(t, "Lock by another owner", c.ReentrantMutex(name).Lock)
			wantSoon(t, "TryLock by the same owner", func(context.Context) (*redlatch.Lease, error) {
				return c.ReentrantMutex(name).TryLock(ctx)
			})
			help.WantNothingLeft(t, s, name)
		})
	}
}

// TestEveryKindEndsWithItsLastPlace: of two holders the one with the long lease is gone, or has a
// short one now, and the other crashes. The name is then free for another size and for another kind.
func TestEveryKindEndsWithItsLastPlace(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	less := redlatch.LockOptions{TTL: crashed, Renew: redlatch.Off}
	// Each makes a long lease and one of a client that is to crash, and ends the long one.
	cases := map[string]func(t *testing.T, dying *redlatch.Client, name string){
		"semaphore": func(t *testing.T, dying *redlatch.Client, name string) {
			long := check.Value(c.Semaphore(name, 3).TryAcquire(t.Context(), 1)).OK(t)
			check.Value(dying.Semaphore(name, 3).TryAcquire(t.Context(), 1)).OK(t)
			locktest.Release(t, long)
		},
		"semaphore with a minimal hold": func(t *testing.T, dying *redlatch.Client, name string) {
			held := c.Semaphore(name, 3).With(redlatch.LockOptions{MinHold: crashed / 2})
			long := check.Value(held.TryAcquire(t.Context(), 1)).OK(t)
			check.Value(dying.Semaphore(name, 3).TryAcquire(t.Context(), 1)).OK(t)
			locktest.Release(t, long)
		},
		"slotpool": func(t *testing.T, dying *redlatch.Client, name string) {
			rests := redlatch.SlotOptions{Quarantine: time.Millisecond}
			long := check.Value(c.SlotPool(name, 3, rests).TryAcquire(t.Context())).OK(t)
			check.Value(dying.SlotPool(name, 3, rests).With(less).TryAcquire(t.Context())).OK(t)
			locktest.Release(t, long.Lease)
		},
		"rwmutex": func(t *testing.T, dying *redlatch.Client, name string) {
			long := check.Value(c.RWMutex(name).TryRLock(t.Context())).OK(t)
			check.Value(dying.RWMutex(name).TryRLock(t.Context())).OK(t)
			locktest.Release(t, long)
		},
		"election": func(t *testing.T, dying *redlatch.Client, name string) {
			long := check.Value(c.Election(name).TryCampaign(t.Context(), "a:80")).OK(t)
			check.Value(dying.Adopt(t.Context(), help.Detach(t, long), less)).OK(t)
		},
		"job": func(t *testing.T, _ *redlatch.Client, name string) {
			j := c.Job(name, redlatch.JobOptions{Window: crashed})
			ran, err := j.Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error { return l.ExtendTo(ctx, help.Lasting) })
			check.Must(t, ran && err == nil, "Do = %t, %v, want a run", ran, err)
		},
	}
	for kind, leave := range cases {
		for what, next := range map[string]func(ctx context.Context, name string) (*redlatch.Lease, error){
			"another size": func(ctx context.Context, name string) (*redlatch.Lease, error) {
				if kind == "slotpool" {
					return leaseOf(c.SlotPool(name, 4, redlatch.SlotOptions{}).TryAcquire(ctx))
				}
				return c.Semaphore(name, 4).TryAcquire(ctx, 1) // for some another kind
			},
			"another kind": func(ctx context.Context, name string) (*redlatch.Lease, error) { return c.Mutex(name).TryLock(ctx) },
		} {
			t.Run(kind+" "+what, func(t *testing.T) {
				t.Parallel()
				name := kind + " " + what
				dying, process := wire.StartMortal(t, s, help.Lasts(crashed))
				leave(t, dying, name)
				process.Kill()
				wantShort(t, s, name)
				wantSoon(t, what, func(ctx context.Context) (*redlatch.Lease, error) { return next(ctx, name) })
			})
		}
	}
}

// sized is a latch with a size, of which one acquisition takes all that there is at size 1.
type sized struct {
	acquire func(c *redlatch.Client, name string, n int, wait bool) (*redlatch.Lease, error)
	resize  func(c *redlatch.Client, name string, n, to int) error
}

func (k sized) try(c *redlatch.Client, name string, n int) (*redlatch.Lease, error) {
	return k.acquire(c, name, n, false)
}

func (k sized) wait(c *redlatch.Client, name string, n int) (*redlatch.Lease, error) {
	return k.acquire(c, name, n, true)
}

func sizedKinds() map[string]sized {
	pool := func(c *redlatch.Client, name string, n int) *redlatch.SlotPool {
		return c.SlotPool(name, n, redlatch.SlotOptions{Quarantine: time.Millisecond})
	}
	ctx := context.Background()
	return map[string]sized{
		"semaphore": {
			func(c *redlatch.Client, name string, n int, wait bool) (*redlatch.Lease, error) {
				if wait {
					return c.Semaphore(name, int64(n)).Acquire(ctx, 1)
				}
				return c.Semaphore(name, int64(n)).TryAcquire(ctx, 1)
			},
			func(c *redlatch.Client, name string, n, to int) error {
				return check.ErrorOf(c.Semaphore(name, int64(n)).Resize(ctx, int64(to)))
			},
		},
		"slotpool": {
			func(c *redlatch.Client, name string, n int, wait bool) (*redlatch.Lease, error) {
				if wait {
					return leaseOf(pool(c, name, n).Acquire(ctx))
				}
				return leaseOf(pool(c, name, n).TryAcquire(ctx))
			},
			func(c *redlatch.Client, name string, n, to int) error {
				return check.ErrorOf(pool(c, name, n).Resize(ctx, to))
			},
		},
	}
}

// leaseOf returns the lease of a slot.
func leaseOf(s *redlatch.Slot, err error) (*redlatch.Lease, error) {
	if err != nil {
		return nil, err
	}
	return s.Lease, nil
}

// TestSizeThatOnlyTheDeadKnow: a latch is resized to less while a waiter is in line, and the holders
// and the waiter crash. A program with the size of before must not be refused on their account, and
// is refused as long as a waiter lives. All permits are free to a program with any number then, and Available
// says so.
func TestSizeThatOnlyTheDeadKnow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, k := range sizedKinds() {
		for _, way := range []string{"try", "wait"} {
			t.Run(way+" "+kind, func(t *testing.T) {
				t.Parallel()
				name := way + " " + kind
				next := k.try
				if way == "wait" {
					next = k.wait
				}
				c := locktest.Open(t, s.URL(), help.Sluggish())
				holder, process := wire.StartMortal(t, s, help.Lasts(4*time.Second)) // for all that comes before the crash
				dead, waiter := wire.StartMortal(t, s, help.Lasts(help.Lasting))
				for range 2 {
					check.Value(k.try(holder, name, 2)).OK(t)
				}
				result := help.GoAcquire(func() (*redlatch.Lease, error) { return k.wait(dead, name, 2) })
				locktest.InLine(t, s, name, 1)
				check.OK(t, "Resize", k.resize(c, name, 2, 1))
				if _, err := next(c, name, 2); !errors.Is(err, redlatch.ErrWrongKind) {
					t.Errorf("%s with the size of before = %v, want ErrWrongKind: a waiter lives", way, err)
				}
				available := c.Semaphore(name, 3).Available
				check.Error(t, "Available of another size", check.ErrorOf(available(t.Context())), redlatch.ErrWrongKind)
				waiter.Die(t, s, dead, result, func() (string, bool) { return help.OneMore(locktest.Line(s, name), 0) })
				process.Kill()
				if kind == "semaphore" {
					free := int64(0)
					locktest.Eventually(t, "its permits are free to a program with another number", func() bool {
						var err error
						free, err = available(t.Context())
						return err == nil
					})
					check.Equal(t, free, 3, "Available")
				}
				wantSoon(t, way+" with the size of before", func(context.Context) (*redlatch.Lease, error) { return next(c, name, 2) })
				help.WantNothingLeft(t, s, name)
			})
		}
	}
}

// TestSlotLeftInAnOutage: no request of a client arrives until its lease on a slot has ended. Its
// program has released the slot, has given up the acquisition or the Detach, or does not hear of the
// grant. No holder has vanished, so the slot does not rest. Before, it rested for the quarantine.
func TestSlotLeftInAnOutage(t *testing.T) {
	t.Parallel()
	type acquire = func(context.Context) (*redlatch.Slot, error)
	givesUp := func(t *testing.T, what string, link *wire.Lossy, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		check.Error(t, what, call(ctx), redlatch.ErrUnreachable)
		link.Harm(wire.Unsent, wire.Every)
	}
	for name, leave := range map[string]func(*testing.T, *redlatch.SlotPool, *wire.Lossy, acquire) acquire{
		"released": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			slot := check.Value(pool.TryAcquire(t.Context())).OK(t)
			link.Harm(wire.Unsent, wire.Every)
			check.Error(t, "Release", slot.Release(t.Context()), redlatch.ErrUnreachable)
			return pool.TryAcquire
		},
		"undone": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			link.Harm(wire.Unheard, wire.First)
			givesUp(t, "TryAcquire", link, func(ctx context.Context) error { return check.ErrorOf(pool.TryAcquire(ctx)) })
			return pool.TryAcquire
		},
		"detached": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, _ acquire) acquire {
			link.Harm(wire.Unheard, wire.First) // so that it gets another owner
			slot := check.Value(pool.TryAcquire(t.Context())).OK(t)
			link.Harm(wire.Unheard, wire.Second) // after an extend
			givesUp(t, "Detach", link, func(ctx context.Context) error { return check.ErrorOf(slot.Detach(ctx)) })
			return pool.TryAcquire
		},
		"unheard": func(t *testing.T, pool *redlatch.SlotPool, link *wire.Lossy, first acquire) acquire {
			slot, got := check.Value(first(t.Context())).OK(t), make(chan *redlatch.Slot, 1)
			go func() { got <- check.Value(pool.Acquire(t.Context())).OK(t) }()
			time.Sleep(time.Second)
			link.Mute(true)
			link.Harm(wire.Unsent, wire.Every)
			locktest.Release(t, slot.Lease)
			return func(context.Context) (*redlatch.Slot, error) {
				select {
				case slot := <-got:
					return slot, nil
				default:
					return nil, redlatch.ErrTaken
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				link, o := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}, redlatch.SlotOptions{Quarantine: time.Hour}
				pool := wire.Wrap(t, link, redlatch.Options{}).SlotPool("p", 1, o)
				acquire := leave(t, pool, link, s.Client(t, redlatch.Options{}).SlotPool("p", 1, o).TryAcquire)
				time.Sleep(2 * time.Minute)
				link.Mute(false)
				link.Harm(wire.Unsent, wire.None)
				time.Sleep(10 * time.Second)
				locktest.Release(t, check.Value(acquire(t.Context())).OK(t).Lease)
			})
		})
	}
}
