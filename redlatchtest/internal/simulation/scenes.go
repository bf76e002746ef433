package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
)

// What is in this file are scenes: an actor has a second client of its own, on names that no other
// actor uses, and brings both to a state that chance seldom does.

// partner is the second client of an actor.
type partner struct {
	*redlatch.Client
	world *World
	links []*Link
}

// meets opens a second client, with other options if there is a change. The caller closes it, or
// kills it.
func (a *actor) meets(changes ...func(*redlatch.Options)) *partner {
	return a.meetsAt(a.servers, a.open, changes)
}

func (a *actor) meetsAt(
	servers []*server, open func([]*Link, redlatch.Options) (*redlatch.Client, error), changes []func(*redlatch.Options),
) *partner {
	a.rounds++
	name := fmt.Sprintf("%s.%s.%d's partner %d", a.name, a.role.name, a.number, a.rounds)
	links, o := a.connect(name, servers), a.options(name)
	for _, change := range changes {
		change(&o)
	}
	client, err := open(links, o)
	if err != nil {
		a.fail("New = %v", err)
		return nil
	}
	return &partner{client, a.World, links}
}

// Close closes the client.
func (p *partner) Close() error {
	closing(p.links)
	return p.Client.Close()
}

// dies ends a client as kill -9 does. What it does from then on reaches no server.
func (p *partner) dies() {
	p.world.net.call(func() {
		for _, l := range p.links {
			l.kill(false)
		}
	})
}

// scene returns a name that no other actor uses.
func (a *actor) scene(what string) string {
	a.rounds++
	return fmt.Sprintf("scene-%s-%s-%s-%d-%d", what, a.role.name, a.name, a.number, a.rounds)
}

// sharable is a lock that the scenes are about.
type sharable struct {
	kind string
	lock func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error)
}

// sharables returns a lock of each kind with a name.
func sharables(name string) []sharable {
	return []sharable{
		{"mutex", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.Mutex(name)
			return either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"reentrant", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.ReentrantMutex(name)
			return either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"rwmutex", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			m := c.RWMutex(name)
			return either(wait, m.Lock, m.TryLock)(ctx)
		}},
		{"semaphore", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			s := c.Semaphore(name, permits)
			if wait {
				return s.Acquire(ctx, permits)
			}
			return s.TryAcquire(ctx, permits)
		}},
		{"election", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			e := c.Election(name)
			if wait {
				return e.Campaign(ctx, "value")
			}
			return e.TryCampaign(ctx, "value")
		}},
		{"slotpool", func(c *redlatch.Client, ctx context.Context, wait bool) (*redlatch.Lease, error) {
			p := c.SlotPool(name, 1, redlatch.SlotOptions{Quarantine: time.Millisecond})
			s, err := either(wait, p.Acquire, p.TryAcquire)(ctx)
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		}},
	}
}

// bereaved has waiters that died in line behind a lease, and looks which clients they keep out: none, of any
// kind, as soon as the lock is free.
func bereaved(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	mine, next := kinds[a.random.IntN(len(kinds))], kinds[a.random.IntN(len(kinds))]
	l, err := mine.lock(a.client, a.ctx, false)
	if err != nil {
		return
	}
	defer func() { _ = l.Release(context.Background()) }()
	p := a.meets()
	waiting, giveUp := context.WithCancel(a.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if l, err := mine.lock(p.Client, waiting, true); err == nil {
			_ = l.Release(waiting)
		}
	}()
	a.rest(6 * a.trip()) // a try, a subscription, a place in line
	info, err := a.client.Inspect(a.ctx, name)
	a.wantf(err != nil || !l.Held() || len(info.Waiters) == 1 && !info.Waiters[0].Dead && info.Waiters[0].Client == p.ID() &&
		len(info.Holders) == 1 && (mine.kind == "reentrant" || info.Holders[0].Owner == l.Owner()) && info.Kind == mine.kind,
		"Inspect of a %s with a holder and a waiter: %+v, %v", mine.kind, info, err)
	p.dies()
	a.rest(a.trip())
	info, err = a.client.Inspect(a.ctx, name)
	a.wantf(err != nil || !l.Held() || len(info.Waiters) == 1 && info.Waiters[0].Dead, "Inspect of a %s with a dead waiter: %+v", mine.kind, info)
	held := l.Held()
	released := l.Release(context.Background())
	if held && released == nil {
		second, err := next.lock(a.client, a.ctx, false)
		a.wantf(err == nil, "a try of a %s where a client died that waited for a %s: %v", next.kind, mine.kind, err)
		if err == nil {
			_ = second.Release(context.Background())
		}
	}
	giveUp()
	_ = p.Close()
	<-ended
}

