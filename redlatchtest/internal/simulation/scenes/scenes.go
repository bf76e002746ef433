package scenes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// This file has scenes: an actor has its own second client, on names that no other actor uses, and
// brings both to a state that chance rarely reaches.

// bereaved lets waiters die in line behind a lease, and checks that they keep no client of any kind
// out as soon as the lock is free.
func bereaved(a *player) {
	mine := a.lock()
	kinds := a.kinds(mine.name)
	next := kinds[a.Random.IntN(len(kinds))]
	l, p := mine.heldBy(a.Client), a.meets()
	mine.queues(a.Ctx, p.Client)
	p.dies()
	work := l.Context()
	wire.Sleep(work, a.Trip())
	info, err := a.Client.Inspect(a.Ctx, mine.name)
	a.Wantf(err != nil || !l.Held() || len(info.Waiters) == 1 && info.Waiters[0].Dead, "Inspect of a %s with a dead waiter: %+v", mine.kind, info)
	held := l.Held()
	released := l.Release(context.Background())
	a.Wantf(errors.Is(context.Cause(work), redlatch.ErrNotHeld), "the context of a %s that was released says %v", mine.kind, context.Cause(work))
	if held && released == nil {
		second, err := next.try(a.Client)
		a.wantDone(err, "a try of a %s where a client died that waited for a %s", next.kind, mine.kind)
		drop(second)
	}
}

// entangled makes two clients wait for each other, and a third acquisition behind one of them.
func entangled(a *player) {
	first, second, p := a.scene("tied"), a.scene("tied"), a.meets()
	mine := a.has(a.Client.Mutex(first).TryLock(a.Ctx))
	wanted := pair(a.Client.Mutex(second))
	outside := a.OneIn(3) // then the lock is taken in part, by a holder that waits for nothing
	var others *redlatch.Lease
	if outside {
		others = a.has(p.Semaphore(second, 2).TryAcquire(a.Ctx, 1))
		s := a.Client.Semaphore(second, 2)
		wanted = asking(s.Acquire, s.TryAcquire, 1)
		a.has(wanted.try(a.Ctx))
	} else {
		others = a.has(p.Mutex(second).TryLock(a.Ctx))
	}
	wait := func(ctx context.Context, lock func(context.Context) (*redlatch.Lease, error)) {
		a.waits(func() (*redlatch.Lease, error) { return lock(ctx) })
	}
	under := func(l *redlatch.Lease) context.Context {
		ctx, cancel := context.WithCancel(l.Context())
		context.AfterFunc(a.Ctx, cancel)
		return ctx
	}
	wait(under(mine), wanted.lock)
	if a.OneIn(2) { // the partner works for a process that has the second lock
		held := redlatch.Held{Name: second, Kind: "mutex", Owner: others.Owner(), Token: others.Token()}
		wait(redlatch.WithHeld(a.Ctx, held), p.Mutex(first).Lock)
	} else {
		wait(under(others), p.Mutex(first).Lock)
	}
	a.Rest(6 * a.Trip())
	wait(a.Ctx, p.Mutex(first).Lock) // behind
	a.Rest(time.Second)
	found, err := a.Client.Deadlocks(a.Ctx)
	if err == nil && mine.Held() && others.Held() {
		ours := slices.DeleteFunc(found, func(d redlatch.Deadlock) bool {
			return !slices.ContainsFunc(d.Waiters, func(b redlatch.Blocked) bool { return b.Lock == first })
		})
		a.Wantf(outside || len(ours) == 1 && len(ours[0].Waiters) == 2, "two clients wait for each other, and Deadlocks = %v", found)
		a.Wantf(!outside || len(ours) == 0, "one permit is held outside, and Deadlocks = %v", ours)
	}
}

// lined makes goroutines wait for a lock with labels behind one with labels, and checks how Inspect
// shows them. Too many labels are refused.
func lined(a *player) {
	name, many := a.scene("lined"), make(map[string]string)
	for i := range 9 {
		many[fmt.Sprint(i)] = "too many"
	}
	refused, err := a.Client.Mutex(name).TryLock(redlatch.WithLabels(a.Ctx, many))
	a.Alwaysf(errors.Is(err, redlatch.ErrInvalid), "an acquisition with nine labels: %v", err)
	drop(refused)
	l := a.has(a.Client.Mutex(name).TryLock(redlatch.WithLabels(a.Ctx, map[string]string{"of": "holder"})))
	beat := 100*time.Millisecond + a.UpTo(a.Plan.Heartbeat)
	p := a.meets(beating(beat))
	waiting, giveUp := context.WithCancel(redlatch.WithLabels(a.Ctx, map[string]string{"of": "line"}))
	defer giveUp()
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
		a.Wantf(len(info.Holders) == 1 && info.Holders[0].Labels["of"] == "holder", "Inspect shows %+v for a lease with labels", info.Holders)
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
			waiters = append(waiters, a.waits(func() (*redlatch.Lease, error) { return p.Mutex(name).With(o).Lock(waiting) }))
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
}
