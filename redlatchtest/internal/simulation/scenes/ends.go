package scenes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file looks how work under a lock ends: when it panics, when the client is closed,
// when the lock is taken away.

// closed closes a client that has a lease and a waiter.
func closed(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name, other := a.scene("dead"), a.scene("dead")
	ctx := a.Ctx
	if a.Harmless() && a.OneIn(2) { // Close panics where the hook does, when all has ended
		ctx = world.PanicAt(ctx, redlatch.EventLost)
	}
	p := a.meets(func(o *redlatch.Options) { o.Hook = world.Startle })
	l, err := p.Mutex(name).TryLock(ctx)
	if err != nil {
		_ = p.Close()
		return
	}
	second, err := p.Mutex(other).TryLock(ctx)
	if err == nil && a.OneIn(2) {
		drop(second)
	}
	ended := make(chan error, 1)
	go func() {
		waited, err := p.Mutex(name).Lock(a.Ctx)
		drop(waited)
		ended <- err
	}()
	a.Rest(4 * a.Trip())
	held, both := l.Held(), second != nil && second.Held()
	err = world.Startled(p.Close)
	left := (*redlatch.LeftError)(nil)
	a.Alwaysf(!held || errors.As(err, &left) || ctx != a.Ctx, "Close with a lease that is held: %v", err)
	if left != nil && held {
		a.Alwaysf((len(left.Leases) == 2) == both && slices.ContainsFunc(left.Leases, func(i redlatch.LeaseInfo) bool { return i.Name == name }), "Close tells %v of the lease on %q", err, name)
	}
	a.Alwaysf(!l.Held() && l.Context().Err() != nil && (second == nil || !second.Held()), "a lease is held when its client is closed")
	if lost := (*redlatch.LostError)(nil); held {
		a.Alwaysf(errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossClosed, "the lease of a client that was closed says %v", l.Err())
	}
	drop(l)
	drop(second)
	err = <-ended
	a.Wantf(errors.Is(err, redlatch.ErrClosed), "a waiter of a client that is closed: %v", err)
	again, err := p.Mutex(other).TryLock(a.Ctx)
	a.Alwaysf(err != nil, "a client that is closed locks")
	drop(again)
}

// doing is the forms of a lock that call a function.
type doing struct {
	kind  string
	do    func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error
	try   func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error
	taken func(ctx context.Context) (*redlatch.Lease, error) // keeps the others out
}

func (a *player) doings(c *redlatch.Client, name string) []doing {
	slot := func(f func(context.Context, *redlatch.Lease) error) func(context.Context, *redlatch.Slot) error {
		return func(ctx context.Context, s *redlatch.Slot) error {
			if s == nil {
				return f(ctx, nil)
			}
			return f(ctx, s.Lease)
		}
	}
	pool := c.SlotPool(name, 1, redlatch.SlotOptions{})
	all := []doing{
		{"mutex", c.Mutex(name).Do, c.Mutex(name).TryDo, a.Client.Mutex(name).TryLock},
		{
			"slotpool",
			func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
				return pool.Do(ctx, slot(f))
			},
			func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
				return pool.TryDo(ctx, slot(f))
			},
			func(ctx context.Context) (*redlatch.Lease, error) {
				s, err := a.Client.SlotPool(name, 1, redlatch.SlotOptions{}).TryAcquire(ctx)
				if err != nil {
					return nil, err
				}
				return s.Lease, nil
			},
		},
	}
	if a.Plan.Quorum() {
		return all
	}
	rw, s := c.RWMutex(name), c.Semaphore(name, 1)
	return append(all,
		doing{"reentrant", c.ReentrantMutex(name).Do, c.ReentrantMutex(name).TryDo, a.Client.ReentrantMutex(name).TryLock},
		doing{"writer", rw.Do, rw.TryDo, a.Client.RWMutex(name).TryRLock},
		doing{"reader", rw.RDo, rw.TryRDo, a.Client.RWMutex(name).TryLock},
		doing{
			"semaphore",
			func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
				return s.Do(ctx, 1, f)
			},
			func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
				return s.TryDo(ctx, 1, f)
			},
			func(ctx context.Context) (*redlatch.Lease, error) {
				return a.Client.Semaphore(name, 1).TryAcquire(ctx, 1)
			},
		},
	)
}

