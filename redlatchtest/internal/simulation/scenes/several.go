package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// This file is about several names at once, and about outages.

// awaited waits for two names of which the second is taken, while the lease on the first ages or is
// taken away.
func awaited(a *player) {
	first, second := a.lock("mutex"), a.lock("mutex")
	if first.name > second.name { // they are locked in order
		first, second = second, first
	}
	p := a.meets(func(o *redlatch.Options) { o.Lock.TTL = 10 * time.Second })
	l := second.heldBy(a.Client)
	const ttl = 2 * time.Second
	o := redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}
	// In a cluster, a holder that has never waited for a name is not told at once that it is taken.
	forced := !a.Plan.Cluster && a.OneIn(2)
	if forced {
		o = redlatch.LockOptions{}
	}
	var both *redlatch.MultiLease
	ctx := a.within(patience)
	w := a.waits(func() (_ *redlatch.Lease, err error) {
		both, err = p.MultiMutex(first.name, second.name).With(o).Lock(ctx)
		return nil, err
	})
	a.Rest(8 * a.Trip())
	if forced {
		_, failed := a.Client.ForceRelease(a.Ctx, first.name, redlatch.ForceOptions{})
		forced = failed == nil
	}
	a.Rest(min(ttl/4, a.Plan.TTL/4))
	held := gives(l)
	<-w.ended
	switch {
	case w.err == nil && forced:
		a.Wantf(false, "several names are locked, of which one was taken by force in the meantime")
	case w.err == nil:
		for _, l := range both.Leases() {
			a.Wantf(l.Remaining() > ttl*8/10, "several names are locked for %v, and %v are left of %q", ttl, l.Remaining(), l.Name())
		}
	default:
		a.Wantf(forced || !held, "several names: %v", w.err)
		a.Wantf(!forced || errors.Is(w.err, redlatch.ErrNotHeld), "several names of which one was taken by force: %v", w.err)
	}
	drop(both)
	first.wantFree()
	second.wantFree()
}

// cutOff has a waiter whose client reaches no server for a while. The client is told of that once.
func cutOff(a *player) {
	k := a.lock("mutex")
	gone, back := 0, 0
	p := a.meets(patient, beating(200*time.Millisecond), func(o *redlatch.Options) {
		o.Hook = func(_ context.Context, e redlatch.Event) {
			switch {
			case e.Name != k.name:
			case e.Type == redlatch.EventUnreachable:
				gone++
			case e.Type == redlatch.EventReachable:
				back++
			}
		}
	})
	l := k.heldBy(a.Client)
	k.queues(a.Ctx, p.Client)
	cut := time.Now()
	p.each(func(link *wire.Link) {
		link.Set(wire.Refuses, 5*sent)
		link.Cut()
	})
	a.Rest(4 * sent)
	told := func(times int) {
		a.Wantf(!l.Held() || gone == 1 && back == times, "a waiter is told %d times that no server is reached, and %d times that one is", gone, back)
	}
	told(0)
	begun := time.Now()
	for _, err := range p.List(a.Ctx, redlatch.ListOptions{}) {
		a.Wantf(err != nil, "a list is read from no server")
	}
	_, err := p.Inspect(a.Ctx, k.name)
	a.Wantf(errors.Is(err, redlatch.ErrUnreachable) || time.Since(cut) >= 5*sent, "Inspect without a server: %v", err)
	a.Wantf(time.Since(begun) < 4*sent, "a look at no server takes %v", time.Since(begun))
	a.Rest(2 * sent)
	told(1)
}

// lacking waits for more permits than there still are, and is told so at once. Its client keeps its
// place in another line.
func lacking(a *player) {
	k, p, q := a.lock("semaphore"), a.meets(patient, beating(5*time.Second)), a.meets(patient)
	l, next, m := k.heldBy(a.Client), k.queues(a.Ctx, p.Client), a.lock("mutex")
	other := m.heldBy(a.Client)
	first, second := m.queues(a.Ctx, p.Client), m.queues(a.Ctx, q.Client)
	_, err := a.Client.Semaphore(k.name, world.Permits).Resize(a.Ctx, 1)
	told := next.within(a, 4*a.Trip()) && errors.Is(next.err, redlatch.ErrWrongKind)
	a.Wantf(told || err != nil || !l.Held(), "a wait for more permits than there are now: %v", next.err)
	held := gives(other)
	<-first.ended
	a.Wantf(!held || first.err == nil && !isOver(second.ended), "a waiter is overtaken when its client has too few permits elsewhere: %v", first.err)
}
