package scenes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// crossed locks two names under the lease of the first, in either order, so that goroutines of one
// client would wait for each other forever. One of them is told.
func crossed(a *player) {
	first, second := "cross-0", "cross-1"
	if a.OneIn(2) {
		first, second = second, first
	}
	q := world.Acquisition{Kind: history.Mutex, Name: first, Wait: true, TTL: a.Plan.TTL}
	q.Take = a.Client.Mutex(first).Lock
	q.Enter = func(l *redlatch.Lease) {
		again, err := a.Client.Mutex(first).TryLock(l.Context())
		drop(again)
		a.Wantf(errors.Is(err, redlatch.ErrDeadlock) || !l.Held(), "a try of %q under its own lease: %v", first, err)
		inner := world.Acquisition{Kind: history.Mutex, Name: second, Wait: true, TTL: a.Plan.TTL, Under: l}
		inner.Take = func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := a.Client.Mutex(second).Lock(ctx)
			if errors.Is(err, redlatch.ErrDeadlock) {
				err = errors.Join(err, redlatch.ErrTaken)
			}
			return l, err
		}
		a.Acquire(inner)
	}
	a.Acquire(q)
}

// downgraded writes, and goes on reading, beside other readers and writers.
func downgraded(a *player) {
	m := a.Client.RWMutex("rw")
	q := world.Acquisition{Kind: history.RWMutex, Name: "rw", Mode: "w", Wait: true, TTL: a.Plan.TTL, Take: m.Lock}
	op := a.Asks(q)
	ctx, cancel := a.Patience()
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		a.Refused(op, q, err)
		return
	}
	a.Granted(op, q, l)
	a.Look(op, l)
	reads := world.Acquisition{Kind: history.RWMutex, Name: "rw", Mode: "r", TTL: a.Plan.TTL}
	reading := a.Asks(reads)
	a.Look(op, l)
	call := a.Call(history.Event{Type: history.Release, Of: op})
	r, err := m.Downgrade(a.Ctx, l)
	if err != nil {
		a.Refused(reading, reads, errors.Join(err, redlatch.ErrTaken))
		a.Wantf(!l.Held(), "Downgrade = %v", err)
		drop(l)
		return
	}
	a.Released(call, nil)
	a.Wantf(!l.Held(), "the lease for writing is held after Downgrade")
	a.Hold(reading, reads, r)
}

// named enters a reentrant mutex as an owner that goroutines of several clients share.
func named(a *player) {
	m := a.Client.ReentrantMutex("named")
	owner := fmt.Sprint("flow-", a.Random.IntN(2))
	ctx, cancel := a.Patience()
	defer cancel()
	l, err := m.Lock(redlatch.WithOwner(ctx, owner))
	if err != nil {
		return
	}
	s := on(a.World)
	s.mu.Lock()
	other := s.flow
	if s.flows++; s.flows == 1 {
		s.flow = owner
	}
	same := s.flow == owner
	s.mu.Unlock()
	a.Wantf(same, "%s is in a reentrant mutex beside %s", owner, other)
	a.Rest(a.UpTo(10 * time.Millisecond))
	if a.OneIn(3) {
		if inner, err := m.TryLock(l.Context()); err == nil {
			drop(inner)
			a.Wantf(l.Held(), "the release of an inner entry ended the outer one")
		} else {
			a.Wantf(l.Context().Err() != nil, "an owner cannot enter again: %v", err)
		}
	}
	s.mu.Lock()
	s.flows--
	s.mu.Unlock()
	drop(l)
}

// robbed now and then takes a mutex by force from its holder, which learns of it.
func robbed(a *player) {
	m := a.Client.Mutex("robbed")
	if !a.OneIn(4) {
		l, err := m.Lock(a.Ctx)
		if err != nil {
			return
		}
		a.Rest(a.UpTo(50 * time.Millisecond))
		if err := l.Release(context.Background()); err != nil {
			a.Wantf(forcedFor(err, "robbed"), "a lease that only force could end ended with %v", err)
		}
		return
	}
	l, err := m.TakeByForce(a.Ctx, redlatch.ForceOptions{Reason: "robbed"})
	if err != nil {
		a.Wantf(errors.Is(err, redlatch.ErrTaken), "TakeByForce = %v", err)
		return
	}
	s := on(a.World)
	s.mu.Lock()
	last := s.robbed
	s.robbed = max(last, l.Token())
	s.mu.Unlock()
	a.Wantf(l.Token() == 0 || l.Token() > last, "TakeByForce has token %d after %d", l.Token(), last)
	a.Rest(a.UpTo(20 * time.Millisecond))
	drop(l)
}
