package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// harmless reports whether no fault is the reason of what this client sees.
func (a *actor) harmless() bool { return a.plan.harm == calm && a.ctx.Err() == nil }

// alwaysf fails unless something holds that none of the faults of storms takes away. The caller has
// seen that the calls it is about returned no error.
func (a *actor) alwaysf(holds bool, format string, args ...any) {
	if !holds && a.plan.harm != losses && !a.isDead() {
		a.fail("%s.%d: %s", a.name, a.number, fmt.Sprintf(format, args...))
	}
}

// wantf fails unless something holds that only a fault explains otherwise.
func (a *actor) wantf(holds bool, format string, args ...any) {
	if !holds && a.harmless() {
		a.fail("%s.%d: %s", a.name, a.number, fmt.Sprintf(format, args...))
	}
}

// crossed locks two names under the lease of the first, in either order, so that goroutines of one
// client would wait for each other for ever. One of them is told.
func crossed(a *actor) {
	first, second := "cross-0", "cross-1"
	if a.oneIn(2) {
		first, second = second, first
	}
	q := acquisition{kind: history.Mutex, name: first, wait: true, ttl: a.plan.ttl}
	q.take = a.client.Mutex(first).Lock
	q.enter = func(l *redlatch.Lease) {
		again, err := a.client.Mutex(first).TryLock(l.Context())
		if err == nil {
			_ = again.Release(context.Background())
		}
		a.wantf(errors.Is(err, redlatch.ErrDeadlock) || !l.Held(), "a try of %q under its own lease: %v", first, err)
		start := time.Now()
		inner := acquisition{kind: history.Mutex, name: second, wait: true, ttl: a.plan.ttl, under: l}
		inner.take = func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := a.client.Mutex(second).Lock(ctx)
			if errors.Is(err, redlatch.ErrDeadlock) {
				err = errors.Join(err, redlatch.ErrTaken)
			}
			return l, err
		}
		a.run(inner)
		if a.plan.clients == 1 {
			a.wantf(time.Since(start) < 10*time.Second, "goroutines of one client waited for each other for %v", time.Since(start))
		}
	}
	a.run(q)
}

// downgraded writes, and goes on reading, beside other readers and writers.
func downgraded(a *actor) {
	m := a.client.RWMutex("rw")
	q := acquisition{kind: history.RWMutex, name: "rw", mode: "w", wait: true, ttl: a.plan.ttl, take: m.Lock}
	op := a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, Mode: q.mode, Wait: true, TTL: int64(q.ttl)})
	ctx, cancel := a.patience()
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		a.refused(op, q, err)
		return
	}
	a.granted(op, q, l)
	a.look(op, l)
	reads := acquisition{kind: history.RWMutex, name: "rw", mode: "r", ttl: a.plan.ttl}
	reading := a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, Mode: "r", TTL: int64(q.ttl)})
	a.look(op, l)
	call := a.call(history.Event{Type: history.Release, Of: op})
	r, err := m.Downgrade(a.ctx, l)
	if err != nil {
		a.refused(reading, reads, errors.Join(err, redlatch.ErrTaken))
		a.wantf(!l.Held(), "Downgrade = %v", err)
		_ = l.Release(context.Background())
		return
	}
	a.note(history.Event{Type: history.Released, Op: call})
	a.wantf(!l.Held(), "the lease for writing is held after Downgrade")
	a.hold(reading, reads, r)
}

// resized changes the size of a semaphore, whose permits are not counted.
func resized(a *actor) {
	s := a.client.Semaphore("resized", 3)
	l, err := s.TryAcquire(a.ctx, 1+a.random.Int64N(2))
	if err != nil {
		a.rest(a.upTo(50 * time.Millisecond))
		return
	}
	if free, err := s.Available(a.ctx); err == nil {
		a.wantf(free >= 0 && free <= 2, "%d of 3 permits are free beside a holder", free)
	}
	a.rest(a.upTo(10 * time.Millisecond))
	_ = l.Release(context.Background())
}

