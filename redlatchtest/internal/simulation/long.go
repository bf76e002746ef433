package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// What is in this file is about leases whose length the program sets, and about leases that are taken
// away.

// lengthened sets the length of a lease while requests arrive late, get lost, or come from the watchdog.
func lengthened(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	ttl := 1500 * time.Millisecond
	p := a.meets(func(o *redlatch.Options) {
		o.RequestTimeout = sent
		o.Lock.TTL = ttl
	})
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.ctx, false)
	if err != nil {
		return
	}
	defer func() { _ = l.Release(context.Background()) }()
	const long = 40 * time.Second
	switch a.random.IntN(4) {
	case 0: // an extend arrives after a longer one
		p.meets(name, arrivesLate, sent/2)
		if err := l.Extend(a.ctx); err != nil {
			return
		}
		if err := l.ExtendTo(a.ctx, long); err != nil {
			a.wantf(false, "ExtendTo of a %s = %v", k.kind, err)
			return
		}
		for range 4 {
			a.rest(sent / 4)
			a.wantKeptFor(k, l)
		}
	case 1: // the watchdog
		if err := l.ExtendTo(a.ctx, long); err != nil {
			return
		}
		begun := time.Now()
		for range 4 {
			a.rest(ttl)
			a.wantf(!l.Held() || l.Remaining() > (long-time.Since(begun))*97/100, "a %s that was extended to %v has %v left after %v", k.kind, long,
				l.Remaining(), time.Since(begun))
			a.wantKeptFor(k, l)
		}
		if !a.plan.quorum() && a.harmless() {
			a.net.call(func() { a.at("redlatch:"+name).Do("DEL", "redlatch:"+name) })
			a.rest(ttl * 3 / 2)
			a.wantf(!l.Held(), "a %s that was extended to %v, and is gone, is held after %v", k.kind, long, ttl*3/2)
		}
	case 2: // a longer one that gets lost
		ctx, cancel := context.WithTimeout(a.ctx, 5*time.Millisecond)
		p.meets(name, requestLost, 0)
		_ = l.ExtendTo(ctx, long)
		cancel()
		if err := l.Extend(a.ctx); err == nil {
			a.wantKeptFor(k, l)
		}
	default: // adopted for less
		if err := l.ExtendTo(a.ctx, long); err != nil {
			return
		}
		text, err := l.Detach(a.ctx)
		if err != nil {
			return
		}
		adopted, err := a.client.Adopt(a.ctx, text, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
		a.wantf(err == nil, "Adopt of a %s for less: %v", k.kind, err)
		if err != nil {
			return
		}
		a.wantf(adopted.Remaining() <= ttl, "a %s that is adopted for %v lasts for %v", k.kind, ttl, adopted.Remaining())
		if !a.plan.quorum() {
			a.wantKept("a "+k.kind+" that is adopted for less", name, adopted)
		}
		_ = adopted.Release(context.Background())
	}
}

// wantKeptFor checks that the server keeps a lock for as long as its client believes.
func (a *actor) wantKeptFor(k sharable, l *redlatch.Lease) {
	if a.plan.quorum() || !a.harmless() {
		return
	}
	kept, left := a.kept("redlatch:"+l.Name()), l.Remaining()
	a.wantf(kept >= left*99/100, "a %s is kept for %v, and its lease lasts for another %v", k.kind, kept, left)
}

// short holds leases that are much shorter than a request may take, and loses replies.
func short(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(func(o *redlatch.Options) {
		o.RequestTimeout = 5 * time.Second
		o.Lock.TTL = 900 * time.Millisecond
	})
	defer func() { _ = p.Close() }()
	o := redlatch.LockOptions{}
	if a.oneIn(2) {
		o.Renew = redlatch.Off
	}
	l, err := p.Mutex(name).With(o).TryLock(a.ctx)
	if err != nil {
		return
	}
	defer func() { _ = l.Release(context.Background()) }()
	p.meets(name, replyLost, 0)
	if o.Renew == redlatch.Off {
		begun := time.Now()
		err := l.Extend(a.ctx)
		a.wantf(time.Since(begun) < 900*time.Millisecond && err == nil, "an extend of a short lease whose reply is lost takes %v: %v", time.Since(begun), err)
		return
	}
	sleep(l.Context(), 2*time.Second)
	a.wantf(l.Held() || a.ctx.Err() != nil, "a short lease is lost with one reply: %v", l.Err())
}

