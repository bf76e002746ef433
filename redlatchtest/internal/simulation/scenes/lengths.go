package scenes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// This file compares how long leases last with how long Redis keeps them.

// sharing has leases of different lengths on a lock that several can hold, or one owner several
// times. One of them ends, or is cut, or a longer one comes and goes. There are no more leases than
// there is room for.
func sharing(a *player) {
	name, p := a.scene("dead"), a.meets(patient)
	many := slices.DeleteFunc(a.handleables(name), func(h handleable) bool { return h.room == 1 })
	k := many[a.Random.IntN(len(many))]
	if k.kind == "reentrant" {
		const depth = 3
		k.room, k.enter = depth, func(c *redlatch.Client, o redlatch.LockOptions) locker {
			return pair(c.ReentrantMutex(name).WithDepth(depth).With(o))
		}
	}
	enter := func(ttl time.Duration) (*redlatch.Lease, error) {
		return k.enter(p.Client, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).try(k.owned())
	}
	long, short := 10*time.Second+a.UpTo(10*time.Second), 2*time.Second+a.UpTo(time.Second)
	first := a.has(enter(long))
	second := a.has(enter(short))
	k.wantKeptNoLonger("a short lease beside a long one", first, second)
	switch a.Random.IntN(3) {
	case 0:
		if a.OneIn(2) { // and gets no answer at first
			p.cutsOffAll(sent * 3 / 2)
			drop(first)
			a.Rest(sent)
		}
		drop(first)
		k.wantKeptNoLonger("the long lease is released", second)
		if k.room > 0 {
			k.wantNoMoreThan(k.room-1, func() (*redlatch.Lease, error) { return enter(long) })
		}
	case 1:
		if adopted := a.adoptedFor(first, short); adopted != nil {
			first = adopted
			k.wantKeptNoLonger("the long lease is shortened", first, second)
		}
		drop(second)
		k.wantKeptNoLonger("the second lease is released", first)
	default:
		third := a.has(enter(2 * long))
		k.wantKeptNoLonger("a longer lease after a long one", first, second, third)
		drop(third)
		k.wantKeptNoLonger("the longest lease is released", first, second)
	}
	drop(second)
	drop(first)
	if k.kind == "reentrant" && a.Harmless() {
		a.Wantf(k.kept() == 0, "a reentrant mutex is kept when all entries are released")
	}
}

// wantNoMoreThan checks that just n more leases on a lock can be acquired, and releases them.
func (k sharable) wantNoMoreThan(n int, enter func() (*redlatch.Lease, error)) {
	for range n {
		defer drop(k.by.has(enter()))
	}
	want := redlatch.ErrTaken
	if k.kind == "reentrant" {
		want = redlatch.ErrTooDeep
	}
	one, err := enter()
	k.by.Wantf(errors.Is(err, want), "one lease on a %s more than there is room for: %v", k.kind, err)
	drop(one)
}

// around makes an owner inside enter again, on the same terms. The entries share what is in Redis,
// and each lasts as long as its own terms say. No event tells of an entry before it is granted.
func around(a *player) {
	const ttl, most = 500 * time.Millisecond, time.Second
	k, way := a.lock("reentrant"), a.Random.IntN(5)
	var outer, inner *redlatch.Lease
	granted := make(map[uint64]bool)
	p := a.meets(func(o *redlatch.Options) {
		if o.RequestTimeout, o.Lock.TTL = sent, ttl; way < 3 {
			o.Lock.MaxHold = most
		}
		o.Hook = func(_ context.Context, e redlatch.Event) {
			switch e.Type {
			case redlatch.EventAttempt:
				if outer != nil && way == 1 {
					time.Sleep(ttl / 2) // in which the entry is extended
				}
			case redlatch.EventGranted:
				granted[e.ID] = true
			case redlatch.EventExtended, redlatch.EventLost:
				a.Wantf(granted[e.ID], "the hook is told %s of an entry before its grant", e.Type)
			}
		}
	})
	ctx := k.owned()
	outer = a.has(k.lock(p.Client, ctx, false))
	begun := time.Now()
	a.Rest(ttl*11/10 + a.UpTo(ttl*7/10)) // so that the outer entry ends before
	again := time.Now()
	inner = a.has(k.lock(p.Client, ctx, false))
	ends := func(l *redlatch.Lease, begun time.Time) {
		<-l.Context().Done()
		held := time.Since(begun)
		a.Wantf(held >= most && held <= most+ttl+2*a.Trip(), "an entry with the MaxHold %v ends after %v: %v", most, held, l.Err())
	}
	switch way {
	case 0, 1:
		ends(outer, begun)
		ends(inner, again)
	case 2: // the outer one leads again when it may not be extended any more
		a.Rest(most + ttl/3 + a.UpTo(ttl/4) - time.Since(begun))
		drop(inner)
		ends(outer, begun)
		a.Rest(ttl/20 + 4*a.Trip())
		k.wantFree()
	case 3: // one is extended to more than its TTL, and no server is reached
		work := inner.Context()
		err := outer.ExtendTo(ctx, 10*ttl)
		a.Wantf(err != nil || inner.Remaining() <= ttl, "an entry lasts for %v since another was extended", inner.Remaining())
		p.cutsOffAll(2 * ttl)
		a.Rest(ttl + 20*time.Millisecond)
		a.Wantf(isOver(work.Done()), "the context of an entry goes on that was not extended")
	default: // both are released while one is extended
		p.meets("reentrant renew", wire.AnsweredLate, sent/4)
		releases := p.counts("reentrant release")
		extended := a.waits(func() (*redlatch.Lease, error) { return nil, inner.Extend(ctx) })
		a.Rest(a.Trip())
		drop(outer)
		released := a.waits(func() (*redlatch.Lease, error) { return nil, inner.Release(context.Background()) })
		a.Rest(sent / 8)
		a.Wantf(releases() == 0, "an entry is released while it is extended")
		<-extended.ended
		<-released.ended
	}
}

