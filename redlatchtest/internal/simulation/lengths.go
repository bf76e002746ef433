package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
)

// What is in this file compares how long leases last with how long Redis keeps them.

// counts counts the requests of a partner that contain a text, from now on until the function is
// called that it returns.
func (p *partner) counts(text string) func() int {
	count := func() (n int) {
		p.world.net.call(func() {
			for _, l := range p.links {
				l.records = true
				for _, what := range l.asked {
					if strings.Contains(what, text) {
						n++
					}
				}
			}
		})
		return n
	}
	before := count()
	return func() int { return count() - before }
}

// kept returns for how long the server keeps a key, or nothing.
func (a *actor) kept(key string) (left time.Duration) {
	a.net.call(func() { left = time.Duration(a.at(key).Do("PTTL", key).Reply.Int) * time.Millisecond })
	return max(left, 0)
}

// wantKept checks that the server keeps a lock for as long as the last of its leases, and not for much
// longer.
func (a *actor) wantKept(what, name string, leases ...*redlatch.Lease) {
	if !a.harmless() {
		return
	}
	longest := time.Duration(0)
	for _, l := range leases {
		longest = max(longest, l.Remaining())
	}
	kept := a.kept("redlatch:" + name)
	a.wantf(kept >= longest*99/100, "%s: the key is kept for %v, and a lease lasts for another %v", what, kept, longest)
	a.wantf(kept <= longest*103/100+4*a.trip()+20*time.Millisecond, "%s: the key is kept for %v, and all leases end within %v", what, kept, longest)
}

// reentered enters a reentrant mutex again, for less and for more time than before.
func reentered(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	enter := func(ctx context.Context, ttl time.Duration) *redlatch.Lease {
		l, err := a.client.ReentrantMutex(name).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryLock(ctx)
		a.wantf(err == nil, "entering a reentrant mutex again: %v", err)
		return l
	}
	long, short := 10*time.Second+a.upTo(10*time.Second), 2*time.Second+a.upTo(time.Second)
	first := enter(redlatch.WithOwner(a.ctx, name), long)
	if first == nil {
		return
	}
	second := enter(redlatch.WithOwner(a.ctx, name), short)
	if second == nil {
		_ = first.Release(context.Background())
		return
	}
	a.wantKept("a short entry after a long one", name, first, second)
	switch a.random.IntN(3) {
	case 0:
		_ = first.Release(context.Background())
		a.wantKept("the long entry is released", name, second)
	case 1:
		if adopted := a.adoptedFor(first, short); adopted != nil {
			first = adopted
			a.wantKept("the long entry is shortened", name, first, second)
		}
		_ = second.Release(context.Background())
		a.wantKept("the second entry is released", name, first)
	default:
		third := enter(redlatch.WithOwner(a.ctx, name), 2*long)
		if third != nil {
			a.wantKept("a longer entry after a long one", name, first, second, third)
			_ = third.Release(context.Background())
			a.wantKept("the longest entry is released", name, first, second)
		}
	}
	_ = second.Release(context.Background())
	_ = first.Release(context.Background())
	a.wantf(!a.harmless() || a.kept("redlatch:"+name) == 0, "a reentrant mutex is kept when all entries are released")
}

