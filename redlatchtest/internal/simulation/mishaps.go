package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// What is in this file are scenes in which one request meets a mishap at a moment of the scene's
// choice. The client sends it again, and all is as if nothing had happened.

// sent is how long the requests of these scenes may take.
const sent = 600 * time.Millisecond

// patient gives a partner leases that outlive a mishap.
func patient(o *redlatch.Options) {
	o.RequestTimeout = sent
	o.Lock.TTL = 20 * time.Second
}

// kinds returns a lock of each kind that the world has, with a name.
func (a *actor) kinds(name string) []sharable {
	if a.plan.quorum() {
		return quorumKinds(name)
	}
	return sharables(name)
}

// quorumKinds returns a lock of each kind that a quorum has, with a name.
func quorumKinds(name string) []sharable {
	return slices.DeleteFunc(sharables(name), func(k sharable) bool {
		return k.kind != "mutex" && k.kind != "election" && k.kind != "slotpool"
	})
}

// meets has the next request with a text meet a mishap: at one server of a quorum.
func (p *partner) meets(text string, how mishapHow, late time.Duration) {
	links := p.links
	if p.world.plan.quorum() {
		links = links[len(links)-1:]
	}
	m := &mishap{text: text, how: how, late: late}
	p.world.net.call(func() {
		for _, l := range links {
			l.mishaps = append(l.mishaps, m)
		}
	})
}

// unlucky acquires, extends and releases, and one request of each gets lost, or its reply.
func unlucky(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	if a.oneIn(4) {
		k = kinds[0]
	}
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	how := []mishapHow{requestLost, replyLost}
	p.meets(name, how[a.random.IntN(2)], 0)
	l, err := k.lock(p.Client, a.ctx, a.oneIn(2))
	a.wantf(err == nil, "a %s whose request was sent twice: %v", k.kind, err)
	if err != nil {
		return
	}
	q := acquisition{kind: history.Mutex, name: name}
	if k.kind != "reentrant" {
		a.wantBacked(q, l)
	}
	token, left := l.Token(), l.Remaining()
	if a.oneIn(2) {
		p.meets(name, how[a.random.IntN(2)], 0)
		a.rest(100 * time.Millisecond)
		err := l.Extend(a.ctx)
		a.wantf(err == nil && l.Remaining() > left-sent && l.Token() == token, "an extend that was sent twice: %v, %v left", err, l.Remaining())
		if k.kind != "reentrant" {
			a.wantBacked(q, l)
		}
	}
	if a.oneIn(2) {
		a.elsewhere(p, l, k)
		return
	}
	p.meets(name, how[a.random.IntN(2)], 0)
	err = l.Release(context.Background())
	a.wantf(err == nil, "a release of a %s that was sent twice: %v", k.kind, err)
	a.wantFreeNow(k)
}

// wantFreeNow checks that a try gets a lock, and releases it.
func (a *actor) wantFreeNow(k sharable) {
	l, err := k.lock(a.client, a.ctx, false)
	a.wantf(err == nil, "a try of a %s that is free: %v", k.kind, err)
	if err == nil {
		_ = l.Release(context.Background())
	}
}

// seized takes a mutex by force, and the request for it gets lost, or its reply.
func seized(a *actor) {
	defer a.rest(a.upTo(time.Second))
	k := sharables(a.scene("dead"))[0]
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	if l, err := k.lock(p.Client, a.ctx, false); err == nil {
		a.seize(l, k)
		_ = l.Release(context.Background())
	}
}

// elsewhere ends a lease in another way than by its release, while a request or reply gets lost.
func (a *actor) elsewhere(p *partner, l *redlatch.Lease, k sharable) {
	other := a.meets(patient)
	defer func() { _ = other.Close() }()
	if a.plan.quorum() || k.kind != "mutex" || a.oneIn(3) {
		token := l.Token()
		text, err := l.Detach(a.ctx)
		if err != nil {
			a.wantf(false, "Detach = %v", err)
			return
		}
		other.meets(l.Name(), []mishapHow{requestLost, replyLost}[a.random.IntN(2)], 0)
		adopted, err := other.Adopt(a.ctx, text, redlatch.LockOptions{})
		a.wantf(err == nil, "an adoption of a %s that was sent twice: %v", k.kind, err)
		if err != nil {
			return
		}
		a.wantf(adopted.Token() == token, "a %s is adopted with the token %d, and had %d", k.kind, adopted.Token(), token)
		again, err := p.Adopt(a.ctx, text, redlatch.LockOptions{})
		a.alwaysf(err != nil, "a text of a %s is adopted twice", k.kind)
		if err == nil {
			_ = again.Release(context.Background())
		}
		err = adopted.Release(context.Background())
		a.wantf(err == nil, "the release of a %s that was adopted: %v", k.kind, err)
		a.wantFreeNow(k)
		return
	}
	a.seize(l, k)
}

