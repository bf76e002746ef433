package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file are scenes in which one request meets a mishap at a moment of the scene's
// choice. The client sends it again, and all is as if nothing had happened.

// unlucky acquires, extends and releases, and one request of each gets lost, or its reply.
func unlucky(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	if a.OneIn(4) {
		k = kinds[0]
	}
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	how := []wire.MishapHow{wire.RequestLost, wire.ReplyLost}
	p.meets(name, how[a.Random.IntN(2)], 0)
	l, err := k.lock(p.Client, a.Ctx, a.OneIn(2))
	a.Wantf(err == nil, "a %s whose request was sent twice: %v", k.kind, err)
	if err != nil {
		return
	}
	q := world.Acquisition{Kind: history.Mutex, Name: name}
	if k.kind != "reentrant" {
		a.WantBacked(q, l)
	}
	token, left := l.Token(), l.Remaining()
	if a.OneIn(2) {
		p.meets(name, how[a.Random.IntN(2)], 0)
		a.Rest(100 * time.Millisecond)
		err := l.Extend(a.Ctx)
		a.Wantf(err == nil && l.Remaining() > left-sent && l.Token() == token, "an extend that was sent twice: %v, %v left", err, l.Remaining())
		if k.kind != "reentrant" {
			a.WantBacked(q, l)
		}
	}
	if a.OneIn(2) {
		a.elsewhere(p, l, k)
		return
	}
	p.meets(name, how[a.Random.IntN(2)], 0)
	err = l.Release(context.Background())
	a.Wantf(err == nil, "a release of a %s that was sent twice: %v", k.kind, err)
	a.wantFreeNow(k)
}

// seized takes a mutex by force, and the request for it gets lost, or its reply.
func seized(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	k := sharables(a.scene("dead"))[0]
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	if l, err := k.lock(p.Client, a.Ctx, false); err == nil {
		a.seize(l, k)
		drop(l)
	}
}

// elsewhere ends a lease in another way than by its release, while a request or reply gets lost.
func (a *player) elsewhere(p *partner, l *redlatch.Lease, k sharable) {
	other := a.meets(patient)
	defer func() { _ = other.Close() }()
	if a.Plan.Quorum() || k.kind != "mutex" || a.OneIn(3) {
		token := l.Token()
		text, err := l.Detach(a.Ctx)
		if err != nil {
			a.Wantf(false, "Detach = %v", err)
			return
		}
		other.meets(l.Name(), []wire.MishapHow{wire.RequestLost, wire.ReplyLost}[a.Random.IntN(2)], 0)
		adopted, err := other.Adopt(a.Ctx, text, redlatch.LockOptions{})
		a.Wantf(err == nil, "an adoption of a %s that was sent twice: %v", k.kind, err)
		if err != nil {
			return
		}
		a.Wantf(adopted.Token() == token, "a %s is adopted with the token %d, and had %d", k.kind, adopted.Token(), token)
		again, err := p.Adopt(a.Ctx, text, redlatch.LockOptions{})
		a.Alwaysf(err != nil, "a text of a %s is adopted twice", k.kind)
		drop(again)
		err = adopted.Release(context.Background())
		a.Wantf(err == nil, "the release of a %s that was adopted: %v", k.kind, err)
		a.wantFreeNow(k)
		return
	}
	a.seize(l, k)
}

// seize takes a mutex by force by a request that is sent twice.
func (a *player) seize(l *redlatch.Lease, k sharable) {
	other := a.meets(patient)
	defer func() { _ = other.Close() }()
	if a.OneIn(3) { // its caller has gone when the request arrives
		other.meets("seize redlatch:"+l.Name(), wire.ArrivesLate, sent/4)
		ctx, giveUp := context.WithTimeout(a.Ctx, sent/6)
		defer giveUp()
		taken, err := other.Mutex(l.Name()).TakeByForce(ctx, redlatch.ForceOptions{})
		a.Wantf(err != nil, "a force that arrives when its caller has gone: %v", taken)
		a.Rest(sent/2 + 8*a.Trip())
		drop(l)
		a.wantFreeNow(k)
		return
	}
	other.meets("seize redlatch:"+l.Name(), []wire.MishapHow{wire.RequestLost, wire.ReplyLost}[a.Random.IntN(2)], 0)
	token, sent := l.Token(), other.counts("mutex seize")
	taken, err := other.Mutex(l.Name()).TakeByForce(a.Ctx, redlatch.ForceOptions{Reason: "unlucky"})
	n := sent()
	a.Wantf(err == nil && n == 2, "a force that was sent twice: %v, by %d requests", err, n)
	if err != nil {
		return
	}
	lost := (*redlatch.LostError)(nil)
	err = l.Release(context.Background())
	a.Wantf(errors.As(err, &lost) && lost.Reason == redlatch.LossForced && lost.Force != nil && lost.Force.Reason == "unlucky",
		"the holder of a mutex that was taken by force is told %v", err)
	a.Wantf(taken.Held() && taken.Token() > token, "a mutex is taken by force with the token %d after %d", taken.Token(), token)
	a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: l.Name()}, taken)
	err = taken.Release(context.Background())
	a.Wantf(err == nil, "the release of what was taken by force: %v", err)
	a.wantFreeNow(k)
}