// adoptedFor detaches a lease and adopts it for so long, without renewal; nil if that fails.
func (a *actor) adoptedFor(l *redlatch.Lease, ttl time.Duration) *redlatch.Lease {
	text, err := l.Detach(a.ctx)
	if err != nil {
		return nil
	}
	adopted, err := a.client.Adopt(a.ctx, text, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
	a.wantf(err == nil, "an adoption for %v: %v", ttl, err)
	if err != nil {
		return nil
	}
	return adopted
}

// sharing has two leases of different lengths on a lock that many can hold.
func sharing(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	long, short := 10*time.Second+a.upTo(10*time.Second), 2*time.Second+a.upTo(time.Second)
	lock := []func(ttl time.Duration) (*redlatch.Lease, error){
		func(ttl time.Duration) (*redlatch.Lease, error) {
			return a.client.Semaphore(name, 3).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryAcquire(a.ctx, 1)
		},
		func(ttl time.Duration) (*redlatch.Lease, error) {
			return a.client.RWMutex(name).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryRLock(a.ctx)
		},
		func(ttl time.Duration) (*redlatch.Lease, error) {
			s, err := a.client.SlotPool(name, 3, redlatch.SlotOptions{Quarantine: time.Millisecond}).With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).TryAcquire(a.ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		},
	}[a.random.IntN(3)]
	first, err := lock(long)
	if err != nil {
		return
	}
	second, err := lock(short)
	if err != nil {
		a.wantf(false, "a second holder of what many can hold: %v", err)
		_ = first.Release(context.Background())
		return
	}
	a.wantKept("two leases", name, first, second)
	if a.oneIn(2) {
		_ = first.Release(context.Background())
		a.wantKept("the long lease is released", name, second)
		a.wantMarks(name, second)
	} else if adopted := a.adoptedFor(first, short); adopted != nil {
		first = adopted
		a.wantKept("the long lease is shortened", name, first, second)
		a.wantMarks(name, first, second)
	}
	_ = first.Release(context.Background())
	_ = second.Release(context.Background())
}

// wantMarks checks that what is noted beside a lock ends with it.
func (a *actor) wantMarks(name string, leases ...*redlatch.Lease) {
	if !a.harmless() {
		return
	}
	longest := time.Duration(0)
	for _, l := range leases {
		longest = max(longest, l.Remaining())
	}
	a.net.call(func() {
		s := a.at("redlatch:" + name)
		for _, key := range s.Keys("*{redlatch:" + name + "}*") {
			kind := s.Do("TYPE", key).Reply.Text
			left := time.Duration(s.Do("PTTL", key).Reply.Int) * time.Millisecond
			if (strings.HasSuffix(key, ":inside") || strings.HasSuffix(key, ":slots")) && left > longest*103/100+4*a.trip()+20*time.Millisecond {
				go a.wantf(false, "%s, a %s, is kept for %v, and all leases end within %v", key, kind, left, longest)
			}
		}
	})
}

// bounds holds a lease that is renewed for as long as MaxHold says.
func bounds(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	const most = 2 * time.Second
	l, err := a.client.Mutex(name).With(redlatch.LockOptions{TTL: 600 * time.Millisecond, MaxHold: most}).TryLock(a.ctx)
	if err != nil {
		return
	}
	begun := time.Now()
	sleep(l.Context(), most-300*time.Millisecond)
	a.wantf(l.Held() || time.Since(begun) < most-400*time.Millisecond || a.ctx.Err() != nil, "a lease with MaxHold %v ended after %v: %v", most, time.Since(begun), l.Err())
	select {
	case <-l.Context().Done():
	case <-time.After(time.Second):
	case <-a.ctx.Done():
	}
	lost := (*redlatch.LostError)(nil)
	a.wantf(!l.Held() && errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossMaxHold, "a lease with MaxHold %v is held after %v: %v", most, time.Since(begun), l.Err())
	_ = l.Release(context.Background())
}

// acknowledged acquires with replicas that are slow, or too few.
func acknowledged(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	have := a.plan.replicas
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	m := p.Mutex(name).With(redlatch.LockOptions{Replicas: have + 1})
	l, err := either(a.oneIn(2), m.Lock, m.TryLock)(a.ctx)
	a.alwaysf(err != nil, "%d replicas are asked for, of %d", have+1, have)
	a.wantf(errors.Is(err, redlatch.ErrNotReplicated), "an acquisition with %d replicas of %d: %v", have+1, have, err)
	if err == nil {
		_ = l.Release(context.Background())
	}
	a.rest(sent)
	a.wantFreeNow(a.kinds(name)[0])
	if have == 0 {
		return
	}
	slow := a.upTo(sent / 4)
	a.net.call(func() {
		for _, l := range p.links {
			l.slow = slow
		}
	})
	ttl := 800 * time.Millisecond
	m = p.Mutex(name).With(redlatch.LockOptions{Replicas: 1, TTL: ttl, Renew: redlatch.Off})
	begun := time.Now()
	l, err = m.TryLock(a.ctx)
	a.wantf(err == nil, "an acquisition that replicas acknowledge after %v: %v", slow, err)
	if err == nil {
		left := l.Remaining()
		a.wantf(left > ttl/2, "replicas took %v, and leave %v of %v", slow, left, ttl)
		// After a tenth of the TTL the lease is extended once more before the program gets it.
		a.wantf(slow > ttl/12 || left < ttl-time.Since(begun)+slow, "replicas took %v in all of %v, and %v are left of %v", slow, time.Since(begun), left, ttl)
		_ = l.Release(context.Background())
	}
}

// thrifty counts what acquisitions cost, where nothing harms.
func thrifty(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(func(o *redlatch.Options) { o.Journal = redlatch.JournalOptions{} })
	defer func() { _ = p.Close() }()
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	most := func(what string, n, most int) {
		if a.plan.quorum() {
			most *= a.plan.nodes
		}
		a.wantf(n <= most, "%s costs %d requests, and may cost %d", what, n, most)
	}
	count := p.counts(name)
	l, err := k.lock(p.Client, a.ctx, false)
	if err != nil {
		return
	}
	most("a try of a "+k.kind, count(), 1)
	_ = l.Release(context.Background())
	most("a try and a release of a "+k.kind, count(), 2)
	if a.plan.quorum() {
		return
	}
	l, err = k.lock(a.client, a.ctx, false)
	if err != nil {
		return
	}
	count = p.counts(name)
	next := k.waits(a.ctx, p.Client)
	a.rest(2 * time.Second)
	beat := min(a.plan.heartbeat, a.plan.ttl/3)
	bound := 4 + int(2*time.Second*10/9/beat) + int(2*time.Second/a.plan.ttl) + 2
	a.wantf(!l.Held() || count() <= bound, "2s of waiting for a %s cost %d requests, and may cost %d with heartbeats of %v", k.kind, count(), bound, beat)
	_ = l.Release(context.Background())
	next.release()
	a.severally(p, name)
	a.spins(p, name)
}

// severally counts what locking several names costs, and looks whether it locks them.
func (a *actor) severally(p *partner, name string) {
	tag := "{" + name + "}" // so that all are at one node of a cluster
	names := []string{tag + "-c", tag + "-a", tag + "-b"}
	count := p.counts(tag)
	l, err := p.MultiMutex(names...).TryLock(a.ctx)
	if err != nil {
		return
	}
	a.wantf(count() <= 1, "several free names cost %d requests", count())
	for _, one := range names {
		other, err := a.client.Mutex(one).TryLock(a.ctx)
		a.wantf(err != nil || !l.Held(), "one of several names is locked twice")
		if err == nil {
			_ = other.Release(context.Background())
		}
	}
	_ = l.Release(context.Background())
}

// spins has a leader whose work ends at once, and whose term is lost each time.
func (a *actor) spins(p *partner, name string) {
	ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second)
	defer cancel()
	runs := 0
	_ = p.Election(name+"-e").Run(ctx, "value", func(_ context.Context, term *redlatch.Lease) error {
		runs++
		a.net.call(func() { a.at("redlatch:"+name+"-e").Do("DEL", "redlatch:"+name+"-e") })
		return nil
	})
	a.wantf(runs < 60, "an election runs %d terms in 2s, each of which is lost", runs)
}

