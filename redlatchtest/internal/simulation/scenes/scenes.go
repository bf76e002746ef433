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

// What is in this file are scenes: an actor has a second client of its own, on names that no other
// actor uses, and brings both to a state that chance seldom does.

// bereaved has waiters that died in line behind a lease, and looks which clients they keep out: none, of any
// kind, as soon as the lock is free.
func bereaved(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	mine, next := kinds[a.Random.IntN(len(kinds))], kinds[a.Random.IntN(len(kinds))]
	l, err := mine.lock(a.Client, a.Ctx, false)
	if err != nil {
		return
	}
	defer drop(l)
	p := a.meets()
	waiting, giveUp := context.WithCancel(a.Ctx)
	w := mine.waits(waiting, p.Client)
	a.Rest(6 * a.Trip()) // a try, a subscription, a place in line
	info, err := a.Client.Inspect(a.Ctx, name)
	a.Wantf(err != nil || !l.Held() || len(info.Waiters) == 1 && !info.Waiters[0].Dead && info.Waiters[0].Client == p.ID() &&
		len(info.Holders) == 1 && (mine.kind == "reentrant" || info.Holders[0].Owner == l.Owner()) && info.Kind == mine.kind,
		"Inspect of a %s with a holder and a waiter: %+v, %v", mine.kind, info, err)
	p.dies()
	work := l.Context()
	wire.Sleep(work, a.Trip())
	info, err = a.Client.Inspect(a.Ctx, name)
	a.Wantf(err != nil || !l.Held() || len(info.Waiters) == 1 && info.Waiters[0].Dead, "Inspect of a %s with a dead waiter: %+v", mine.kind, info)
	held := l.Held()
	released := l.Release(context.Background())
	a.Wantf(errors.Is(context.Cause(work), redlatch.ErrNotHeld), "the context of a %s that was released says %v", mine.kind, context.Cause(work))
	if held && released == nil {
		second, err := next.lock(a.Client, a.Ctx, false)
		a.Wantf(err == nil, "a try of a %s where a client died that waited for a %s: %v", next.kind, mine.kind, err)
		drop(second)
	}
	giveUp()
	_ = p.Close()
	w.release()
}

// beside has a waiter that died in line for more permits than are free. It keeps none out that fits.
func beside(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	s := a.scene("dead")
	l, err := a.Client.Semaphore(s, world.Permits).TryAcquire(a.Ctx, 1)
	if err != nil {
		return
	}
	defer drop(l)
	p := a.meets()
	waiting, giveUp := context.WithCancel(a.Ctx)
	w := waits(func() (*redlatch.Lease, error) { return p.Semaphore(s, world.Permits).Acquire(waiting, world.Permits) })
	a.Rest(6 * a.Trip())
	if l.Held() {
		overtakes, err := a.Client.Semaphore(s, world.Permits).TryAcquire(a.Ctx, 1)
		a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try beside a waiter that came before: %v", err)
		other, err2 := a.Client.Semaphore(s, world.Permits+1).TryAcquire(a.Ctx, 1)
		a.Wantf(errors.Is(err2, redlatch.ErrWrongKind), "a try with another size: %v", err2)
		for _, l := range []*redlatch.Lease{overtakes, other} {
			drop(l)
		}
	}
	p.dies()
	a.Rest(a.Trip())
	if l.Held() {
		second, err := a.Client.Semaphore(s, world.Permits).TryAcquire(a.Ctx, 1)
		a.Wantf(err == nil || !l.Held(), "a try beside a waiter that died: %v", err)
		drop(second)
	}
	giveUp()
	_ = p.Close()
	w.release()
}