// seize takes a mutex by force by a request that is sent twice.
func (a *actor) seize(l *redlatch.Lease, k sharable) {
	other := a.meets(patient)
	defer func() { _ = other.Close() }()
	other.meets("seize redlatch:"+l.Name(), []mishapHow{requestLost, replyLost}[a.random.IntN(2)], 0)
	token, sent := l.Token(), other.counts("mutex seize")
	taken, err := other.Mutex(l.Name()).TakeByForce(a.ctx, redlatch.ForceOptions{Reason: "unlucky"})
	n := sent()
	a.wantf(err == nil && n == 2, "a force that was sent twice: %v, by %d requests", err, n)
	if err != nil {
		return
	}
	lost := (*redlatch.LostError)(nil)
	err = l.Release(context.Background())
	a.wantf(errors.As(err, &lost) && lost.Reason == redlatch.LossForced && lost.Force != nil && lost.Force.Reason == "unlucky",
		"the holder of a mutex that was taken by force is told %v", err)
	a.wantf(taken.Held() && taken.Token() > token, "a mutex is taken by force with the token %d after %d", taken.Token(), token)
	a.wantBacked(acquisition{kind: history.Mutex, name: l.Name()}, taken)
	err = taken.Release(context.Background())
	a.wantf(err == nil, "the release of what was taken by force: %v", err)
	a.wantFreeNow(k)
}

// strays has a request arrive when its lock has been released, or its waiter has given up. The request
// leaves nothing.
func strays(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	// A client looks twice for what may still arrive, a third of RequestTimeout apart, about.
	late := sent/3 + 10*time.Millisecond + a.upTo(sent/6)
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	switch a.random.IntN(6) {
	case 0: // it is sent again, is in, and is out, before the first request arrives
		p.meets(name, arrivesLate, late)
		if l, err := k.lock(p.Client, ctx, false); err == nil {
			_ = l.Release(context.Background())
		} else {
			a.wantf(false, "a try of a %s that was sent twice: %v", k.kind, err)
		}
	case 1: // the caller has gone before
		ctx, cancel := context.WithTimeout(a.ctx, 5*time.Millisecond)
		p.meets(name, arrivesLate, 10*time.Millisecond+a.upTo(sent/6))
		if l, err := k.lock(p.Client, ctx, a.oneIn(2)); err == nil {
			_ = l.Release(context.Background())
		}
		cancel()
		for range 4 { // and other waiters give up, whose releases the client sends at once
			a.rest(sent / 30)
			soon, cancel := context.WithTimeout(a.ctx, a.plan.delay.least)
			if l, err := p.Mutex(name + "-other").TryLock(soon); err == nil {
				_ = l.Release(context.Background())
			}
			cancel()
		}
	case 4: // the caller has gone when it is in by the second request, and the first arrives
		p.meets(name, arrivesLate, sent/3+120*time.Millisecond)
		p.meets(name, replyLost, 0)
		ctx, cancel := context.WithTimeout(a.ctx, sent/3+60*time.Millisecond)
		if l, err := k.lock(p.Client, ctx, false); err == nil {
			_ = l.Release(context.Background())
		}
		cancel()
	case 5: // a waiter's first request arrives when the waiter has had the lock
		l, err := k.lock(a.client, ctx, false)
		if err != nil {
			return
		}
		p.meets("\t", arrivesLate, sent/3+60*time.Millisecond)
		next := k.waits(ctx, p.Client)
		a.rest(sent/3 + 20*time.Millisecond)
		_ = l.Release(context.Background())
		next.release()
		if l, err = k.lock(a.client, ctx, false); err == nil {
			a.rest(2 * sent)
			if info, err := a.client.Inspect(a.ctx, name); err == nil && !a.plan.quorum() && l.Held() {
				a.wantf(len(info.Waiters) == 0, "a request that arrived late is in line for a %s: %+v", k.kind, info.Waiters)
			}
			_ = l.Release(context.Background())
		}
	case 2: // a release arrives late, when others are in
		l, err := k.lock(p.Client, ctx, false)
		if err != nil {
			return
		}
		p.meets(name, arrivesLate, late)
		err = l.Release(context.Background())
		a.wantf(err == nil, "a release of a %s that was sent twice: %v", k.kind, err)
		other, err := k.lock(a.client, ctx, false)
		a.wantf(err == nil, "a try of a %s that is free: %v", k.kind, err)
		if err == nil {
			a.rest(min(late+2*a.trip(), other.Remaining()/2))
			if k.kind != "reentrant" {
				a.wantBacked(acquisition{kind: history.Mutex, name: name}, other)
			}
			_ = other.Release(context.Background())
		}
	default: // a waiter gives up before its ticket arrives
		l, err := k.lock(a.client, ctx, false)
		if err != nil {
			return
		}
		soon, cancel := context.WithTimeout(a.ctx, sent)
		p.meets("\t", arrivesLate, sent+10*time.Millisecond+a.upTo(sent/6)) // a ticket has tabs
		if l, err := k.lock(p.Client, soon, true); err == nil {
			_ = l.Release(context.Background())
		}
		cancel()
		_ = l.Release(context.Background())
	}
	a.rest(late + 4*sent)
	a.wantFreeNow(k)
	if info, err := a.client.Inspect(a.ctx, name); err == nil && !a.plan.quorum() {
		a.wantf(len(info.Waiters) == 0 && len(info.Holders) == 0, "a %s that nobody has or wants: %+v", k.kind, info)
	}
}
