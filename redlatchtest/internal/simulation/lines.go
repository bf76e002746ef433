package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
)

// What is in this file is about lines: which waiter is next, and what holders and waiters are told.

// relayed has two goroutines of a client in line before another client. The first gives up, and the
// second has its place.
func relayed(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	k := sharables(name)[0]
	p, q := a.meets(patient), a.meets(patient)
	defer func() {
		_ = p.Close()
		_ = q.Close()
	}()
	l, err := k.lock(a.client, a.ctx, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	brief, giveUp := context.WithCancel(ctx)
	defer giveUp()
	first := k.waits(brief, p.Client)
	a.rest(8 * a.trip())
	second := k.waits(ctx, p.Client)
	a.rest(8 * a.trip())
	third := k.waits(ctx, q.Client)
	a.rest(8 * a.trip())
	gaveUp := a.oneIn(2)
	if gaveUp {
		giveUp()
		a.rest(8 * a.trip())
	}
	held := l.Held()
	_ = l.Release(context.Background())
	for i, w := range []*waiter{first, second, third} {
		<-w.ended
		if held && w.err == nil && i < 2 && a.harmless() {
			select {
			case <-third.ended:
				a.wantf(a.plan.strict, "a client that came later has the mutex before goroutine %d", i)
			default:
			}
		}
		if i == 0 {
			giveUp()
		}
		a.wantf(i != 1 || !gaveUp || !held || w.err == nil, "the goroutine behind the one that gave up waits behind a client that came later: %v", w.err)
		if w.err == nil && i == 1 {
			told := w.lease.Wanted()
			select {
			case <-told:
			case <-time.After(4 * a.trip()):
				a.wantf(!w.lease.Held(), "a holder is not told that another client waits")
			}
		}
		w.release()
	}
}

// wished has the holder ask whether it is waited for, before and after goroutines of its own client
// wait; and two holders of a semaphore.
func wished(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	told := func(what string, l *redlatch.Lease, wanted <-chan struct{}) {
		select {
		case <-wanted:
		case <-time.After(8 * a.trip()):
			a.wantf(!l.Held(), "%s is not told that it is waited for", what)
		}
	}
	if a.oneIn(2) {
		k := sharables(name)[0]
		l, err := k.lock(p.Client, ctx, false)
		if err != nil {
			return
		}
		wanted := l.Wanted()
		a.rest(4 * a.trip())
		first := k.waits(ctx, p.Client)
		second := k.waits(ctx, p.Client)
		told("the holder beside its own goroutines", l, wanted)
		_ = l.Release(context.Background())
		select {
		case <-first.ended:
		case <-second.ended:
			first, second = second, first
		}
		if first.err == nil {
			told("a goroutine that waited before", first.lease, first.lease.Wanted())
		}
		first.release()
		second.release()
		return
	}
	s := p.Semaphore(name, 2)
	first, err := s.TryAcquire(ctx, 1)
	if err != nil {
		return
	}
	second, err := s.TryAcquire(ctx, 1)
	if err != nil {
		_ = first.Release(context.Background())
		return
	}
	one, two := first.Wanted(), second.Wanted()
	a.rest(4 * a.trip())
	next := sharable{"semaphore", func(c *redlatch.Client, ctx context.Context, _ bool) (*redlatch.Lease, error) {
		return c.Semaphore(name, 2).Acquire(ctx, 1)
	}}.waits(ctx, a.client)
	told("the first holder of a semaphore", first, one)
	told("the second holder of a semaphore", second, two)
	_ = first.Release(context.Background())
	_ = second.Release(context.Background())
	next.release()
}

// proclaimed has a leader change its value, and an observer.
func proclaimed(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
	defer cancel()
	e := p.Election(name)
	var seen []redlatch.Leader
	done := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for leader := range a.client.Election(name).Observe(watching) {
			seen = append(seen, leader)
		}
	}()
	a.rest(4 * a.trip())
	term, err := e.TryCampaign(ctx, "one")
	if err != nil {
		stop()
		<-done
		return
	}
	a.rest(4 * a.trip())
	p.meets(name, arrivesLate, sent/2)
	err = e.Proclaim(ctx, term, "two")
	a.wantf(err == nil, "Proclaim = %v", err)
	err = e.Proclaim(ctx, term, "three")
	a.wantf(err == nil, "Proclaim = %v", err)
	a.rest(sent/2 + 4*a.trip())
	held := term.Held()
	if leader, err := a.client.Election(name).Leader(ctx); err == nil && held {
		a.wantf(leader.Value == "three", "the leader proclaims %q, and was to proclaim three", leader.Value)
	} else {
		a.wantf(!held, "Leader = %v", err)
	}
	_ = term.Release(context.Background())
	err = e.Proclaim(ctx, term, "four")
	a.wantf(err != nil, "a term that is over proclaims")
	a.rest(4 * a.trip())
	leader, err := a.client.Election(name).Leader(ctx)
	a.wantf(err != nil || leader.Value == "", "the leader when the term is over: %+v", leader)
	stop()
	<-done
	if held && a.harmless() {
		a.wantf(slices.ContainsFunc(seen, func(l redlatch.Leader) bool { return l.Value == "one" }) &&
			slices.ContainsFunc(seen, func(l redlatch.Leader) bool { return l.Value == "three" }), "an observer saw %+v", seen)
	}
}

// led runs for leader with work that returns errors.
func led(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	ctx, cancel := context.WithTimeout(a.ctx, 3*time.Second)
	defer cancel()
	p := a.meets()
	defer func() { _ = p.Close() }()
	other, err := p.Mutex(name + "-other").TryLock(ctx)
	if err != nil {
		return
	}
	runs := 0
	_, forced := p.ForceRelease(ctx, name+"-other", redlatch.ForceOptions{})
	a.rest(3 * a.trip())
	gone := other.Err()
	err = p.Election(name).Run(ctx, "value", func(context.Context, *redlatch.Lease) error {
		runs++
		return fmt.Errorf("the work failed: %w", gone)
	})
	if forced == nil && gone != nil {
		a.wantf(runs == 1 && errors.Is(err, redlatch.ErrNotHeld), "an election whose work lost another lock ran %d times: %v", runs, err)
	}
	_ = other.Release(context.Background())
}

// joined has two entries of one owner wait behind another owner. As one comes in, so does the other.
func joined(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	beat := func(o *redlatch.Options) {
		o.Heartbeat = 200 * time.Millisecond
		o.Lock.TTL = 20 * time.Second
	}
	p, q := a.meets(beat), a.meets(beat)
	defer func() {
		_ = p.Close()
		_ = q.Close()
	}()
	ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
	defer cancel()
	k := sharables(name)[1]
	l, err := k.lock(a.client, redlatch.WithOwner(ctx, "one"), false)
	if err != nil {
		return
	}
	two := redlatch.WithOwner(ctx, "two")
	first := k.waits(two, p.Client)
	second := k.waits(two, q.Client)
	a.rest(8 * a.trip())
	held := l.Held()
	_ = l.Release(context.Background())
	free := time.Now()
	<-first.ended
	<-second.ended
	for _, w := range []*waiter{first, second} {
		a.wantf(!held || w.err == nil && w.at.Sub(free) < 300*time.Millisecond+4*a.trip(), "an entry whose owner is inside waits %v: %v", w.at.Sub(free), w.err)
	}
	first.release()
	second.release()
}
