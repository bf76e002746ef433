package scenes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// What is in this file is about lines: which waiter is next, and what holders and waiters are told.

// silenced has goroutines of one client wait for a mutex whose server becomes silent, or slow. Each
// is told of the outage, and of none where there is none.
func silenced(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(lasting(time.Second), func(o *redlatch.Options) { o.Heartbeat = sent / 3 })
	defer func() { _ = p.Close() }()
	m := p.Mutex(name)
	holder, what := m, a.Random.IntN(3)
	if what == 0 {
		holder = a.Client.Mutex(name).With(redlatch.LockOptions{TTL: ofPatient})
	}
	l, err := holder.Lock(a.Ctx)
	if err != nil || a.Plan.Strict {
		drop(l)
		return
	}
	defer drop(l)
	ctx, cancel := context.WithTimeout(a.Ctx, ofPatient/2)
	defer cancel()
	brief, giveUp := context.WithCancel(ctx)
	if what == 2 {
		brief, giveUp = context.WithTimeout(ctx, 12*a.Trip()+sent/16)
	}
	defer giveUp()
	lock := func(ctx context.Context) *waiter {
		return waits(func() (*redlatch.Lease, error) { return m.Lock(ctx) })
	}
	all := []*waiter{lock(brief)}
	a.Rest(8 * a.Trip())
	silent := func() { p.each(func(l *wire.Link) { l.Set(wire.Silent, 20*sent) }) }
	switch what {
	case 0: // the second has its turn when the outage is known, and too little time to find it out
		silent()
		a.Rest(3 * sent)
		limit, over := context.WithTimeout(ctx, sent/8)
		defer over()
		second := lock(limit)
		a.Rest(a.Trip())
		giveUp()
		<-second.ended
		a.Wantf(errors.Is(second.err, redlatch.ErrUnreachable), "a goroutine whose turn came in an outage, and that ran out of time: %v", second.err)
	case 1: // the lease ends, and all have their turns
		for range 8 {
			all = append(all, lock(ctx))
		}
		silent()
		<-l.Context().Done()
		begun := time.Now()
		for _, w := range all {
			<-w.ended
			took := time.Since(begun)
			a.Wantf(errors.Is(w.err, redlatch.ErrUnreachable) && took <= 2*sent, "%v after the server became silent, a goroutine: %v", took, w.err)
		}
	case 2: // the answer comes after the end of the wait
		p.meets("acquire", wire.AnsweredLate, sent/6)
		drop(l)
		<-all[0].ended
		a.Wantf(!errors.Is(all[0].err, redlatch.ErrUnreachable), "a goroutine that ran out of time while its request was under way: %v", all[0].err)
	}
	giveUp()
	all[0].release()
}