// named enters a reentrant mutex as an owner that goroutines of several clients share.
func named(a *actor) {
	m := a.client.ReentrantMutex("named")
	owner := fmt.Sprint("flow-", a.random.IntN(2))
	ctx, cancel := a.patience()
	defer cancel()
	l, err := m.Lock(redlatch.WithOwner(ctx, owner))
	if err != nil {
		return
	}
	a.World.mu.Lock()
	other := a.flow
	if a.flows++; a.flows == 1 {
		a.flow = owner
	}
	same := a.flow == owner
	a.World.mu.Unlock()
	a.wantf(same, "%s is in a reentrant mutex beside %s", owner, other)
	a.rest(a.upTo(10 * time.Millisecond))
	if a.oneIn(3) {
		if inner, err := m.TryLock(l.Context()); err == nil {
			_ = inner.Release(context.Background())
			a.wantf(l.Held(), "the release of an inner entry ended the outer one")
		} else {
			a.wantf(l.Context().Err() != nil, "an owner cannot enter again: %v", err)
		}
	}
	a.World.mu.Lock()
	a.flows--
	a.World.mu.Unlock()
	_ = l.Release(context.Background())
}

// robbed takes a mutex by force from its holder, now and then, which learns of it.
func robbed(a *actor) {
	m := a.client.Mutex("robbed")
	if !a.oneIn(4) {
		l, err := m.Lock(a.ctx)
		if err != nil {
			return
		}
		a.rest(a.upTo(50 * time.Millisecond))
		if err := l.Release(context.Background()); err != nil {
			lost := (*redlatch.LostError)(nil)
			forced := errors.As(err, &lost) && lost.Reason == redlatch.LossForced
			a.wantf(forced, "a lease that only force could end ended with %v", err)
			a.wantf(!forced || lost.Force != nil && lost.Force.Reason == "robbed", "a forced loss says %+v", lost)
		}
		return
	}
	l, err := m.TakeByForce(a.ctx, redlatch.ForceOptions{Reason: "robbed"})
	if err != nil {
		a.wantf(errors.Is(err, redlatch.ErrTaken), "TakeByForce = %v", err)
		return
	}
	a.World.mu.Lock()
	last := a.marks["robbed"]
	a.marks["robbed"] = max(last, l.Token())
	a.World.mu.Unlock()
	a.wantf(l.Token() == 0 || l.Token() > last, "TakeByForce has token %d after %d", l.Token(), last)
	a.rest(a.upTo(20 * time.Millisecond))
	_ = l.Release(context.Background())
}

// panicking is the key under which a context says at which event the hook is to panic.
type panicking struct{}

// panics acquires with a hook that panics at a step of it, and looks for what stays behind.
func panics(a *actor) {
	ctx := context.WithValue(a.ctx, panicking{}, []redlatch.EventType{
		redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted, redlatch.EventReleased,
	}[a.random.IntN(4)])
	func() {
		defer func() { _ = recover() }()
		switch a.random.IntN(3) {
		case 0:
			if l, err := a.client.Mutex("panics-0").Lock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		case 1:
			if l, err := a.client.MultiMutex("panics-0", "panics-1").Lock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		default:
			if l, err := a.client.RWMutex("panics-2").RLock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		}
	}()
	a.rest(a.upTo(50 * time.Millisecond))
}

// labeled holds a lock with labels, which Inspect shows.
func labeled(a *actor) {
	ctx := redlatch.WithLabels(a.ctx, map[string]string{"request": fmt.Sprint(a.number)})
	name := fmt.Sprintf("labeled-%s-%d", a.name, a.number)
	l, err := a.client.Mutex(name).Lock(ctx)
	if err != nil {
		return
	}
	a.rest(200*time.Millisecond + 4*a.trip())
	if info, err := a.client.Inspect(a.ctx, name); err == nil && l.Held() {
		a.wantf(len(info.Holders) == 1 && info.Holders[0].Labels["request"] == fmt.Sprint(a.number), "Inspect shows %+v for a lease with labels", info)
	}
	_ = l.Release(context.Background())
	a.rest(a.upTo(time.Second))
}
