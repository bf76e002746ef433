package scenes

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// This file has scenes in which one request meets a mishap at a moment that the scene chooses. The
// client sends it again, and all is as if nothing had happened.

// seized takes a mutex by force. The request or its reply gets lost, or the request comes late.
func seized(a *player) {
	k, p, other := a.lock("mutex"), a.meets(patient), a.meets(patient)
	l := k.heldBy(p.Client)
	if a.OneIn(3) { // its caller has gone when the request arrives
		other.meets("seize "+k.key(), wire.ArrivesLate, sent/4)
		taken, err := other.Mutex(k.name).TakeByForce(a.within(sent/6), redlatch.ForceOptions{})
		a.Wantf(err != nil, "a force that arrives when its caller has gone: %v", taken)
		a.Rest(sent/2 + 8*a.Trip())
		drop(l)
		k.wantFree()
		return
	}
	other.meets("seize "+k.key(), resent[a.Random.IntN(2)], 0)
	token, sent := l.Token(), other.counts("mutex seize")
	taken, err := other.Mutex(k.name).TakeByForce(a.Ctx, redlatch.ForceOptions{Reason: "seized"})
	n := sent()
	a.Wantf(err == nil && n == 2, "a force that was sent twice: %v, by %d requests", err, n)
	a.needs(err == nil)
	err = l.Release(context.Background())
	a.Wantf(forcedFor(err, "seized"), "the holder of a mutex that was taken by force is told %v", err)
	a.Wantf(taken.Held() && taken.Token() > token, "a mutex is taken by force with the token %d after %d", taken.Token(), token)
	k.wantBacked(taken)
	a.wantDone(taken.Release(context.Background()), "the release of what was taken by force")
	k.wantFree()
}

// strays makes a request arrive after its lock was released, or after its waiter gave up. The
// request leaves nothing behind.
func strays(a *player) {
	k, p := a.lock(), a.meets(patient)
	// A client looks a second time for what may still arrive, after about RequestTimeout/3.
	late := sent/3 + 10*time.Millisecond + a.UpTo(sent/6)
	try := func(within time.Duration, wait bool) error { // and gives back what it gets
		ctx, cancel := context.WithTimeout(a.Ctx, within)
		defer cancel()
		l, err := k.lock(p.Client, ctx, wait)
		drop(l)
		return err
	}
	switch a.Random.IntN(6) {
	case 0: // it is sent again, is in, and is out, before the first request arrives
		p.meets(k.name, wire.ArrivesLate, late)
		a.wantDone(try(10*time.Second, false), "a try of a %s that was sent twice", k.kind)
	case 1: // the caller has gone before
		p.meets(k.name, wire.ArrivesLate, 10*time.Millisecond+a.UpTo(sent/6))
		_ = try(5*time.Millisecond, a.OneIn(2))
		for range 4 { // and other waiters give up, whose releases the client sends at once
			a.Rest(sent / 30)
			l, _ := p.Mutex(k.name + "-other").TryLock(a.within(a.Plan.Delay.Least))
			drop(l)
		}
	case 2: // the caller has gone when it is in by the second request, and the first arrives
		p.meets(k.name, wire.ArrivesLate, sent/3+120*time.Millisecond)
		p.meets(k.name, wire.ReplyLost, 0)
		_ = try(sent/3+60*time.Millisecond, false)
	case 3: // a waiter's first request arrives when the waiter has had the lock
		l := k.heldBy(a.Client)
		p.meets("\t", wire.ArrivesLate, sent/3+60*time.Millisecond)
		next := k.waits(a.Ctx, p.Client)
		a.Rest(sent/3 + 20*time.Millisecond)
		drop(l)
		next.release()
		if l, err := k.try(a.Client); err == nil {
			a.Rest(2 * sent)
			if !a.Plan.Quorum() {
				k.wantWaiters(l, 0, "when a request has arrived late")
			}
			drop(l)
		}
	case 4: // a release arrives late, when others are in
		l := k.heldBy(p.Client)
		p.meets(k.name, wire.ArrivesLate, late)
		err := l.Release(context.Background())
		a.wantDone(err, "a release of a %s that was sent twice", k.kind)
		other := k.heldBy(a.Client)
		a.Rest(min(late+2*a.Trip(), other.Remaining()/2))
		k.wantBacked(other)
		drop(other)
	default: // a waiter gives up before its ticket arrives
		l := k.heldBy(a.Client)
		p.meets("\t", wire.ArrivesLate, sent+10*time.Millisecond+a.UpTo(sent/6)) // a ticket has tabs
		_ = try(sent, true)
		drop(l)
	}
	a.Rest(late + 4*sent)
	k.wantClean("a request that came late")
}