// usurped has a lock deleted, and given to another client. The first holder neither keeps nor ends it.
func usurped(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	if a.plan.harm == losses {
		return
	}
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds))]
	if a.oneIn(4) {
		k = kinds[1] // a reentrant mutex notes its entries beside
	}
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.ctx, false)
	if err != nil {
		return
	}
	all := a.oneIn(2) // else what is noted beside it stays
	a.net.call(func() {
		s := a.at("redlatch:" + name)
		for _, key := range append(s.Keys("redlatch:"+name), s.Keys("{redlatch:"+name+"}*")...) {
			if all && key != "{redlatch:"+name+"}:fence" || key == "redlatch:"+name {
				s.Do("DEL", key)
			}
		}
	})
	if a.oneIn(3) {
		err = l.Extend(a.ctx)
		a.wantf(errors.Is(err, redlatch.ErrNotHeld) && !l.Held(), "an extend of a %s that was deleted: %v", k.kind, err)
	}
	if k.kind == "reentrant" && !all && a.oneIn(2) {
		a.net.call(func() { // by another library
			key := "redlatch:" + name
			a.at(key).Do("HSET", key, "9f1c:1", "1")
			a.at(key).Do("PEXPIRE", key, "30000")
		})
		err = l.Extend(a.ctx)
		a.wantf(errors.Is(err, redlatch.ErrNotHeld), "an extend of a reentrant mutex that another library has: %v", err)
		_ = l.Release(context.Background())
		return
	}
	second, err := k.lock(a.client, a.ctx, false)
	a.wantf(err == nil, "a try of a %s that was deleted: %v", k.kind, err)
	if err != nil {
		_ = l.Release(context.Background())
		return
	}
	left := second.Remaining()
	if a.oneIn(2) {
		err = l.Extend(a.ctx)
		a.wantf(errors.Is(err, redlatch.ErrNotHeld) && !l.Held(), "an extend of a %s that another client has: %v", k.kind, err)
	}
	err = l.Release(context.Background())
	a.wantf(errors.Is(err, redlatch.ErrNotHeld), "the release of a %s that another client has: %v", k.kind, err)
	if second.Held() && left > 100*time.Millisecond {
		a.wantKeptFor(k, second)
		if k.kind != "reentrant" {
			a.wantBacked(acquisition{kind: history.Mutex, name: name}, second)
		}
	}
	err = second.Release(context.Background())
	a.wantf(err == nil, "the release of a %s that was deleted before: %v", k.kind, err)
}

// unlike has a key that is no lock in the way. It is left alone.
func unlike(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	key := "redlatch:" + name
	put := [][]string{
		{"SET", key, "a text", "PX", "5000"}, {"ZADD", key, "5", "a member"}, {"HSET", key, "a field", "a value"}, {"RPUSH", key, "an item"},
	}[a.random.IntN(4)]
	a.net.call(func() {
		a.at(key).Do(put...)
		a.at(key).Do("PEXPIRE", key, "5000")
	})
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds))]
	wait := a.oneIn(2)
	ctx, cancel := context.WithTimeout(a.ctx, 300*time.Millisecond)
	defer cancel()
	l, err := k.lock(a.client, ctx, wait)
	a.wantf(err != nil, "a %s is held at a key that is none", k.kind)
	if err == nil {
		_ = l.Release(context.Background())
	}
	if put[0] == "HSET" || put[0] == "RPUSH" {
		a.wantf(errors.Is(err, redlatch.ErrWrongKind), "a %s at a key that is none: %v", k.kind, err)
	}
	a.wantf(a.kept(key) > 0, "a %s whose acquisition failed leaves nothing of a key that is none: %v", k.kind, put)
}

// forcesOwn takes locks by force from its own client, and from another again and again.
func forcesOwn(a *actor) {
	defer a.rest(2*time.Second + a.upTo(2*time.Second))
	name := a.scene("dead")
	p := a.meets()
	defer func() { _ = p.Close() }()
	l, err := p.Mutex(name).TryLock(a.ctx)
	if err != nil {
		return
	}
	defer func() { _ = l.Release(context.Background()) }()
	info, err := p.ForceRelease(a.ctx, name, redlatch.ForceOptions{Reason: "own"})
	if err != nil {
		return
	}
	a.rest(3 * a.trip())
	lost := (*redlatch.LostError)(nil)
	a.wantf(!l.Held() && errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossForced, "a lease that its own client took by force: %v, of %+v", l.Err(), info)
	a.wantf(errors.Is(context.Cause(l.Context()), redlatch.ErrNotHeld), "the context of a lease that is lost says %v", context.Cause(l.Context()))
	if !a.oneIn(8) || !a.harmless() {
		return
	}
	for range 140 {
		l, err := p.Mutex(name).TryLock(a.ctx)
		if err != nil {
			return
		}
		_, err = p.ForceRelease(a.ctx, name, redlatch.ForceOptions{})
		_ = l.Release(context.Background()) // which the force has done, but for an error
		if err != nil {
			return
		}
	}
	a.net.call(func() {
		n := a.at("redlatch:"+name).Do("HLEN", "{redlatch:"+name+"}:forced").Reply.Int
		if n > 132 {
			go a.wantf(false, "%d notes of forced releases are kept", n)
		}
	})
}
