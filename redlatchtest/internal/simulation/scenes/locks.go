package scenes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// scene returns a name that no other actor uses.
func (a *player) scene(what string) string {
	a.Rounds++
	return fmt.Sprintf("scene-%s-%s-%s-%d-%d", what, a.Role.Name, a.Name, a.Number, a.Rounds)
}

// locker has the functions that acquire a lock in one mode.
type locker struct {
	lock, try func(context.Context) (*redlatch.Lease, error)
}

// pair returns how to acquire these locks.
func pair(m interface {
	Lock(context.Context) (*redlatch.Lease, error)
	TryLock(context.Context) (*redlatch.Lease, error)
},
) locker {
	return locker{m.Lock, m.TryLock}
}

// asking returns how to acquire a lock with an argument: permits, or the value of a leader.
func asking[T any](lock, try func(context.Context, T) (*redlatch.Lease, error), that T) locker {
	return locker{
		func(ctx context.Context) (*redlatch.Lease, error) { return lock(ctx, that) },
		func(ctx context.Context) (*redlatch.Lease, error) { return try(ctx, that) },
	}
}

// pooled returns how to acquire a slot of a pool.
func pooled(p *redlatch.SlotPool) locker {
	leased := func(acquire func(context.Context) (*redlatch.Slot, error)) func(context.Context) (*redlatch.Lease, error) {
		return func(ctx context.Context) (*redlatch.Lease, error) {
			s, err := acquire(ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		}
	}
	return locker{leased(p.Acquire), leased(p.TryAcquire)}
}

// pool returns how to acquire a slot of a pool whose slots rest for the shortest time there is.
func pool(c *redlatch.Client, name string, size int, o redlatch.LockOptions) locker {
	return pooled(c.SlotPool(name, size, redlatch.SlotOptions{Quarantine: time.Millisecond}).With(o))
}

// sharable is a lock that the scenes are about.
type sharable struct {
	kind, name string
	by         *player
	on         func(c *redlatch.Client, o redlatch.LockOptions) locker
}

// unpooled are the kinds that have MinHold, and lines that are all of clients.
var unpooled = []string{"reentrant", "rwmutex", "semaphore", "mutex", "election"}

// sharables returns a lock of each kind with a name, for a player.
func sharables(name string, a *player) []sharable {
	return []sharable{
		{"reentrant", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			return pair(c.ReentrantMutex(name).With(o))
		}},
		{"rwmutex", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			return pair(c.RWMutex(name).With(o))
		}},
		{"semaphore", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			s := c.Semaphore(name, world.Permits).With(o)
			return asking(s.Acquire, s.TryAcquire, world.Permits)
		}},
		{"mutex", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			return pair(c.Mutex(name).With(o))
		}},
		{"election", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			e := c.Election(name).With(o)
			return asking(e.Campaign, e.TryCampaign, "value")
		}},
		{"slotpool", name, a, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			return pool(c, name, 1, o)
		}},
	}
}

// kinds returns a lock of each kind that the world has, with a name.
func (a *player) kinds(name string) []sharable {
	all := sharables(name, a)
	if a.Plan.Quorum() {
		return all[3:]
	}
	return all
}

// lock returns a lock with its own name: of one of these kinds, or of any that the world has.
func (a *player) lock(kinds ...string) sharable {
	all := a.kinds(a.scene("dead"))
	if len(kinds) > 0 {
		all = slices.DeleteFunc(all, func(k sharable) bool { return !slices.Contains(kinds, k.kind) })
	}
	return all[a.Random.IntN(len(all))]
}

// key returns the key that has the lock.
func (k sharable) key() string { return "redlatch:" + k.name }

// owned returns the scene's context, under which one owner can enter a reentrant lock again.
func (k sharable) owned() context.Context {
	if k.kind != "reentrant" {
		return k.by.Ctx
	}
	return redlatch.WithOwner(k.by.Ctx, k.name)
}

// lock acquires the lock for a client.
func (k sharable) lock(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
	l := k.on(c, redlatch.LockOptions{})
	return world.Either(wait, l.lock, l.try)(ctx)
}

// try acquires the lock for a client if it is free.
func (k sharable) try(c *redlatch.Client) (*redlatch.Lease, error) { return k.lock(c, k.by.Ctx, false) }

// heldBy makes a client acquire the lock, which is free. If it cannot, the scene ends.
func (k sharable) heldBy(c *redlatch.Client) *redlatch.Lease { return k.by.has(k.try(c)) }

// patience is how long a waiter of a scene waits at most: less than a calm world lasts, or a scene
// there would not notice that a waiter is never let in.
const patience = 7 * time.Second