// beside has a waiter that died in line for more permits than are free. It keeps none out that fits.
func beside(a *actor) {
	defer a.rest(a.upTo(time.Second))
	s := a.scene("dead")
	l, err := a.client.Semaphore(s, permits).TryAcquire(a.ctx, 1)
	if err != nil {
		return
	}
	defer func() { _ = l.Release(context.Background()) }()
	p := a.meets()
	waiting, giveUp := context.WithCancel(a.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if l, err := p.Semaphore(s, permits).Acquire(waiting, permits); err == nil {
			_ = l.Release(waiting)
		}
	}()
	a.rest(6 * a.trip())
	if l.Held() {
		overtakes, err := a.client.Semaphore(s, permits).TryAcquire(a.ctx, 1)
		a.wantf(errors.Is(err, redlatch.ErrTaken), "a try beside a waiter that came before: %v", err)
		other, err2 := a.client.Semaphore(s, permits+1).TryAcquire(a.ctx, 1)
		a.wantf(errors.Is(err2, redlatch.ErrWrongKind), "a try with another size: %v", err2)
		for _, l := range []*redlatch.Lease{overtakes, other} {
			if l != nil {
				_ = l.Release(context.Background())
			}
		}
	}
	p.dies()
	a.rest(a.trip())
	if l.Held() {
		second, err := a.client.Semaphore(s, permits).TryAcquire(a.ctx, 1)
		a.wantf(err == nil || !l.Held(), "a try beside a waiter that died: %v", err)
		if err == nil {
			_ = second.Release(context.Background())
		}
	}
	giveUp()
	_ = p.Close()
	<-ended
}

