package scenes

import (
	"errors"
	"time"

	"github.com/redlatch/redlatch"
)

// This file has scenes in which a partner dies, or hears nothing.

// crowdedOut fills a line with waiters that die. The line still has room for a live waiter.
func crowdedOut(a *player) {
	k := a.lock(unpooled...)
	few := func(o *redlatch.Options) { o.Lock.MaxWaiters = 2 }
	l := k.heldBy(a.Client)
	p, q, r := a.meets(few), a.meets(few, func(o *redlatch.Options) { o.Lock.MaxWait = 20 * a.Trip() }), a.meets(few)
	front := k.queues(a.Ctx, r.Client) // this one lives
	k.queues(a.Ctx, p.Client)
	requests := q.counts(k.name)
	refused, err := k.lock(q.Client, a.Ctx, true)
	a.Wantf(errors.Is(err, redlatch.ErrLineFull) || !l.Held(), "a wait in a full line for a %s: %v", k.kind, err)
	drop(refused)
	a.Rest(2 * time.Second)
	n := requests()
	a.Wantf(n <= 3, "a wait in a full line for a %s costs %d requests", k.kind, n)
	p.dies()
	a.Rest(a.Trip())
	next := k.queues(a.Ctx, q.Client)
	held := gives(l)
	front.release()
	<-next.ended
	a.Wantf(next.err == nil || !held, "a wait in a line that is full of the dead for a %s: %v", k.kind, next.err)
}

// unheard has partners that hear no messages, and do not know it. They learn of what they wait for
// at the next heartbeat.
func unheard(a *player) {
	const heartbeat = 300 * time.Millisecond
	p := a.meets(func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = heartbeat, 3*time.Second })
	soon := 6*heartbeat/5 + 4*a.Trip()
	if a.OneIn(2) {
		d := p.CountDownLatch(a.scene("dead"))
		set, err := d.TrySetCount(a.Ctx, 1, time.Minute)
		a.needs(err == nil && set)
		brief := a.within(time.Second) // while the world goes on
		w := a.waits(func() (*redlatch.Lease, error) { return nil, d.Await(brief) })
		a.Rest(8 * a.Trip())
		p.deafens()
		mine := a.Client.CountDownLatch(d.Name())
		left, err := mine.CountDown(a.Ctx)
		a.needs(err == nil && left == 0)
		if a.OneIn(2) {
			_, _ = mine.TrySetCount(a.Ctx, 1, time.Minute) // another round
		}
		zero := time.Now()
		<-w.ended
		a.Wantf(w.err == nil && w.at.Sub(zero) <= soon, "a waiter of a countdown that hears nothing ends %v after the zero: %v", w.at.Sub(zero), w.err)
		return
	}
	k := a.lock()
	l, next := k.heldBy(a.Client), k.queues(a.Ctx, p.Client)
	p.deafens()
	held, free := gives(l), time.Now()
	<-next.ended
	a.Wantf(!held || next.err == nil && next.at.Sub(free) <= soon, "a waiter for a %s that hears nothing has it %v after the release: %v", k.kind, next.at.Sub(free), next.err)
	a.needs(next.err == nil)
	// As a holder, it learns of a waiter at a renewal.
	wanted := next.lease.Wanted()
	a.Rest(4 * a.Trip())
	k.waits(a.Ctx, a.Client)
	a.Wantf(tells(wanted, 2*time.Second) || !next.lease.Held(), "a holder of a %s that hears nothing is not told that it is waited for", k.kind)
}