// strays has a request arrive when its lock has been released, or its waiter has given up. The request
// leaves nothing.
func strays(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	// A client looks for what may still arrive, for the second time after a third of RequestTimeout, about.
	late := sent/3 + 10*time.Millisecond + a.UpTo(sent/6)
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	switch a.Random.IntN(6) {
	case 0: // it is sent again, is in, and is out, before the first request arrives
		p.meets(name, wire.ArrivesLate, late)
		if l, err := k.lock(p.Client, ctx, false); err == nil {
			drop(l)
		} else {
			a.Wantf(false, "a try of a %s that was sent twice: %v", k.kind, err)
		}
	case 1: // the caller has gone before
		ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Millisecond)
		p.meets(name, wire.ArrivesLate, 10*time.Millisecond+a.UpTo(sent/6))
		if l, err := k.lock(p.Client, ctx, a.OneIn(2)); err == nil {
			drop(l)
		}
		cancel()
		for range 4 { // and other waiters give up, whose releases the client sends at once
			a.Rest(sent / 30)
			soon, cancel := context.WithTimeout(a.Ctx, a.Plan.Delay.Least)
			if l, err := p.Mutex(name + "-other").TryLock(soon); err == nil {
				drop(l)
			}
			cancel()
		}
	case 4: // the caller has gone when it is in by the second request, and the first arrives
		p.meets(name, wire.ArrivesLate, sent/3+120*time.Millisecond)
		p.meets(name, wire.ReplyLost, 0)
		ctx, cancel := context.WithTimeout(a.Ctx, sent/3+60*time.Millisecond)
		if l, err := k.lock(p.Client, ctx, false); err == nil {
			drop(l)
		}
		cancel()
	case 5: // a waiter's first request arrives when the waiter has had the lock
		l, err := k.lock(a.Client, ctx, false)
		if err != nil {
			return
		}
		p.meets("\t", wire.ArrivesLate, sent/3+60*time.Millisecond)
		next := k.waits(ctx, p.Client)
		a.Rest(sent/3 + 20*time.Millisecond)
		drop(l)
		next.release()
		if l, err = k.lock(a.Client, ctx, false); err == nil {
			a.Rest(2 * sent)
			if info, err := a.Client.Inspect(a.Ctx, name); err == nil && !a.Plan.Quorum() && l.Held() {
				a.Wantf(len(info.Waiters) == 0, "a request that arrived late is in line for a %s: %+v", k.kind, info.Waiters)
			}
			drop(l)
		}
	case 2: // a release arrives late, when others are in
		l, err := k.lock(p.Client, ctx, false)
		if err != nil {
			return
		}
		p.meets(name, wire.ArrivesLate, late)
		err = l.Release(context.Background())
		a.Wantf(err == nil, "a release of a %s that was sent twice: %v", k.kind, err)
		other, err := k.lock(a.Client, ctx, false)
		a.Wantf(err == nil, "a try of a %s that is free: %v", k.kind, err)
		if err == nil {
			a.Rest(min(late+2*a.Trip(), other.Remaining()/2))
			if k.kind != "reentrant" {
				a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: name}, other)
			}
			drop(other)
		}
	default: // a waiter gives up before its ticket arrives
		l, err := k.lock(a.Client, ctx, false)
		if err != nil {
			return
		}
		soon, cancel := context.WithTimeout(a.Ctx, sent)
		p.meets("\t", wire.ArrivesLate, sent+10*time.Millisecond+a.UpTo(sent/6)) // a ticket has tabs
		if l, err := k.lock(p.Client, soon, true); err == nil {
			drop(l)
		}
		cancel()
		drop(l)
	}
	a.Rest(late + 4*sent)
	a.wantFreeNow(k)
	if info, err := a.Client.Inspect(a.Ctx, name); err == nil && !a.Plan.Quorum() {
		a.Wantf(len(info.Waiters) == 0 && len(info.Holders) == 0, "a %s that nobody has or wants: %+v", k.kind, info)
	}
}