// belated makes something happen while a client is about to hear of something else, or hears
// nothing: a force, the end of its lease or of its subscription, or its own end.
func belated(a *player) {
	k, first := a.lock(), a.lock("mutex")
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat, o.Lock.StrictOrder = 5*time.Second, redlatch.Off })
	before := first.heldBy(a.Client)
	w := first.queues(a.Ctx, p.Client) // so that the partner listens
	drop(before)
	w.release()
	late := min(10*a.Trip(), sent/4) // before the request is sent again
	switch a.Random.IntN(5) {
	case 0: // the lock is taken by force during an extend
		l := k.heldBy(p.Client)
		p.meets(k.name, wire.AnsweredLate, late)
		extended := a.waits(func() (*redlatch.Lease, error) { return nil, l.Extend(a.Ctx) })
		a.Rest(a.Trip())
		_, err := a.Client.ForceRelease(a.Ctx, k.name, redlatch.ForceOptions{Reason: "belated"})
		<-extended.ended
		a.Rest(4 * a.Trip())
		a.Wantf(err != nil || !l.Held() || a.Plan.Cluster, "a %s is held that was taken by force %v ago, during an extend", k.kind, late)
	case 1: // the lock is taken by force before its client knows that it has it
		p.meets(k.name, wire.AnsweredLate, late)
		w := k.waits(a.Ctx, p.Client)
		a.Rest(2 * a.Trip())
		_, err := a.Client.ForceRelease(a.Ctx, k.name, redlatch.ForceOptions{Reason: "belated"})
		<-w.ended
		a.Rest(4 * a.Trip())
		a.Wantf(err != nil || w.err != nil || !w.lease.Held() || a.Plan.Cluster, "a %s is held that was taken by force before its lease began", k.kind)
	case 2: // a lease ends while another goroutine of its client waits
		m := p.Mutex(k.name).With(redlatch.LockOptions{TTL: time.Second})
		a.has(m.Lock(a.Ctx))
		next := a.waits(func() (*redlatch.Lease, error) { return m.Lock(a.Ctx) })
		p.cutsOffAll(1100 * time.Millisecond)
		a.Wantf(next.within(a, 3*time.Second), "a goroutine waits for another whose lease is lost")
	case 3: // a waiter's client cannot listen any more, and is let in
		l, next := k.heldBy(a.Client), k.queues(a.Ctx, p.Client)
		p.mutes()
		a.Rest(4 * a.Trip())
		drop(l)
		a.Wantf(next.within(a, 400*time.Millisecond+8*a.Trip()), "a client without a subscription is not let into a %s", k.kind)
	default: // a waiter's client is dead when it is let in, and the server has not noticed
		q := a.meets(func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 200*time.Millisecond, ofPatient })
		l := k.heldBy(a.Client)
		k.queues(a.Ctx, q.Client)
		next := k.queues(a.Ctx, p.Client)
		q.each(func(l *wire.Link) { l.Kill(true) })
		a.Rest(2 * a.Trip()) // its heartbeat may be on the way, and after the grant it would be a holder that died
		drop(l)
		a.Wantf(next.within(a, 700*time.Millisecond+8*a.Trip()), "a client that died in line for a %s costs another more than it may", k.kind)
	}
}