// relayed has two goroutines of a client in line before another client. The first gives up, and the
// second has its place.
func relayed(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	k := sharables(name)[0]
	p, q := a.meets(patient), a.meets(patient)
	defer func() { _ = errors.Join(p.Close(), q.Close()) }()
	l, err := k.lock(a.Client, a.Ctx, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	brief, giveUp := context.WithCancel(ctx)
	defer giveUp()
	resent := a.OneIn(3) // the request that took the place in line
	if resent {
		p.meets("mutex\t", wire.ReplyLost, 0)
	}
	first := k.waits(brief, p.Client)
	a.Rest(8 * a.Trip())
	second := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	third := k.waits(ctx, q.Client)
	a.Rest(8 * a.Trip())
	if resent {
		a.Rest(sent / 2)
	}
	gaveUp := !resent && a.OneIn(2)
	if gaveUp {
		giveUp()
		a.Rest(8 * a.Trip())
	}
	held := l.Held()
	drop(l)
	for i, w := range []*waiter{first, second, third} {
		<-w.ended
		if held && w.err == nil && i < 2 && a.Harmless() {
			select {
			case <-third.ended:
				a.Wantf(a.Plan.Strict, "a client that came later has the mutex before goroutine %d", i)
			default:
			}
		}
		if i == 0 {
			giveUp()
		}
		a.Wantf(i != 1 || !gaveUp || !held || w.err == nil, "the goroutine behind the one that gave up waits behind a client that came later: %v", w.err)
		if w.err == nil && i == 1 {
			told := w.lease.Wanted()
			select {
			case <-told:
			case <-time.After(4 * a.Trip()):
				a.Wantf(!w.lease.Held(), "a holder is not told that another client waits")
			}
		}
		w.release()
	}
}

// crammed has more goroutines of a client in line than a turn serves. Other clients have the mutex after
// the first of them, and after one turn.
func crammed(a *player) {
	defer a.Rest(a.UpTo(3 * time.Second))
	if a.Plan.Strict { // each goroutine has a turn of its own
		return
	}
	k := sharables(a.scene("dead"))[0]
	p, q, r := a.meets(patient), a.meets(patient), a.meets(patient)
	defer func() { _ = errors.Join(p.Close(), q.Close(), r.Close()) }()
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	l, err := k.lock(a.Client, ctx, false)
	if err != nil {
		return
	}
	var served atomic.Int64
	var all sync.WaitGroup
	for range 160 {
		all.Go(func() {
			if l, err := k.lock(p.Client, ctx, true); err == nil {
				served.Add(1)
				drop(l)
			}
		})
	}
	a.Rest(8 * a.Trip())
	second := k.waits(ctx, q.Client)
	a.Rest(8 * a.Trip())
	held := l.Held()
	drop(l)
	<-second.ended
	first := served.Load()
	a.Rest(8 * a.Trip()) // the others are in line again
	third := k.waits(ctx, r.Client)
	a.Rest(8 * a.Trip())
	held = held && second.err == nil && second.lease.Held()
	second.release()
	<-third.ended
	n := served.Load()
	a.Wantf(!held || third.err == nil && first == 1 && n <= 1+128, "other clients have their turns after %d and %d goroutines of a client: %v", first, n, third.err)
	third.release()
	all.Wait()
}

// wished has the holder ask whether it is waited for, before and after goroutines of its own client
// wait; and two holders of a semaphore.
func wished(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	told := func(what string, l *redlatch.Lease, wanted <-chan struct{}) {
		select {
		case <-wanted:
		case <-time.After(8 * a.Trip()):
			a.Wantf(!l.Held(), "%s is not told that it is waited for", what)
		}
	}
	if a.OneIn(2) {
		k := sharables(name)[0]
		l, err := k.lock(p.Client, ctx, false)
		if err != nil {
			return
		}
		wanted := l.Wanted()
		a.Rest(4 * a.Trip())
		first := k.waits(ctx, p.Client)
		second := k.waits(ctx, p.Client)
		told("the holder beside its own goroutines", l, wanted)
		drop(l)
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
		drop(first)
		return
	}
	one, two := first.Wanted(), second.Wanted()
	a.Rest(4 * a.Trip())
	next := sharable{"semaphore", func(c *redlatch.Client, ctx context.Context, _ bool) (*redlatch.Lease, error) {
		return c.Semaphore(name, 2).Acquire(ctx, 1)
	}}.waits(ctx, a.Client)
	told("the first holder of a semaphore", first, one)
	told("the second holder of a semaphore", second, two)
	drop(first)
	drop(second)
	next.release()
}

// proclaimed has a leader change its value, and an observer.
func proclaimed(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
	defer cancel()
	e := p.Election(name)
	var seen []redlatch.Leader
	done := make(chan struct{})
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for leader := range a.Client.Election(name).Observe(watching) {
			seen = append(seen, leader)
		}
	}()
	a.Rest(4 * a.Trip())
	term, err := e.TryCampaign(ctx, "one")
	if err != nil {
		stop()
		<-done
		return
	}
	a.Rest(4 * a.Trip())
	p.meets(name, wire.ArrivesLate, sent/2)
	err = e.Proclaim(ctx, term, "two")
	a.Wantf(err == nil, "Proclaim = %v", err)
	err = e.Proclaim(ctx, term, "three")
	a.Wantf(err == nil, "Proclaim = %v", err)
	a.Rest(sent/2 + 4*a.Trip())
	held := term.Held()
	if leader, err := a.Client.Election(name).Leader(ctx); err == nil && held {
		a.Wantf(leader.Value == "three", "the leader proclaims %q, and was to proclaim three", leader.Value)
	} else {
		a.Wantf(!held, "Leader = %v", err)
	}
	if key := "redlatch:" + name; !a.Plan.Quorum() && a.OneIn(2) { // of which the client does not know
		a.Net.Call(func() { a.At(key).Do("DEL", key) })
	} else {
		drop(term)
	}
	err = e.Proclaim(ctx, term, "four")
	a.Wantf(err != nil, "a term that is over proclaims")
	drop(term)
	a.Rest(4 * a.Trip())
	leader, err := a.Client.Election(name).Leader(ctx)
	a.Wantf(err != nil || leader.Value == "", "the leader when the term is over: %+v", leader)
	stop()
	<-done
	if held && a.Harmless() {
		a.Wantf(slices.ContainsFunc(seen, func(l redlatch.Leader) bool { return l.Value == "one" }) &&
			slices.ContainsFunc(seen, func(l redlatch.Leader) bool { return l.Value == "three" }), "an observer saw %+v", seen)
	}
}

