package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
)

// What is in this file are scenes in which a partner dies, or hears nothing.

// succeeds has a holder die. The first waiter in line has the lock as soon as that lease ends, and so has
// the second after the first has died.
func succeeds(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	ttl := 900*time.Millisecond + a.UpTo(600*time.Millisecond)
	slow := func(o *redlatch.Options) {
		o.Heartbeat = 5 * time.Second
		o.Lock.TTL = 40 * time.Second
	}
	brief := func(o *redlatch.Options) { o.Lock.TTL = ttl }
	holder, p, q := a.meets(brief), a.meets(brief), a.meets(slow)
	defer func() { _ = errors.Join(holder.Close(), p.Close(), q.Close()) }()
	if _, err := k.lock(holder.Client, a.Ctx, false); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
	defer cancel()
	first := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	second := k.waits(ctx, q.Client)
	a.Rest(8 * a.Trip())
	holder.dies()
	a.Rest(a.Trip()) // an extend may be on its way
	left := a.kept("redlatch:" + name)
	died := time.Now()
	<-first.ended
	if !a.Plan.Quorum() {
		late := first.at.Sub(died) - left
		a.Wantf(first.err == nil && late < ttl/20+10*time.Millisecond+4*a.Trip(), "the first in line for a %s has it %v after the lease of a holder that died: %v",
			k.kind, late, first.err)
	}
	if a.OneIn(2) && first.err == nil { // so the second has to know when to ask
		p.dies()
		left = a.kept("redlatch:" + name) // which is longer than the client believes
		died = time.Now()
	} else {
		first.release()
		left, died = 0, time.Now()
	}
	<-second.ended
	if !a.Plan.Quorum() {
		late := second.at.Sub(died) - left
		a.Wantf(first.err != nil || second.err == nil && late < ttl/20+10*time.Millisecond+4*a.Trip(), "the second in line for a %s has it %v after the first: %v",
			k.kind, late, second.err)
	}
	second.release()
}

// crowdedOut has a line that is full of waiters which have died. It has room for a waiter that lives.
func crowdedOut(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	few := func(o *redlatch.Options) { o.Lock.MaxWaiters = 2 }
	if k.kind == "slotpool" || a.Plan.Quorum() {
		k = kinds[0]
	}
	l, err := k.lock(a.Client, a.Ctx, false)
	if err != nil {
		return
	}
	p, q, r := a.meets(few), a.meets(few, func(o *redlatch.Options) { o.Lock.MaxWait = 20 * a.Trip() }), a.meets(few)
	ctx, cancel := context.WithCancel(a.Ctx)
	front := k.waits(ctx, r.Client) // it lives
	a.Rest(8 * a.Trip())
	gone := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	requests := q.counts(name)
	refused, err := k.lock(q.Client, ctx, true)
	a.Wantf(errors.Is(err, redlatch.ErrLineFull) || !l.Held(), "a wait in a full line for a %s: %v", k.kind, err)
	drop(refused)
	a.Rest(2 * time.Second)
	n := requests()
	a.Wantf(n <= 3, "a wait in a full line for a %s costs %d requests", k.kind, n)
	p.dies()
	a.Rest(a.Trip())
	next := k.waits(ctx, q.Client)
	a.Rest(8 * a.Trip())
	held := l.Held()
	drop(l)
	front.release()
	<-next.ended
	a.Wantf(next.err == nil || !held, "a wait in a line that is full of the dead for a %s: %v", k.kind, next.err)
	next.release()
	cancel()
	_ = p.Close()
	_ = q.Close()
	_ = r.Close()
	gone.release()
}

// unheard has partners that hear no message, and are not told. What they wait for they learn at the
// next heartbeat.
func unheard(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	const heartbeat = 300 * time.Millisecond
	p := a.meets(func(o *redlatch.Options) {
		o.Heartbeat = heartbeat
		o.Lock.TTL = 3 * time.Second
	})
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	soon := 6*heartbeat/5 + 4*a.Trip()
	if a.OneIn(2) {
		d := p.CountDownLatch(a.scene("dead"))
		if set, err := d.TrySetCount(ctx, 1, time.Minute); err != nil || !set {
			return
		}
		ended := make(chan error, 1)
		brief, cancel := context.WithTimeout(a.Ctx, time.Second) // while the world goes on
		defer cancel()
		go func() { ended <- d.Await(brief) }()
		a.Rest(8 * a.Trip())
		p.deafens()
		mine := a.Client.CountDownLatch(d.Name())
		if left, err := mine.CountDown(ctx); err != nil || left != 0 {
			return
		}
		if a.OneIn(2) {
			_, _ = mine.TrySetCount(ctx, 1, time.Minute) // another round
		}
		zero := time.Now()
		err := <-ended
		a.Wantf(err == nil && time.Since(zero) <= soon, "a waiter of a countdown that hears nothing ends %v after the zero: %v", time.Since(zero), err)
		return
	}
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	l, err := k.lock(a.Client, ctx, false)
	if err != nil {
		return
	}
	next := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	p.deafens()
	held := l.Held()
	drop(l)
	free := time.Now()
	<-next.ended
	if held && !a.Plan.Quorum() {
		a.Wantf(next.err == nil && next.at.Sub(free) <= soon, "a waiter for a %s that hears nothing has it %v after the release: %v", k.kind, next.at.Sub(free), next.err)
	}
	if next.err == nil && !a.Plan.Quorum() { // as a holder, it learns at a renewal that it is waited for
		wanted := next.lease.Wanted()
		a.Rest(4 * a.Trip())
		third := k.waits(ctx, a.Client)
		select {
		case <-wanted:
		case <-time.After(2 * time.Second):
			a.Wantf(!next.lease.Held() || ctx.Err() != nil, "a holder of a %s that hears nothing is not told that it is waited for", k.kind)
		}
		next.release()
		third.release()
		return
	}
	next.release()
}

// mute has a holder whose user may not ask which clients listen. Its release lets in the first that
// hears it.
func mute(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds))]
	holder, p := a.meets(), a.meets()
	a.Net.Call(func() {
		for _, l := range holder.links {
			l.User = []string{"PUBSUB"}
		}
	})
	defer func() { _ = holder.Close() }()
	l, err := k.lock(holder.Client, a.Ctx, false)
	if err != nil {
		_ = p.Close()
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 20*time.Second)
	gone := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	next := k.waits(ctx, a.Client)
	a.Rest(8 * a.Trip())
	p.dies()
	a.Rest(a.Trip())
	held := l.Held()
	err = l.Release(context.Background())
	free := time.Now()
	<-next.ended
	if held && err == nil {
		a.Wantf(next.err == nil && next.at.Sub(free) < 4*a.Trip(), "a waiter for a %s behind a dead one has it %v after the release by a user that may not ask for listeners: %v",
			k.kind, next.at.Sub(free), next.err)
	}
	next.release()
	cancel()
	_ = p.Close()
	gone.release()
}
