package scenes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// scene returns a name that no other actor uses.
func (a *player) scene(what string) string {
	a.Rounds++
	return fmt.Sprintf("scene-%s-%s-%s-%d-%d", what, a.Role.Name, a.Name, a.Number, a.Rounds)
}

// sharable is a lock that the scenes are about.
type sharable struct {
	kind string
	lock func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error)
}

// sharables returns a lock of each kind with a name.
func sharables(name string) []sharable {
	return []sharable{
		{"mutex", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.Mutex(name)
			return world.Either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"reentrant", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.ReentrantMutex(name)
			return world.Either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"rwmutex", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.RWMutex(name)
			return world.Either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"semaphore", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			s := c.Semaphore(name, world.Permits)
			if wait {
				return s.Acquire(ctx, world.Permits)
			}
			return s.TryAcquire(ctx, world.Permits)
		}},
		{"election", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			e := c.Election(name)
			if wait {
				return e.Campaign(ctx, "value")
			}
			return e.TryCampaign(ctx, "value")
		}},
		{"slotpool", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			p := c.SlotPool(name, 1, redlatch.SlotOptions{Quarantine: time.Millisecond})
			s, err := world.Either(wait, p.Acquire, p.TryAcquire)(ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		}},
	}
}

// waiter is a goroutine that waits for a lock.
type waiter struct {
	ended chan struct{}
	lease *redlatch.Lease
	err   error
	at    time.Time // when it ended
}

// waits has a client wait for a lock.
func (k sharable) waits(ctx context.Context, c *redlatch.Client) *waiter {
	return waits(func() (*redlatch.Lease, error) { return k.lock(c, ctx, true) })
}

// waits has a goroutine wait for a lock.
func waits(lock func() (*redlatch.Lease, error)) *waiter {
	w := &waiter{ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.lease, w.err = lock()
		w.at = time.Now()
	}()
	return w
}

// within reports whether a wait ends within that time.
func (w *waiter) within(a *player, d time.Duration) bool {
	select {
	case <-w.ended:
		return true
	case <-time.After(d):
		return false
	case <-a.Ctx.Done():
		return true
	}
}

// release waits for the end of a wait, and releases what it got.
func (w *waiter) release() {
	<-w.ended
	if w.err == nil {
		_ = w.lease.Release(context.Background())
	}
}

// kinds returns a lock of each kind that the world has, with a name.
func (a *player) kinds(name string) []sharable {
	if a.Plan.Quorum() {
		return quorumKinds(name)
	}
	return sharables(name)
}

// quorumKinds returns a lock of each kind that a quorum has, with a name.
func quorumKinds(name string) []sharable {
	return slices.DeleteFunc(sharables(name), func(k sharable) bool {
		return k.kind != "mutex" && k.kind != "election" && k.kind != "slotpool"
	})
}

// wantFreeNow checks that a try gets a lock, and releases it.
func (a *player) wantFreeNow(k sharable) {
	l, err := k.lock(a.Client, a.Ctx, false)
	a.Wantf(err == nil, "a try of a %s that is free: %v", k.kind, err)
	drop(l)
}

// kept returns for how long the server keeps a key, or nothing.
func (a *player) kept(key string) (left time.Duration) {
	a.Net.Call(func() { left = time.Duration(a.At(key).Do("PTTL", key).Reply.Int) * time.Millisecond })
	return max(left, 0)
}

// wantKept checks that the server keeps a lock for as long as the last of its leases, and not for much
// longer.
func (a *player) wantKept(what, name string, leases ...*redlatch.Lease) {
	if !a.Harmless() {
		return
	}
	longest := time.Duration(0)
	for _, l := range leases {
		longest = max(longest, l.Remaining())
	}
	kept := a.kept("redlatch:" + name)
	a.Wantf(kept >= longest*99/100, "%s: the key is kept for %v, and a lease lasts for another %v", what, kept, longest)
	a.Wantf(kept <= longest*103/100+4*a.Trip()+20*time.Millisecond, "%s: the key is kept for %v, and all leases end within %v", what, kept, longest)
}