// led runs for leader with work that returns errors.
func led(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	ctx, cancel := context.WithTimeout(a.Ctx, 3*time.Second)
	defer cancel()
	p := a.meets()
	defer func() { _ = p.Close() }()
	other, err := p.Mutex(name + "-other").TryLock(ctx)
	if err != nil {
		return
	}
	runs := 0
	_, forced := p.ForceRelease(ctx, name+"-other", redlatch.ForceOptions{})
	a.Rest(3 * a.Trip())
	gone := other.Err()
	err = p.Election(name).Run(ctx, "value", func(context.Context, *redlatch.Lease) error {
		runs++
		return fmt.Errorf("the work failed: %w", gone)
	})
	if forced == nil && gone != nil {
		a.Wantf(runs == 1 && errors.Is(err, redlatch.ErrNotHeld), "an election whose work lost another lock ran %d times: %v", runs, err)
	}
	drop(other)
}

// joined has two entries of one owner wait behind another owner. As one comes in, so does the other.
func joined(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	beat := func(o *redlatch.Options) {
		o.Heartbeat = 200 * time.Millisecond
		o.Lock.TTL = 20 * time.Second
	}
	p, q := a.meets(beat), a.meets(beat)
	defer func() { _ = errors.Join(p.Close(), q.Close()) }()
	ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
	defer cancel()
	k := sharables(name)[1]
	l, err := k.lock(a.Client, redlatch.WithOwner(ctx, "one"), false)
	if err != nil {
		return
	}
	two := redlatch.WithOwner(ctx, "two")
	first := k.waits(two, p.Client)
	second := k.waits(two, q.Client)
	a.Rest(8 * a.Trip())
	held := l.Held()
	drop(l)
	free := time.Now()
	<-first.ended
	<-second.ended
	for _, w := range []*waiter{first, second} {
		a.Wantf(!held || w.err == nil && w.at.Sub(free) < 300*time.Millisecond+4*a.Trip(), "an entry whose owner is inside waits %v: %v", w.at.Sub(free), w.err)
	}
	first.release()
	second.release()
}

// woken has a waiter over a quorum. It has the lock soon after the release, whether it is told of that or
// its subscriptions end.
func woken(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	if !a.Harmless() {
		return
	}
	const heartbeat, soon = 10 * time.Second, time.Second
	beat := func(o *redlatch.Options) { o.Heartbeat = heartbeat }
	k := sharables(a.scene("dead"))[0]
	p, q := a.meets(patient, beat), a.meets(patient, beat)
	defer func() { _ = errors.Join(p.Close(), q.Close()) }()
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a try of a free mutex: %v", err)
		return
	}
	w := k.waits(a.Ctx, q.Client)
	a.Rest(soon)
	what := a.Random.IntN(3)
	switch what {
	case 1:
		q.deafens()
	case 2:
		q.mutes()
		a.Rest(soon)
	}
	drop(l)
	if what == 1 {
		a.Rest(8 * a.Trip())
		q.each(func(l *wire.Link) { l.Cut() })
	}
	a.Wantf(w.within(a, soon+8*a.Trip()) && w.err == nil, "a waiter over a quorum, case %d, has not the mutex soon after its release: %v", what, w.err)
	<-w.ended
	drop(w.lease)
}