// entangled has two clients wait for each other, and a third acquisition behind one of them.
func entangled(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	first, second := a.scene("tied"), a.scene("tied")
	p := a.meets()
	defer func() { _ = p.Close() }()
	mine, err := a.Client.Mutex(first).TryLock(a.Ctx)
	if err != nil {
		return
	}
	others, err := p.Mutex(second).TryLock(a.Ctx)
	if err != nil {
		drop(mine)
		return
	}
	outside := a.OneIn(3) // then the lock is taken in part, by a holder that waits for nothing
	if outside {
		drop(others)
		if others, err = p.Semaphore(second, 2).TryAcquire(a.Ctx, 1); err != nil {
			drop(mine)
			return
		}
		third, err := a.Client.Semaphore(second, 2).TryAcquire(a.Ctx, 1)
		if err != nil {
			drop(others)
			drop(mine)
			return
		}
		defer drop(third)
	}
	done := make(chan struct{}, 3)
	waiting, giveUp := context.WithCancel(a.Ctx)
	wait := func(under *redlatch.Lease, take func(context.Context) (*redlatch.Lease, error)) {
		ctx, cancel := context.WithCancel(waiting)
		if under != nil {
			ctx, cancel = context.WithCancel(under.Context())
			defer context.AfterFunc(waiting, cancel)()
		}
		defer cancel()
		if l, err := take(ctx); err == nil {
			drop(l)
		}
		done <- struct{}{}
	}
	elsewhere := a.OneIn(2) // the partner works for a process that has the second lock
	go wait(mine, func(ctx context.Context) (*redlatch.Lease, error) {
		if outside {
			return a.Client.Semaphore(second, 2).Acquire(ctx, 1)
		}
		return a.Client.Mutex(second).Lock(ctx)
	})
	if elsewhere {
		held := redlatch.Held{Name: second, Kind: "mutex", Owner: others.Owner(), Token: others.Token()}
		go wait(nil, func(ctx context.Context) (*redlatch.Lease, error) {
			return p.Mutex(first).Lock(redlatch.WithHeld(ctx, held))
		})
	} else {
		go wait(others, p.Mutex(first).Lock)
	}
	a.Rest(6 * a.Trip())
	go wait(nil, p.Mutex(first).Lock) // behind
	a.Rest(time.Second)
	found, err := a.Client.Deadlocks(a.Ctx)
	if err == nil && mine.Held() && others.Held() && waiting.Err() == nil {
		ours := slices.DeleteFunc(found, func(d redlatch.Deadlock) bool {
			return !slices.ContainsFunc(d.Waiters, func(b redlatch.Blocked) bool { return b.Lock == first })
		})
		a.Wantf(outside || len(ours) == 1 && len(ours[0].Waiters) == 2, "two clients wait for each other, and Deadlocks = %v", found)
		a.Wantf(!outside || len(ours) == 0, "one permit is held outside, and Deadlocks = %v", ours)
	}
	giveUp()
	for range 3 {
		<-done
	}
	drop(mine)
	drop(others)
}

// lined has goroutines of two clients wait for a lock, and looks how Inspect shows them.
func lined(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("lined")
	l, err := a.Client.Mutex(name).TryLock(a.Ctx)
	if err != nil {
		return
	}
	beat := 100*time.Millisecond + a.UpTo(a.Plan.Heartbeat)
	p := a.meets(func(o *redlatch.Options) { o.Heartbeat = beat })
	waiting, giveUp := context.WithCancel(redlatch.WithLabels(a.Ctx, map[string]string{"of": "line"}))
	var waiters []*waiter
	look := func() {
		a.Rest(6*beat/5 + 6*a.Trip() + 300*time.Millisecond)
		info, err := a.Client.Inspect(a.Ctx, name)
		if err != nil || !l.Held() || a.Ctx.Err() != nil {
			return
		}
		n := len(waiters)
		places, callers := 1, n
		if a.Plan.Strict {
			places, callers = n, 1
		}
		a.Wantf(len(info.Waiters) == places, "%d goroutines wait, and Inspect shows %+v", n, info.Waiters)
		for _, w := range info.Waiters {
			a.Wantf(w.Callers == callers, "a place in line is for %d goroutines, and Inspect shows %d", callers, w.Callers)
			a.Wantf(w.Labels["of"] == "line", "Inspect shows the labels %v", w.Labels)
			a.Wantf(info.At.Sub(w.LastSeen) <= 6*beat/5+a.Trip(), "a waiter was last seen %v ago", info.At.Sub(w.LastSeen))
			a.Wantf(!w.Dead && w.Client == p.ID(), "Inspect shows the waiter %+v", w)
		}
	}
	for range 2 {
		for range 2 {
			o := redlatch.LockOptions{MaxWait: time.Minute + a.UpTo(time.Minute)}
			waiters = append(waiters, waits(func() (*redlatch.Lease, error) { return p.Mutex(name).With(o).Lock(waiting) }))
		}
		look()
	}
	giveUp()
	for _, w := range waiters {
		w.release()
	}
	a.Rest(time.Second)
	a.Net.Call(func() {
		for _, s := range a.Servers {
			for _, key := range s.Keys("*" + p.ID() + "*notes") {
				kept := s.Do("HLEN", key).Reply.Int
				a.Wantf(kept == 0, "%s notes %d waits when none goes on", key, kept)
			}
		}
	})
	drop(l)
	_ = p.Close()
}
