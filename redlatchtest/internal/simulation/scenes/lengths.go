package scenes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file compares how long leases last with how long Redis keeps them.

// reentered enters a reentrant mutex again, for less and for more time than before, and no more often
// than it may.
func reentered(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name, p := a.scene("dead"), a.meets(patient)
	defer func() { _ = p.Close() }()
	owner := redlatch.WithOwner(a.Ctx, name)
	mutex := func(ttl time.Duration) *redlatch.ReentrantMutex {
		return p.ReentrantMutex(name).WithDepth(3).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
	}
	enter := func(ttl time.Duration) *redlatch.Lease {
		l, err := mutex(ttl).TryLock(owner)
		a.Wantf(err == nil, "entering a reentrant mutex again: %v", err)
		return l
	}
	long, short := 10*time.Second+a.UpTo(10*time.Second), 2*time.Second+a.UpTo(time.Second)
	first := enter(long)
	if first == nil {
		return
	}
	second := enter(short)
	if second == nil {
		drop(first)
		return
	}
	a.wantKept("a short entry after a long one", name, first, second)
	switch a.Random.IntN(3) {
	case 0:
		if a.OneIn(2) { // and has no answer at first
			p.cutsOffAll(sent * 3 / 2)
			drop(first)
			a.Rest(sent)
		}
		drop(first)
		a.wantKept("the long entry is released", name, second)
		more := []*redlatch.Lease{enter(long), enter(long)}
		deep, err := mutex(long).TryLock(owner)
		a.Wantf(errors.Is(err, redlatch.ErrTooDeep) || !second.Held(), "a fourth entry of three: %v", err)
		for _, l := range append(more, deep) {
			drop(l)
		}
	case 1:
		if adopted := a.adoptedFor(first, short); adopted != nil {
			first = adopted
			a.wantKept("the long entry is shortened", name, first, second)
		}
		drop(second)
		a.wantKept("the second entry is released", name, first)
	default:
		third := enter(2 * long)
		if third != nil {
			a.wantKept("a longer entry after a long one", name, first, second, third)
			drop(third)
			a.wantKept("the longest entry is released", name, first, second)
		}
	}
	drop(second)
	drop(first)
	a.Wantf(!a.Harmless() || a.kept("redlatch:"+name) == 0, "a reentrant mutex is kept when all entries are released")
}

// around has an owner inside enter again, on the same terms. The entries share what is in Redis, and
// each lasts for as long as its own terms say. Nothing is told of an entry before it is granted.
func around(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	const ttl, most = 500 * time.Millisecond, time.Second
	name, way := a.scene("dead"), a.Random.IntN(5)
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
	defer func() { _ = p.Close() }()
	k := sharables(name)[1]
	ctx, cancel := context.WithTimeout(redlatch.WithOwner(a.Ctx, name), 10*time.Second)
	defer cancel()
	outer, err := k.lock(p.Client, ctx, false)
	if err != nil {
		return
	}
	begun := time.Now()
	a.Rest(ttl*11/10 + a.UpTo(ttl*7/10)) // so that the outer entry ends before
	again := time.Now()
	inner, err = k.lock(p.Client, ctx, false)
	if err != nil {
		drop(outer)
		return
	}
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
		a.wantFreeNow(k)
	case 3: // one is extended to more than its TTL, and no server is reached
		work := inner.Context()
		err := outer.ExtendTo(ctx, 10*ttl)
		a.Wantf(err != nil || inner.Remaining() <= ttl, "an entry lasts for %v since another was extended", inner.Remaining())
		p.cutsOffAll(2 * ttl)
		a.Rest(ttl + 20*time.Millisecond)
		a.Wantf(over(work), "the context of an entry goes on that was not extended")
	default: // both are released while one is extended
		p.meets("reentrant renew", wire.AnsweredLate, sent/4)
		releases := p.counts("reentrant release")
		extended := waits(func() (*redlatch.Lease, error) { return nil, inner.Extend(ctx) })
		a.Rest(a.Trip())
		drop(outer)
		released := waits(func() (*redlatch.Lease, error) { return nil, inner.Release(context.Background()) })
		a.Rest(sent / 8)
		a.Wantf(releases() == 0, "an entry is released while it is extended")
		<-extended.ended
		<-released.ended
	}
	drop(inner)
	drop(outer)
}