// belated has something happen while a client is about to hear of something else, or hears nothing: a
// force, the end of its lease or of its subscription, or its own end.
func belated(a *player) {
	defer a.Rest(a.UpTo(500 * time.Millisecond))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds))]
	ctx, cancel := context.WithTimeout(a.Ctx, 30*time.Second)
	defer cancel()
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat, o.Lock.StrictOrder = 5*time.Second, redlatch.Off })
	defer func() { _ = p.Close() }()
	if other, err := a.Client.Mutex(name + "-first").TryLock(ctx); err == nil { // so that the partner listens
		w := sharables(name + "-first")[0].waits(ctx, p.Client)
		a.Rest(6 * a.Trip())
		drop(other)
		w.release()
	}
	late := min(10*a.Trip(), sent/4) // before the request is sent again
	switch a.Random.IntN(5) {
	case 0: // the lock is taken by force during an extend
		l, err := k.lock(p.Client, ctx, false)
		if err != nil {
			return
		}
		p.meets(name, wire.AnsweredLate, late)
		extended := make(chan error, 1)
		go func() { extended <- l.Extend(ctx) }()
		a.Rest(a.Trip())
		_, err = a.Client.ForceRelease(ctx, name, redlatch.ForceOptions{Reason: "belated"})
		<-extended
		a.Rest(4 * a.Trip())
		a.Wantf(err != nil || !l.Held() || a.Plan.Cluster, "a %s is held that was taken by force %v ago, during an extend", k.kind, late)
		drop(l)
	case 1: // the lock is taken by force before its client knows that it has it
		p.meets(name, wire.AnsweredLate, late)
		w := k.waits(ctx, p.Client)
		a.Rest(2 * a.Trip())
		_, err := a.Client.ForceRelease(ctx, name, redlatch.ForceOptions{Reason: "belated"})
		<-w.ended
		a.Rest(4 * a.Trip())
		a.Wantf(err != nil || w.err != nil || !w.lease.Held() || a.Plan.Cluster, "a %s is held that was taken by force before its lease began", k.kind)
		w.release()
	case 2: // a lease ends while another goroutine of its client waits
		m := p.Mutex(name).With(redlatch.LockOptions{TTL: time.Second})
		l, err := m.Lock(ctx)
		if err != nil {
			return
		}
		next := waits(func() (*redlatch.Lease, error) { return m.Lock(ctx) })
		p.cutsOffAll(1100 * time.Millisecond)
		a.Wantf(next.within(a, 3*time.Second), "a goroutine waits for another whose lease is lost")
		drop(l)
		next.release()
	case 3: // a waiter's client cannot listen any more, and is let in
		l, err := k.lock(a.Client, ctx, false)
		if err != nil {
			return
		}
		next := k.waits(ctx, p.Client)
		a.Rest(6 * a.Trip())
		p.mutes()
		a.Rest(4 * a.Trip())
		drop(l)
		a.Wantf(next.within(a, 400*time.Millisecond+8*a.Trip()), "a client without a subscription is not let into a %s", k.kind)
		next.release()
	default: // a waiter's client is dead when it is let in, and the server has not noticed
		q := a.meets(func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 200*time.Millisecond, ofPatient })
		defer func() { _ = q.Close() }()
		l, err := k.lock(a.Client, ctx, false)
		if err != nil {
			return
		}
		gone := k.waits(ctx, q.Client)
		a.Rest(6 * a.Trip())
		next := k.waits(ctx, p.Client)
		a.Rest(6 * a.Trip())
		q.each(func(l *wire.Link) { l.Kill(true) })
		drop(l)
		a.Wantf(next.within(a, 700*time.Millisecond+8*a.Trip()), "a client that died in line for a %s costs another more than it may", k.kind)
		cancel()
		next.release()
		gone.release()
	}
}
