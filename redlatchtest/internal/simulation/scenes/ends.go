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

// This file checks how work under a lock ends: when it panics, when the client is closed, when the
// lock is taken away.

// closed closes a client that has a lease and a waiter.
func closed(a *player) {
	name, other := a.scene("dead"), a.scene("dead")
	ctx := a.Ctx
	if a.Harmless() && a.OneIn(2) { // Close panics if the hook does, after all has ended
		ctx = world.PanicAt(ctx, redlatch.EventLost)
	}
	p := a.meets(func(o *redlatch.Options) { o.Hook = world.Startle })
	l := a.has(p.Mutex(name).TryLock(ctx))
	second := a.has(p.Mutex(other).TryLock(ctx))
	if a.OneIn(2) {
		drop(second)
	}
	w := a.waits(func() (*redlatch.Lease, error) { return p.Mutex(name).Lock(a.Ctx) })
	a.Rest(4 * a.Trip())
	held, both := l.Held(), second.Held()
	err := world.Startled(p.Close)
	left := (*redlatch.LeftError)(nil)
	a.Alwaysf(!held || errors.As(err, &left) || ctx != a.Ctx, "Close with a lease that is held: %v", err)
	if left != nil && held {
		a.Alwaysf((len(left.Leases) == 2) == both && slices.ContainsFunc(left.Leases, func(i redlatch.LeaseInfo) bool { return i.Name == name }), "Close tells %v of the lease on %q", err, name)
	}
	a.Alwaysf(!l.Held() && l.Context().Err() != nil && !second.Held(), "a lease is held when its client is closed")
	a.Alwaysf(!held || lostBy(l.Err(), redlatch.LossClosed), "the lease of a client that was closed says %v", l.Err())
	<-w.ended
	a.Wantf(errors.Is(w.err, redlatch.ErrClosed), "a waiter of a client that is closed: %v", w.err)
	again, err := p.Mutex(other).TryLock(a.Ctx)
	a.Alwaysf(err != nil, "a client that is closed locks")
	drop(again)
}

// form is a way to call a function under a lock.
type form func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error

// doing has the methods of a lock that call a function.
type doing struct {
	kind    string
	do, try form
	taken   locker // keeps the others out
}

func (a *player) doings(c *redlatch.Client, name string) []doing {
	slots := c.SlotPool(name, 1, redlatch.SlotOptions{})
	slot := func(of func(context.Context, func(context.Context, *redlatch.Slot) error) error) form {
		return func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
			return of(ctx, func(ctx context.Context, s *redlatch.Slot) error {
				if s == nil {
					return f(ctx, nil)
				}
				return f(ctx, s.Lease)
			})
		}
	}
	all := []doing{
		{"mutex", c.Mutex(name).Do, c.Mutex(name).TryDo, pair(a.Client.Mutex(name))},
		{"slotpool", slot(slots.Do), slot(slots.TryDo), pooled(a.Client.SlotPool(name, 1, redlatch.SlotOptions{}))},
	}
	if a.Plan.Quorum() {
		return all
	}
	rw, reads, s := c.RWMutex(name), a.Client.RWMutex(name), c.Semaphore(name, 1)
	permit := func(of func(context.Context, int64, func(context.Context, *redlatch.Lease) error) error) form {
		return func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error { return of(ctx, 1, f) }
	}
	taken := a.Client.Semaphore(name, 1)
	return append(all,
		doing{"reentrant", c.ReentrantMutex(name).Do, c.ReentrantMutex(name).TryDo, pair(a.Client.ReentrantMutex(name))},
		doing{"writer", rw.Do, rw.TryDo, locker{reads.RLock, reads.TryRLock}},
		doing{"reader", rw.RDo, rw.TryRDo, pair(reads)},
		doing{"semaphore", permit(s.Do), permit(s.TryDo), asking(taken.Acquire, taken.TryAcquire, 1)},
	)
}