// entangled has two clients wait for each other, and a third acquisition behind one of them.
func entangled(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	first, second := a.scene("tied"), a.scene("tied")
	p := a.meets()
	defer func() { _ = p.Close() }()
	mine, err := a.client.Mutex(first).TryLock(a.ctx)
	if err != nil {
		return
	}
	others, err := p.Mutex(second).TryLock(a.ctx)
	if err != nil {
		_ = mine.Release(context.Background())
		return
	}
	outside := a.oneIn(3) // then the lock is taken in part, by a holder that waits for nothing
	if outside {
		_ = others.Release(context.Background())
		if others, err = p.Semaphore(second, 2).TryAcquire(a.ctx, 1); err != nil {
			_ = mine.Release(context.Background())
			return
		}
		third, err := a.client.Semaphore(second, 2).TryAcquire(a.ctx, 1)
		if err != nil {
			_ = others.Release(context.Background())
			_ = mine.Release(context.Background())
			return
		}
		defer func() { _ = third.Release(context.Background()) }()
	}
	done := make(chan struct{}, 3)
	waiting, giveUp := context.WithCancel(a.ctx)
	wait := func(under *redlatch.Lease, take func(context.Context) (*redlatch.Lease, error)) {
		ctx, cancel := context.WithCancel(waiting)
		if under != nil {
			ctx, cancel = context.WithCancel(under.Context())
			defer context.AfterFunc(waiting, cancel)()
		}
		defer cancel()
		if l, err := take(ctx); err == nil {
			_ = l.Release(context.Background())
		}
		done <- struct{}{}
	}
	elsewhere := a.oneIn(2) // the partner works for a process that has the second lock
	go wait(mine, func(ctx context.Context) (*redlatch.Lease, error) {
		if outside {
			return a.client.Semaphore(second, 2).Acquire(ctx, 1)
		}
		return a.client.Mutex(second).Lock(ctx)
	})
	if elsewhere {
		held := redlatch.Held{Name: second, Kind: "mutex", Owner: others.Owner(), Token: others.Token()}
		go wait(nil, func(ctx context.Context) (*redlatch.Lease, error) {
			return p.Mutex(first).Lock(redlatch.WithHeld(ctx, held))
		})
	} else {
		go wait(others, p.Mutex(first).Lock)
	}
	a.rest(6 * a.trip())
	go wait(nil, p.Mutex(first).Lock) // behind
	a.rest(time.Second)
	found, err := a.client.Deadlocks(a.ctx)
	if err == nil && mine.Held() && others.Held() && waiting.Err() == nil {
		ours := slices.DeleteFunc(found, func(d redlatch.Deadlock) bool {
			return !slices.ContainsFunc(d.Waiters, func(b redlatch.Blocked) bool { return b.Lock == first })
		})
		a.wantf(outside || len(ours) == 1 && len(ours[0].Waiters) == 2, "two clients wait for each other, and Deadlocks = %v", found)
		a.wantf(!outside || len(ours) == 0, "one permit is held outside, and Deadlocks = %v", ours)
	}
	giveUp()
	for range 3 {
		<-done
	}
	_ = mine.Release(context.Background())
	_ = others.Release(context.Background())
}

// lined has goroutines of two clients wait for a lock, and looks how Inspect shows them.
func lined(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("lined")
	l, err := a.client.Mutex(name).TryLock(a.ctx)
	if err != nil {
		return
	}
	p := a.meets()
	waiting, giveUp := context.WithCancel(redlatch.WithLabels(a.ctx, map[string]string{"of": "line"}))
	done := make(chan struct{}, 10)
	n := 0
	join := func() {
		n++
		go func() {
			if l, err := p.Mutex(name).Lock(waiting); err == nil {
				_ = l.Release(context.Background())
			}
			done <- struct{}{}
		}()
	}
	look := func() {
		a.rest(6*a.plan.heartbeat/5 + 6*a.trip() + 300*time.Millisecond)
		info, err := a.client.Inspect(a.ctx, name)
		if err != nil || !l.Held() || a.ctx.Err() != nil {
			return
		}
		places, callers := 1, n
		if a.plan.strict {
			places, callers = n, 1
		}
		a.wantf(len(info.Waiters) == places, "%d goroutines wait, and Inspect shows %+v", n, info.Waiters)
		for _, w := range info.Waiters {
			a.wantf(w.Callers == callers, "a place in line is for %d goroutines, and Inspect shows %d", callers, w.Callers)
			a.wantf(w.Labels["of"] == "line", "Inspect shows the labels %v", w.Labels)
			a.wantf(info.At.Sub(w.LastSeen) <= 6*a.plan.heartbeat/5+a.trip(), "a waiter was last seen %v ago", info.At.Sub(w.LastSeen))
			a.wantf(!w.Dead && w.Client == p.ID(), "Inspect shows the waiter %+v", w)
		}
	}
	for range 2 {
		join()
		join()
		look()
	}
	giveUp()
	for range n {
		<-done
	}
	a.rest(time.Second)
	a.net.call(func() {
		for _, s := range a.servers {
			for _, key := range s.Keys("*" + p.ID() + "*notes") {
				kept := s.Do("HLEN", key).Reply.Int
				a.wantf(kept == 0, "%s notes %d waits when none goes on", key, kept)
			}
		}
	})
	_ = l.Release(context.Background())
	_ = p.Close()
}