// waits makes a client wait for the lock.
func (k sharable) waits(ctx context.Context, c *redlatch.Client) *waiter {
	ctx, cancel := context.WithTimeout(ctx, patience)
	k.by.later(cancel)
	return k.by.waits(func() (*redlatch.Lease, error) { return k.lock(c, ctx, true) })
}

// queues makes a client wait for the lock, and returns when it is in line.
func (k sharable) queues(ctx context.Context, c *redlatch.Client) *waiter {
	defer k.by.Rest(8 * k.by.Trip()) // a try, a subscription, a place in line
	return k.waits(ctx, c)
}

// wantFree checks that a try gets the lock, and releases it.
func (k sharable) wantFree() {
	l, err := k.try(k.by.Client)
	k.by.wantDone(err, "a try of a %s that is free", k.kind)
	drop(l)
}

// kept returns how much longer the server keeps the lock, or 0.
func (k sharable) kept() time.Duration { return k.by.kept(k.key()) }

// wantKept checks that the server keeps the lock for as long as the last of its leases.
func (k sharable) wantKept(when string, leases ...*redlatch.Lease) {
	if k.by.Plan.Quorum() || !k.by.Harmless() {
		return
	}
	kept, longest := k.kept(), longestOf(leases)
	k.by.Wantf(kept >= longest*99/100, "%s: a %s is kept for %v, and a lease lasts for another %v", when, k.kind, kept, longest)
}

// wantKeptNoLonger checks that the server keeps the lock for as long as the last of its leases, and
// not for much longer. None of them is being extended.
func (k sharable) wantKeptNoLonger(when string, leases ...*redlatch.Lease) {
	k.wantKept(when, leases...)
	a, most := k.by, longestOf(leases)*103/100+4*k.by.Trip()+20*time.Millisecond
	var kept []string
	a.Net.Call(func() {
		s := a.At(k.key())
		for _, key := range append(s.Keys("*{"+k.key()+"}*"), k.key()) {
			left := time.Duration(s.Do("PTTL", key).Reply.Int) * time.Millisecond
			if (key == k.key() || strings.HasSuffix(key, ":inside") || strings.HasSuffix(key, ":slots")) && left > most {
				kept = append(kept, fmt.Sprint(key, " for ", left))
			}
		}
	})
	a.Wantf(len(kept) == 0, "%s: of a %s, kept is %v, and all leases end within %v", when, k.kind, kept, most)
}

// longestOf returns how much longer the last of some leases lasts.
func longestOf(leases []*redlatch.Lease) (longest time.Duration) {
	for _, l := range leases {
		longest = max(longest, l.Remaining())
	}
	return longest
}

// wantBacked checks that the lock is in the server. A reentrant mutex notes its owners in another
// way.
func (k sharable) wantBacked(l *redlatch.Lease) {
	if k.kind != "reentrant" {
		k.by.WantBacked(world.Acquisition{Kind: k.kind, Name: k.name}, l)
	}
}

// wantWaiters checks how many wait for the lock, while a lease on it is held.
func (k sharable) wantWaiters(l *redlatch.Lease, want int, when string) {
	info, err := k.by.Client.Inspect(k.by.Ctx, k.name)
	k.by.Wantf(err != nil || !l.Held() || len(info.Waiters) == want, "%d wait for a %s %s, and Inspect shows %+v", want, k.kind, when, info.Waiters)
}

// waiter is a goroutine that waits for a lock.
type waiter struct {
	ended chan struct{}
	lease *redlatch.Lease
	err   error
	at    time.Time // when it ended
}

// waits starts a goroutine that waits for a lock. The scene releases its lease at the end.
func (a *player) waits(lock func() (*redlatch.Lease, error)) *waiter {
	w := &waiter{ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.lease, w.err = lock()
		w.at = time.Now()
	}()
	a.later(w.release)
	return w
}

// within reports whether a wait ends within that time.
func (w *waiter) within(a *player, d time.Duration) bool {
	select {
	case <-w.ended:
		return true
	case <-time.After(d):
		return false
	case <-a.Actor.Ctx.Done():
		return true
	}
}

// release waits for the end of a wait, and releases what it got.
func (w *waiter) release() {
	<-w.ended
	drop(w.lease)
}

// kept returns how much longer the server keeps a key, or 0.
func (a *player) kept(key string) (left time.Duration) {
	a.Net.Call(func() { left = time.Duration(a.At(key).Do("PTTL", key).Reply.Int) * time.Millisecond })
	return max(left, 0)
}