// does runs functions under a lock of any kind: while it is taken, to their end, and into a panic.
func does(a *player) {
	all := a.doings(a.meets().Client, a.scene("does"))
	k := all[a.Random.IntN(len(all))]
	l := a.has(k.taken.try(a.Ctx))
	ran := 0
	err := k.try(a.Ctx, func(context.Context, *redlatch.Lease) error { ran++; return nil })
	a.Wantf(!l.Held() || errors.Is(err, redlatch.ErrTaken) && ran == 0, "TryDo of a %s that is taken runs %d times: %v", k.kind, ran, err)
	a.Alwaysf(err == nil || ran == 0 || !errors.Is(err, redlatch.ErrTaken), "TryDo of a %s runs and says %v", k.kind, err)
	drop(l)
	for _, call := range []form{k.do, k.try} {
		var inner *redlatch.Lease
		mine := errors.New("mine")
		err := call(a.Ctx, func(ctx context.Context, l *redlatch.Lease) error {
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
			_ = call(a.Ctx, func(ctx context.Context, l *redlatch.Lease) error {
				inner = l
				panic("as asked")
			})
		}()
		a.Alwaysf(inner == nil || !inner.Held(), "a lease on a %s is held after a panic", k.kind)
	}
	l, err = k.taken.try(a.Ctx)
	a.wantDone(err, "a try of a %s whose functions have ended", k.kind)
	drop(l)
}

// outlives holds a lease for longer than the context of its Lock. The hook is told once.
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
	ctx, cancel := context.WithCancel(a.Ctx)
	l, err := p.Mutex(name).TryLock(ctx)
	cancel()
	a.needs(err == nil)
	a.Rest(2 * time.Second)
	if l.Held() {
		a.Wantf(n == 1, "that a lease outlives its context is told %d times", n)
		own := p.Leases()
		a.Wantf(slices.ContainsFunc(own, func(i redlatch.LeaseInfo) bool { return i.Name == name }), "the leases of a client are %v", own)
	}
	drop(l)
	a.Wantf(len(p.Leases()) == 0, "the leases of a client when all is released are %v", fmt.Sprint(p.Leases()))
}

// windowed begins a run of a job, which ends in some way or does not begin. Another client can run
// the job as soon as the window and the run are over, and not before.
func windowed(a *player) {
	const window, ttl = 900 * time.Millisecond, 300 * time.Millisecond
	name := a.scene("dead")
	p := a.meets(patient, func(o *redlatch.Options) { o.Lock.TTL = ttl })
	run := func(c *redlatch.Client, ctx context.Context, f func()) (bool, error) {
		return c.Job(name, redlatch.JobOptions{Window: window}).Do(ctx, func(context.Context, *redlatch.Lease) error {
			f()
			return nil
		})
	}
	ctx, way, dies := a.Ctx, a.Random.IntN(5), false
	first := time.Now().Add(window) // when another run can begin, at the earliest and at the latest
	last := time.Now().Add(sent)    // by then the client has looked twice for what it began
	switch way {
	case 0: // its caller is gone when the run may begin
		ctx, first = a.within(a.Plan.Delay.Least), time.Now()
	case 1, 2: // the client is told late
		p.meets(name, resent[way-1], 0)
	}
	ran, err := run(p.Client, ctx, func() {
		last = time.Now().Add(window)
		switch way {
		case 3:
			dies = true
			p.dies()
		case 4: // the run takes longer than the window
			a.Rest(window + ttl)
			first, last = time.Now(), time.Now()
		default:
			a.Rest(a.UpTo(ttl))
		}
	})
	a.Wantf(ran == (way != 0) && (err == nil) == (ran && !dies), "a first run of a job, in the way %d: %t, %v", way, ran, err)
	pause := func() time.Duration { return max(5*time.Millisecond, min(time.Until(first), time.Until(last))/4) }
	for ran = false; !ran && time.Since(last) < time.Second && a.Ctx.Err() == nil; a.Rest(pause()) {
		ran, err = run(a.Client, a.Ctx, func() {})
		a.Wantf(err == nil, "a run beside another: %v", err)
		a.Wantf(!ran || time.Until(first) < 2*time.Millisecond, "a job runs again %v too early, in the way %d", time.Until(first), way)
		a.Wantf(ran || time.Since(last) < 30*time.Millisecond+4*a.Trip(), "a job does not run again %v after it can, in the way %d", time.Since(last), way)
	}
}