// does runs functions under a lock of any kind: beside a holder, to their end, and into a panic.
func does(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("does")
	p := a.meets()
	defer func() { _ = p.Close() }()
	all := a.doings(p.Client, name)
	k := all[a.Random.IntN(len(all))]
	l, err := k.taken(a.Ctx)
	if err != nil {
		return
	}
	ran := 0
	err = k.try(a.Ctx, func(context.Context, *redlatch.Lease) error { ran++; return nil })
	a.Wantf(!l.Held() || errors.Is(err, redlatch.ErrTaken) && ran == 0, "TryDo of a %s that is taken runs %d times: %v", k.kind, ran, err)
	a.Alwaysf(err == nil || ran == 0 || !errors.Is(err, redlatch.ErrTaken), "TryDo of a %s runs and says %v", k.kind, err)
	drop(l)
	for _, form := range []func(context.Context, func(context.Context, *redlatch.Lease) error) error{k.do, k.try} {
		var inner *redlatch.Lease
		mine := errors.New("mine")
		err := form(a.Ctx, func(ctx context.Context, l *redlatch.Lease) error {
			inner = l
			a.Alwaysf(l != nil, "a function runs without a lease")
			return mine
		})
		a.Wantf(errors.Is(err, mine), "the form of a %s that calls a function: %v", k.kind, err)
		a.Alwaysf(inner == nil || !inner.Held(), "a lease on a %s is held after its function", k.kind)
		func() {
			defer func() {
				why := recover()
				a.Wantf(why == "as asked", "a panic in a function under a %s: %v", k.kind, why)
			}()
			_ = form(a.Ctx, func(ctx context.Context, l *redlatch.Lease) error {
				inner = l
				panic("as asked")
			})
		}()
		a.Alwaysf(inner == nil || !inner.Held(), "a lease on a %s is held after a panic", k.kind)
	}
	l, err = k.taken(a.Ctx)
	a.Wantf(err == nil, "a try of a %s whose functions have ended: %v", k.kind, err)
	drop(l)
}

// slotGone loses a slot, and asks for its number.
func slotGone(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("slot")
	p := a.meets()
	defer func() { _ = p.Close() }()
	pool := p.SlotPool(name, 2, redlatch.SlotOptions{Quarantine: 50 * time.Millisecond})
	s, err := pool.TryAcquire(a.Ctx)
	if err != nil {
		return
	}
	id, err := s.ID()
	a.Wantf(err == nil && id >= 0 && id < 2, "the number of a slot: %d, %v", id, err)
	drop(s)
	id, err = s.ID()
	a.Alwaysf(err != nil, "the number of a slot that was released is %d", id)
	if s, err = pool.TryAcquire(a.Ctx); err != nil {
		return
	}
	_, err = a.Client.ForceRelease(a.Ctx, name, redlatch.ForceOptions{})
	a.Wantf(err == nil, "ForceRelease of a slot: %v", err)
	_ = s.Extend(a.Ctx)
	id, err = s.ID()
	a.Wantf(err != nil, "the number of a slot that was taken by force is %d", id)
	drop(s)
}

// outlives holds a lease for longer than the context of its Lock. It is told once.
func outlives(a *player) {
	name := a.scene("outlives")
	n := 0
	p := a.meets(func(o *redlatch.Options) {
		o.Lock.TTL = 600 * time.Millisecond
		o.Hook = func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventOutlived {
				n++
			}
		}
	})
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithCancel(a.Ctx)
	l, err := p.Mutex(name).TryLock(ctx)
	cancel()
	if err != nil {
		return
	}
	a.Rest(2 * time.Second)
	if l.Held() {
		a.Wantf(n == 1, "that a lease outlives its context is told %d times", n)
		own := p.Leases()
		a.Wantf(slices.ContainsFunc(own, func(i redlatch.LeaseInfo) bool { return i.Name == name }), "the leases of a client are %v", own)
	}
	drop(l)
	a.Wantf(len(p.Leases()) == 0, "the leases of a client when all is released are %v", fmt.Sprint(p.Leases()))
	a.Rest(a.UpTo(3 * time.Second))
}