// sized changes the size of a semaphore or a slot pool while some hold, wait and die.
func sized(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	try := func(c *redlatch.Client, ctx context.Context, size int, wait bool) (*redlatch.Lease, error) {
		s := c.Semaphore(name, int64(size))
		if wait {
			return s.Acquire(ctx, 1)
		}
		return s.TryAcquire(ctx, 1)
	}
	resize := func(from, to int) error {
		_, err := a.client.Semaphore(name, int64(from)).Resize(a.ctx, int64(to))
		return err
	}
	kind := "semaphore"
	if a.oneIn(2) {
		kind = "slotpool"
		try = func(c *redlatch.Client, ctx context.Context, size int, wait bool) (*redlatch.Lease, error) {
			p := c.SlotPool(name, size, redlatch.SlotOptions{Quarantine: time.Millisecond})
			s, err := either(wait, p.Acquire, p.TryAcquire)(ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		}
		resize = func(from, to int) error {
			_, err := a.client.SlotPool(name, from, redlatch.SlotOptions{Quarantine: time.Millisecond}).Resize(a.ctx, to)
			return err
		}
	}
	h := a.meets(patient, func(o *redlatch.Options) { o.Lock.TTL = time.Second })
	defer func() { _ = h.Close() }()
	ctx, cancel := context.WithTimeout(a.ctx, 20*time.Second)
	first, err := try(h.Client, ctx, 1, false)
	if err != nil {
		cancel()
		return
	}
	p, q := a.meets(patient), a.meets(patient)
	next := sharable{kind, func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
		return try(c, ctx, 1, wait)
	}}.waits(ctx, p.Client)
	a.rest(8 * a.trip())
	dies := a.oneIn(2)
	if !dies {
		err = resize(1, 2)
	}
	a.wantf(err == nil || !first.Held(), "Resize of a %s from 1 to 2: %v", kind, err)
	if dies {
		p.dies()
		h.dies()
	}
	held := first.Held() && err == nil
	if dies {
		a.rest(1100 * time.Millisecond)
	} else {
		_ = first.Release(context.Background())
	}
	a.rest(4 * a.trip())
	if dies { // no client that lives knows the size
		l, err := try(q.Client, ctx, 3, a.oneIn(2))
		a.wantf(err == nil || !held, "a %s whose size only the dead know: %v", kind, err)
		if err == nil {
			_ = l.Release(context.Background())
		}
	} else {
		<-next.ended
		a.wantf(next.err == nil || !held, "a waiter for a %s that has grown: %v", kind, next.err)
		l, err := try(q.Client, ctx, 2, false)
		a.wantf(err == nil || !held || next.err != nil, "the second of two, of a %s that has grown: %v", kind, err)
		if err == nil {
			_ = l.Release(context.Background())
		}
		wrong, err := try(q.Client, ctx, 1, false)
		a.wantf(errors.Is(err, redlatch.ErrWrongKind) || !held || next.err != nil || !next.lease.Held(), "a %s with the size of before: %v", kind, err)
		if err == nil {
			_ = wrong.Release(context.Background())
		}
	}
	cancel()
	_ = p.Close()
	_ = q.Close()
	next.release()
}