// adoptedFor detaches a lease and adopts it for so long, without renewal; nil if that fails.
func (a *player) adoptedFor(l *redlatch.Lease, ttl time.Duration) *redlatch.Lease {
	text, err := l.Detach(a.Ctx)
	if err != nil {
		return nil
	}
	adopted, err := a.Client.Adopt(a.Ctx, text, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
	a.Wantf(err == nil, "an adoption for %v: %v", ttl, err)
	if err != nil {
		return nil
	}
	return adopted
}

// sharing has two leases of different lengths on a lock that many can hold.
func sharing(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	long, short := 10*time.Second+a.UpTo(10*time.Second), 2*time.Second+a.UpTo(time.Second)
	lock := []func(ttl time.Duration) (*redlatch.Lease, error){
		func(ttl time.Duration) (*redlatch.Lease, error) {
			return a.Client.Semaphore(name, 3).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryAcquire(a.Ctx, 1)
		},
		func(ttl time.Duration) (*redlatch.Lease, error) {
			return a.Client.RWMutex(name).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryRLock(a.Ctx)
		},
		func(ttl time.Duration) (*redlatch.Lease, error) {
			s, err := a.Client.SlotPool(name, 3, redlatch.SlotOptions{Quarantine: time.Millisecond}).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryAcquire(a.Ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		},
	}[a.Random.IntN(3)]
	first, err := lock(long)
	if err != nil {
		return
	}
	second, err := lock(short)
	if err != nil {
		a.Wantf(false, "a second holder of what many can hold: %v", err)
		drop(first)
		return
	}
	a.wantKept("two leases", name, first, second)
	if a.OneIn(2) {
		drop(first)
		a.wantKept("the long lease is released", name, second)
		a.wantMarks(name, second)
	} else if adopted := a.adoptedFor(first, short); adopted != nil {
		first = adopted
		a.wantKept("the long lease is shortened", name, first, second)
		a.wantMarks(name, first, second)
	}
	drop(first)
	drop(second)
}

// wantMarks checks that what is noted beside a lock ends with it.
func (a *player) wantMarks(name string, leases ...*redlatch.Lease) {
	if !a.Harmless() {
		return
	}
	longest := time.Duration(0)
	for _, l := range leases {
		longest = max(longest, l.Remaining())
	}
	a.Net.Call(func() {
		s := a.At("redlatch:" + name)
		for _, key := range s.Keys("*{redlatch:" + name + "}*") {
			kind := s.Do("TYPE", key).Reply.Text
			left := time.Duration(s.Do("PTTL", key).Reply.Int) * time.Millisecond
			if (strings.HasSuffix(key, ":inside") || strings.HasSuffix(key, ":slots")) && left > longest*103/100+4*a.Trip()+20*time.Millisecond {
				go a.Wantf(false, "%s, a %s, is kept for %v, and all leases end within %v", key, kind, left, longest)
			}
		}
	})
}

// bounds holds a lease that is renewed for as long as MaxHold says.
func bounds(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	const most = 2 * time.Second
	l, err := a.Client.Mutex(name).With(redlatch.LockOptions{TTL: 600 * time.Millisecond, MaxHold: most}).TryLock(a.Ctx)
	if err != nil {
		return
	}
	begun := time.Now()
	wire.Sleep(l.Context(), most-300*time.Millisecond)
	a.Wantf(l.Held() || time.Since(begun) < most-400*time.Millisecond || a.Ctx.Err() != nil, "a lease with MaxHold %v ended after %v: %v", most, time.Since(begun), l.Err())
	select {
	case <-l.Context().Done():
	case <-time.After(time.Second):
	case <-a.Ctx.Done():
	}
	lost := (*redlatch.LostError)(nil)
	a.Wantf(!l.Held() && errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossMaxHold, "a lease with MaxHold %v is held after %v: %v", most, time.Since(begun), l.Err())
	drop(l)
}

// acknowledged acquires at a server of its own with replicas that are slow, or too few.
func acknowledged(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	const name, have, ttl = "acknowledged", 2, 800 * time.Millisecond
	s, meets := a.server()
	a.Net.Call(func() { s.Replicas = have })
	p, other := meets(patient), meets(patient)
	defer func() { _ = errors.Join(p.Close(), other.Close()) }()
	m := p.Mutex(name).With(redlatch.LockOptions{Replicas: have + 1})
	l, err := world.Either(a.OneIn(2), m.Lock, m.TryLock)(a.Ctx)
	a.Wantf(errors.Is(err, redlatch.ErrNotReplicated), "an acquisition with %d replicas of %d: %v", have+1, have, err)
	drop(l)
	a.Rest(sent)
	m = p.Mutex(name).With(redlatch.LockOptions{Replicas: 1, TTL: ttl, Renew: redlatch.Off})
	l, err = other.Mutex(name).TryLock(a.Ctx)
	a.Wantf(err == nil, "a try of what too few replicas acknowledged: %v", err)
	if err == nil { // a wait, of which replicas know the lease at once
		next := waits(func() (*redlatch.Lease, error) { return m.Lock(a.Ctx) })
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
	soon, cancel := context.WithTimeout(a.Ctx, a.UpTo(slow)+2*a.Trip())
	l, err = m.Lock(soon)
	cancel()
	a.Wantf(!errors.Is(err, redlatch.ErrTaken), "a wait for replicas to acknowledge what is free: %v", err)
	drop(l)
	a.Rest(4 * a.Trip())
	begun := time.Now()
	l, err = m.TryLock(a.Ctx)
	a.Wantf(err == nil, "an acquisition that replicas acknowledge after %v: %v", slow, err)
	if err == nil {
		left := l.Remaining()
		a.Wantf(left > ttl/2, "replicas took %v, and leave %v of %v", slow, left, ttl)
		// After a tenth of the TTL the lease is extended once more before the program gets it.
		a.Wantf(time.Since(begun) > ttl/12 || left <= ttl-slow, "replicas took %v, and %v are left of %v", slow, left, ttl)
		drop(l)
	}
}

// thrifty counts what acquisitions cost, where nothing harms.
func thrifty(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(func(o *redlatch.Options) { o.Journal = redlatch.JournalOptions{Off: true} })
	defer func() { _ = p.Close() }()
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	most := func(what string, n, most int) {
		if a.Plan.Quorum() {
			most *= a.Plan.Nodes
		}
		a.Wantf(n <= most, "%s costs %d requests, and may cost %d", what, n, most)
	}
	count := p.counts(name)
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		return
	}
	most("a try of a "+k.kind, count(), 1)
	drop(l)
	most("a try and a release of a "+k.kind, count(), 2)
	if a.Plan.Quorum() {
		return
	}
	l, err = k.lock(a.Client, a.Ctx, false)
	if err != nil {
		return
	}
	count = p.counts(name)
	next := k.waits(a.Ctx, p.Client)
	a.Rest(2 * time.Second)
	beat := min(a.Plan.Heartbeat, a.Plan.TTL/3)
	bound := 4 + int(2*time.Second*10/9/beat) + int(2*time.Second/a.Plan.TTL) + 2
	a.Wantf(!l.Held() || count() <= bound, "2s of waiting for a %s cost %d requests, and may cost %d with heartbeats of %v", k.kind, count(), bound, beat)
	drop(l)
	next.release()
	a.severally(p, name)
	a.spins(p, name)
}

// severally counts what locking several names costs, and looks whether it locks them.
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

// spins has a leader whose work ends at once, and whose term is lost each time.
func (a *player) spins(p *partner, name string) {
	ctx, cancel := context.WithTimeout(a.Ctx, 2*time.Second)
	defer cancel()
	runs := 0
	_ = p.Election(name+"-e").Run(ctx, "value", func(_ context.Context, term *redlatch.Lease) error {
		runs++
		a.Net.Call(func() { a.At("redlatch:"+name+"-e").Do("DEL", "redlatch:"+name+"-e") })
		return nil
	})
	a.Wantf(runs < 60, "an election runs %d terms in 2s, each of which is lost", runs)
}

// sized changes the size of a semaphore or a slot pool while some hold, wait and die.
func sized(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	try := func(c *redlatch.Client, ctx context.Context, size int, wait bool) (*redlatch.Lease, error) {
		s := c.Semaphore(name, int64(size))
		if wait {
			return s.Acquire(ctx, 1)
		}
		return s.TryAcquire(ctx, 1)
	}
	resize := func(from, to int) error {
		_, err := a.Client.Semaphore(name, int64(from)).Resize(a.Ctx, int64(to))
		return err
	}
	kind := "semaphore"
	if a.Plan.Quorum() || a.OneIn(2) {
		kind = "slotpool"
		try = func(c *redlatch.Client, ctx context.Context, size int, wait bool) (*redlatch.Lease, error) {
			p := c.SlotPool(name, size, redlatch.SlotOptions{Quarantine: time.Millisecond})
			s, err := world.Either(wait, p.Acquire, p.TryAcquire)(ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		}
		resize = func(from, to int) error {
			_, err := a.Client.SlotPool(name, from, redlatch.SlotOptions{Quarantine: time.Millisecond}).Resize(a.Ctx, to)
			return err
		}
	}
	brief := func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 300*time.Millisecond, time.Second }
	h := a.meets(patient, brief)
	defer func() { _ = h.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 20*time.Second)
	first, err := try(h.Client, ctx, 1, false)
	if err != nil {
		cancel()
		return
	}
	p, q := a.meets(patient, brief), a.meets(patient)
	next := sharable{kind, func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
		return try(c, ctx, 1, wait)
	}}.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	dies := a.Plan.Quorum() || a.OneIn(2) // at a quorum, the dead are known by their silence
	if !dies {
		err = resize(1, 2)
	} else if a.OneIn(2) {
		err = resize(1, 1)
	}
	a.Wantf(err == nil || !first.Held(), "Resize of a %s from 1 to 2: %v", kind, err)
	if dies {
		p.dies()
		h.dies()
	}
	held := first.Held() && err == nil
	if dies {
		a.Rest(1100 * time.Millisecond)
	} else {
		drop(first)
	}
	a.Rest(4 * a.Trip())
	if dies { // no client that lives knows the size
		_, err := q.Semaphore(name, 3).Available(ctx)
		a.Wantf(err == nil || !held || kind != "semaphore", "Available of a semaphore whose size only the dead know: %v", err)
		l, err := try(q.Client, ctx, 3, a.OneIn(2))
		a.Wantf(err == nil || !held, "a %s whose size only the dead know: %v", kind, err)
		drop(l)
	} else {
		<-next.ended
		a.Wantf(next.err == nil || !held, "a waiter for a %s that has grown: %v", kind, next.err)
		l, err := try(q.Client, ctx, 2, false)
		a.Wantf(err == nil || !held || next.err != nil, "the second of two, of a %s that has grown: %v", kind, err)
		drop(l)
		wrong, err := try(q.Client, ctx, 1, false)
		a.Wantf(errors.Is(err, redlatch.ErrWrongKind) || !held || next.err != nil || !next.lease.Held(), "a %s with the size of before: %v", kind, err)
		drop(wrong)
	}
	cancel()
	_ = p.Close()
	_ = q.Close()
	next.release()
}
