package scenes

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// This file is about lines: which waiter is next, and what holders and waiters are told.

// silenced makes goroutines of one client wait for a mutex whose server becomes silent, or slow.
// Each is told of the outage, or of none if there is none.
func silenced(a *player) {
	a.needs(!a.Plan.Strict)
	k, what := a.lock("mutex"), a.Random.IntN(3)
	p := a.meets(lasting(time.Second), beating(sent/3))
	var l *redlatch.Lease
	if what == 0 {
		l = a.has(a.Client.Mutex(k.name).With(redlatch.LockOptions{TTL: ofPatient}).Lock(a.Ctx))
	} else {
		l = a.has(p.Mutex(k.name).Lock(a.Ctx))
	}
	ctx := a.within(ofPatient / 2)
	brief, giveUp := context.WithCancel(ctx)
	if what == 2 {
		brief, giveUp = context.WithTimeout(ctx, 12*a.Trip()+sent/16)
	}
	defer giveUp()
	all := []*waiter{k.queues(brief, p.Client)}
	silent := func() { p.each(func(l *wire.Link) { l.Set(wire.Silent, 20*sent) }) }
	switch what {
	case 0: // the second has its turn when the outage is known, and too little time to find it out
		silent()
		a.Rest(3 * sent)
		second := k.waits(a.within(sent/8), p.Client)
		a.Rest(a.Trip())
		giveUp()
		<-second.ended
		a.Wantf(errors.Is(second.err, redlatch.ErrUnreachable), "a goroutine whose turn came in an outage, and that ran out of time: %v", second.err)
	case 1: // the lease ends, and all have their turns
		for range 8 {
			all = append(all, k.waits(ctx, p.Client))
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
}

// relayed puts two goroutines of a client in line before another client. The first gives up, and
// the second takes its place.
func relayed(a *player) {
	k, p, q := a.lock("mutex"), a.meets(patient), a.meets(patient)
	l := k.heldBy(a.Client)
	brief, giveUp := context.WithCancel(a.Ctx)
	defer giveUp()
	resent := a.OneIn(3) // the request that took the place in line
	if resent {
		p.meets("mutex\t", wire.ReplyLost, 0)
	}
	all := []*waiter{k.queues(brief, p.Client), k.queues(a.Ctx, p.Client), k.queues(a.Ctx, q.Client)}
	if resent {
		a.Rest(sent / 2)
	}
	gaveUp := !resent && a.OneIn(2)
	if gaveUp {
		giveUp()
		a.Rest(8 * a.Trip())
	}
	held := gives(l)
	for i, w := range all {
		<-w.ended
		if held && w.err == nil && i < 2 {
			a.Wantf(a.Plan.Strict || !isOver(all[2].ended), "a client that came later has the mutex before goroutine %d", i)
		}
		if i == 0 {
			giveUp()
		}
		a.Wantf(i != 1 || !gaveUp || !held || w.err == nil, "the goroutine behind the one that gave up waits behind a client that came later: %v", w.err)
		if w.err == nil && i == 1 {
			a.Wantf(tells(w.lease.Wanted(), 4*a.Trip()) || !w.lease.Held(), "a holder is not told that another client waits")
		}
		w.release()
	}
}

// crammed puts more goroutines of a client in line than a turn serves. Other clients get the mutex
// after the first of them, and after one turn.
func crammed(a *player) {
	a.needs(!a.Plan.Strict) // else each goroutine has its own turn
	k, p, q, r := a.lock("mutex"), a.meets(patient), a.meets(patient), a.meets(patient)
	l := k.heldBy(a.Client)
	var served atomic.Int64
	for range 160 {
		a.waits(func() (*redlatch.Lease, error) {
			l, err := k.lock(p.Client, a.Ctx, true)
			if err == nil {
				served.Add(1)
				drop(l)
			}
			return nil, err
		})
	}
	a.Rest(8 * a.Trip())
	second := k.queues(a.Ctx, q.Client)
	held := gives(l)
	<-second.ended
	first := served.Load()
	a.Rest(8 * a.Trip()) // the others are in line again
	third := k.queues(a.Ctx, r.Client)
	held = held && second.err == nil && second.lease.Held()
	second.release()
	<-third.ended
	n := served.Load()
	a.Wantf(!held || third.err == nil && first == 1 && n <= 1+128, "other clients have their turns after %d and %d goroutines of a client: %v", first, n, third.err)
}

// wished makes a holder ask whether its lock is wanted, before and after goroutines of its own
// client wait, and likewise two holders of a semaphore.
func wished(a *player) {
	name, p := a.scene("dead"), a.meets(patient)
	told := func(what string, l *redlatch.Lease, wanted <-chan struct{}) {
		a.Wantf(tells(wanted, 8*a.Trip()) || !l.Held(), "%s is not told that it is waited for", what)
	}
	if a.OneIn(2) {
		m := p.Mutex(name)
		l := a.has(m.TryLock(a.Ctx))
		wanted := l.Wanted()
		a.Rest(4 * a.Trip())
		lock := func() (*redlatch.Lease, error) { return m.Lock(a.Ctx) }
		first, second := a.waits(lock), a.waits(lock)
		told("the holder beside its own goroutines", l, wanted)
		drop(l)
		select {
		case <-first.ended:
		case <-second.ended:
			first = second
		}
		if first.err == nil {
			told("a goroutine that waited before", first.lease, first.lease.Wanted())
		}
		return
	}
	s := p.Semaphore(name, 2)
	first, second := a.has(s.TryAcquire(a.Ctx, 1)), a.has(s.TryAcquire(a.Ctx, 1))
	one, two := first.Wanted(), second.Wanted()
	a.Rest(4 * a.Trip())
	a.waits(func() (*redlatch.Lease, error) { return a.Client.Semaphore(name, 2).Acquire(a.Ctx, 1) })
	told("the first holder of a semaphore", first, one)
	told("the second holder of a semaphore", second, two)
}

// proclaimed makes a leader change its value, with an observer.
func proclaimed(a *player) {
	name, p := a.scene("dead"), a.meets(patient)
	e, ctx := p.Election(name), a.within(5*time.Second)
	var seen []redlatch.Leader
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch := a.waits(func() (*redlatch.Lease, error) {
		for leader := range a.Client.Election(name).Observe(watching) {
			seen = append(seen, leader)
		}
		return nil, nil
	})
	a.Rest(4 * a.Trip())
	term := a.has(e.TryCampaign(ctx, "one"))
	a.Rest(4 * a.Trip())
	p.meets(name, wire.ArrivesLate, sent/2)
	a.wantDone(e.Proclaim(ctx, term, "two"), "Proclaim")
	a.wantDone(e.Proclaim(ctx, term, "three"), "Proclaim")
	a.Rest(sent/2 + 4*a.Trip())
	held := term.Held()
	leader, err := a.Client.Election(name).Leader(ctx)
	a.Wantf(!held || err == nil && leader.Value == "three", "the leader proclaims %q, and was to proclaim three: %v", leader.Value, err)
	if key := "redlatch:" + name; a.OneIn(2) { // the client does not know of this
		a.Net.Call(func() { a.At(key).Do("DEL", key) })
	} else {
		drop(term)
	}
	a.Wantf(e.Proclaim(ctx, term, "four") != nil, "a term that is over proclaims")
	drop(term)
	a.Rest(4 * a.Trip())
	leader, err = a.Client.Election(name).Leader(ctx)
	a.Wantf(err != nil || leader.Value == "", "the leader when the term is over: %+v", leader)
	stop()
	<-watch.ended
	saw := func(value string) bool {
		return slices.ContainsFunc(seen, func(l redlatch.Leader) bool { return l.Value == value })
	}
	a.Wantf(!held || saw("one") && saw("three"), "an observer saw %+v", seen)
}

// joined makes two entries of one owner wait behind another owner. Both get in together.
func joined(a *player) {
	beat := func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 200*time.Millisecond, 20*time.Second }
	k, p, q := a.lock("reentrant"), a.meets(beat), a.meets(beat)
	l := a.has(k.lock(a.Client, redlatch.WithOwner(a.Ctx, "one"), false))
	two := redlatch.WithOwner(a.Ctx, "two")
	all := []*waiter{k.waits(two, p.Client), k.queues(two, q.Client)}
	held, free := gives(l), time.Now()
	<-all[0].ended
	<-all[1].ended
	for _, w := range all {
		a.Wantf(!held || w.err == nil && w.at.Sub(free) < 300*time.Millisecond+4*a.Trip(), "an entry whose owner is inside waits %v: %v", w.at.Sub(free), w.err)
	}
}

// woken has a waiter at a quorum. It gets the lock soon after the release, whether it is told of
// that or its subscriptions end.
func woken(a *player) {
	a.needs(a.Harmless())
	const soon = time.Second
	beat := beating(10 * time.Second)
	k, p, q := a.lock("mutex"), a.meets(patient, beat), a.meets(patient, beat)
	l, w := k.heldBy(p.Client), k.waits(a.Ctx, q.Client)
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
		q.each((*wire.Link).Cut)
	}
	a.Wantf(w.within(a, soon+8*a.Trip()) && w.err == nil, "a waiter over a quorum, case %d, has not the mutex soon after its release: %v", what, w.err)
}