// adoptedFor detaches a lease and adopts it for ttl, without renewal. It returns nil if that fails.
func (a *player) adoptedFor(l *redlatch.Lease, ttl time.Duration) *redlatch.Lease {
	text, err := l.Detach(a.Ctx)
	if err != nil {
		return nil
	}
	adopted, err := a.Client.Adopt(a.Ctx, text, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
	a.wantDone(err, "an adoption for %v", ttl)
	return adopted
}

// acknowledged acquires at a server of its own with replicas that are slow, or too few.
func acknowledged(a *player) {
	const name, have, ttl = "acknowledged", 2, 800 * time.Millisecond
	servers := a.nodes(1)
	a.Net.Call(func() { servers[0].Replicas = have })
	p, other := a.meetsAt(servers, patient), a.meetsAt(servers, patient)
	m := p.Mutex(name).With(redlatch.LockOptions{Replicas: have + 1})
	l, err := world.Either(a.OneIn(2), m.Lock, m.TryLock)(a.Ctx)
	a.Wantf(errors.Is(err, redlatch.ErrNotReplicated), "an acquisition with %d replicas of %d: %v", have+1, have, err)
	drop(l)
	a.Rest(sent)
	m = p.Mutex(name).With(redlatch.LockOptions{Replicas: 1, TTL: ttl, Renew: redlatch.Off})
	l, err = other.Mutex(name).TryLock(a.Ctx)
	a.wantDone(err, "a try of what too few replicas acknowledged")
	if err == nil { // a waiter, whose lease replicas know at once
		next := a.waits(func() (*redlatch.Lease, error) { return m.Lock(a.Ctx) })
		a.Rest(ttl/4 + a.UpTo(ttl/4))
		extends := p.counts("mutex renew")
		drop(l)
		<-next.ended
		n := extends()
		a.Wantf(n <= 1, "a lease is extended %d times for replicas that acknowledge at once", n)
		next.release()
	}
	slow := 1 + a.UpTo(sent/4)
	p.each(func(l *wire.Link) { l.Slow = slow })
	l, err = m.Lock(a.within(a.UpTo(slow) + 2*a.Trip()))
	a.Wantf(!errors.Is(err, redlatch.ErrTaken), "a wait for replicas to acknowledge what is free: %v", err)
	drop(l)
	a.Rest(4 * a.Trip())
	begun := time.Now()
	l, err = m.TryLock(a.Ctx)
	a.wantDone(err, "an acquisition that replicas acknowledge after %v", slow)
	if err == nil {
		left := l.Remaining()
		a.Wantf(left > ttl/2, "replicas took %v, and leave %v of %v", slow, left, ttl)
		// After a tenth of the TTL the lease is extended once more before the program gets it.
		a.Wantf(time.Since(begun) > ttl/12 || left <= ttl-slow, "replicas took %v, and %v are left of %v", slow, left, ttl)
		drop(l)
	}
}

// thrifty counts how many requests acquisitions cost in a calm world.
func thrifty(a *player) {
	k := a.lock()
	p := a.meets(func(o *redlatch.Options) { o.Journal = redlatch.JournalOptions{Off: true} })
	most := func(what string, n, most int) {
		a.Wantf(n <= most, "%s costs %d requests, and may cost %d", what, n, most)
	}
	count := p.counts(k.name)
	l := k.heldBy(p.Client)
	most("a try of a "+k.kind, count(), 1)
	drop(l)
	most("a try and a release of a "+k.kind, count(), 2)
	l = k.heldBy(a.Client)
	count = p.counts(k.name)
	next := k.waits(a.Ctx, p.Client)
	a.Rest(2 * time.Second)
	if beat := min(a.Plan.Heartbeat, a.Plan.TTL/3); l.Held() {
		most("2s of waiting for a "+k.kind, count(), 4+int(2*time.Second*10/9/beat)+int(2*time.Second/a.Plan.TTL)+2)
	}
	drop(l)
	next.release()
	a.severally(p, k.name)
	a.spins(p, k.name)
}

// severally counts what locking several names costs, and checks that it locks them.
func (a *player) severally(p *partner, name string) {
	tag := "{" + name + "}" // so that all are at one node of a cluster
	names := []string{tag + "-c", tag + "-a", tag + "-b"}
	count := p.counts(tag)
	l, err := p.MultiMutex(names...).TryLock(a.Ctx)
	if err != nil {
		return
	}
	a.Wantf(count() <= 1, "several free names cost %d requests", count())
	for _, one := range names {
		other, err := a.Client.Mutex(one).TryLock(a.Ctx)
		a.Wantf(err != nil || !l.Held(), "one of several names is locked twice")
		drop(other)
	}
	drop(l)
}

// spins runs a leader whose work ends at once, and whose term is lost each time.
func (a *player) spins(p *partner, name string) {
	runs := 0
	_ = p.Election(name+"-e").Run(a.within(2*time.Second), "value", func(_ context.Context, term *redlatch.Lease) error {
		runs++
		a.Net.Call(func() { a.At("redlatch:"+name+"-e").Do("DEL", "redlatch:"+name+"-e") })
		return nil
	})
	a.Wantf(runs < 60, "an election runs %d terms in 2s, each of which is lost", runs)
}

// sized changes the size of a semaphore or a slot pool while some hold, wait and die.
func sized(a *player) {
	name, kind := a.scene("dead"), "semaphore"
	sizedTo := func(c *redlatch.Client, size int) locker {
		s := c.Semaphore(name, int64(size))
		return asking(s.Acquire, s.TryAcquire, 1)
	}
	resize := func(to int) error {
		return second(a.Client.Semaphore(name, 1).Resize(a.Ctx, int64(to)))
	}
	if a.Plan.Quorum() || a.OneIn(2) {
		kind = "slotpool"
		sizedTo = func(c *redlatch.Client, size int) locker { return pool(c, name, size, redlatch.LockOptions{}) }
		resize = func(to int) error {
			return second(a.Client.SlotPool(name, 1, redlatch.SlotOptions{Quarantine: time.Millisecond}).Resize(a.Ctx, to))
		}
	}
	brief := func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 300*time.Millisecond, time.Second }
	h, p, q := a.meets(patient, brief), a.meets(patient, brief), a.meets(patient)
	first, err := sizedTo(h.Client, 1).try(a.Ctx)
	a.needs(err == nil)
	ctx := a.within(patience)
	next := a.waits(func() (*redlatch.Lease, error) { return sizedTo(p.Client, 1).lock(ctx) })
	a.Rest(8 * a.Trip())
	dies := a.Plan.Quorum() || a.OneIn(2) // at a quorum, the dead are known by their silence
	if !dies {
		err = resize(2)
	} else if a.OneIn(2) {
		err = resize(1)
	}
	a.Wantf(err == nil || !first.Held(), "Resize of a %s of 1: %v", kind, err)
	if dies {
		p.dies()
		h.dies()
	}
	held := first.Held() && err == nil
	if dies {
		a.Rest(1100*time.Millisecond + 4*a.Trip())
		// No live client knows the size.
		_, err := q.Semaphore(name, 3).Available(a.Ctx)
		a.Wantf(err == nil || !held || kind != "semaphore", "Available of a semaphore whose size only the dead know: %v", err)
		on := sizedTo(q.Client, 3)
		l, err := world.Either(a.OneIn(2), on.lock, on.try)(a.Ctx)
		a.Wantf(err == nil || !held, "a %s whose size only the dead know: %v", kind, err)
		drop(l)
		return
	}
	drop(first)
	a.Rest(4 * a.Trip())
	<-next.ended
	a.Wantf(next.err == nil || !held, "a waiter for a %s that has grown: %v", kind, next.err)
	l, err := sizedTo(q.Client, 2).try(a.Ctx)
	a.Wantf(err == nil || !held || next.err != nil, "the second of two, of a %s that has grown: %v", kind, err)
	drop(l)
	wrong, err := sizedTo(q.Client, 1).try(a.Ctx)
	a.Wantf(errors.Is(err, redlatch.ErrWrongKind) || !held || next.err != nil || !next.lease.Held(), "a %s with the size of before: %v", kind, err)
	drop(wrong)
}
