package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// minHold is the MinHold of the scenes that have one.
const minHold = 40 * time.Millisecond

// shut releases a lock of any kind before its MinHold has passed, and checks when it opens.
func shut(a *player) {
	k := a.kinds(a.scene("shut"))[a.Random.IntN(len(unpooled))]
	waited := a.OneIn(3)
	forced, hold := !waited && a.OneIn(4), minHold
	if forced {
		hold = world.LongestHold // a force takes some round trips
	}
	p := a.meets(func(o *redlatch.Options) { o.Lock.MinHold = hold })
	l := k.heldBy(p.Client)
	token := l.Token()
	var w *waiter
	if waited {
		w = k.waits(a.Ctx, a.Client)
	}
	a.Rest(a.UpTo(minHold / 2))
	err := l.Release(context.Background())
	a.needs((err == nil || errors.Is(err, redlatch.ErrUnreachable)) && token != 0)
	if waited {
		if <-w.ended; w.err == nil {
			a.wantOpen(k.kind, token, w.lease)
		}
		return
	}
	if forced && k.kind == "mutex" && a.OneIn(2) {
		taken, err := a.Client.Mutex(k.name).TakeByForce(a.Ctx, redlatch.ForceOptions{})
		a.wantDone(err, "a mutex that is shut is taken by force")
		drop(taken)
		return
	}
	if forced {
		_, err := a.Client.ForceRelease(a.Ctx, k.name, redlatch.ForceOptions{})
		open, tried := k.try(a.Client)
		a.wantDone(errors.Join(err, tried), "a %s that is shut is opened by force", k.kind)
		drop(open)
		return
	}
	if k.kind == "election" && a.Harmless() {
		leader, err := a.Client.Election(k.name).Leader(a.Ctx)
		a.Wantf(err != nil || leader.Value == "", "a leader that has resigned leads: %+v", leader)
	}
	if early, err := k.try(a.Client); err == nil {
		a.wantOpen(k.kind, token, early)
	} else {
		a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a %s that is shut: %v", k.kind, err)
	}
	next, err := k.lock(a.Client, a.Ctx, true)
	if err == nil {
		a.wantOpen(k.kind, token, next)
	}
}

// wantOpen checks that a lock was closed for its MinHold since an acquisition, and not much longer.
// A token is the server's time in us.
func (a *player) wantOpen(kind string, token int64, next *redlatch.Lease) {
	after := time.Duration(next.Token()-token) * time.Microsecond
	back := a.SetBackBy()
	if next.Token() > 0 && back == 0 {
		a.Alwaysf(after >= minHold, "a %s is open %v after its acquisition, and the least hold is %v", kind, after, minHold)
		a.Wantf(after <= 2*minHold+6*a.Trip(), "a %s is open %v after its acquisition, and the least hold is %v", kind, after, minHold)
	}
	drop(next)
}

// gaveBack fails to lock one of several names. The others are free then, whatever their MinHold.
func gaveBack(a *player) {
	first, second := a.scene("back"), a.scene("back")
	if first > second {
		first, second = second, first
	}
	l := a.has(a.Client.Mutex(second).TryLock(a.Ctx))
	p := a.meets(func(o *redlatch.Options) { o.Lock.MinHold = world.LongestHold })
	both, err := p.MultiMutex(first, second).With(redlatch.LockOptions{MaxWait: 10 * a.Trip()}).Lock(a.Ctx)
	drop(both)
	if err != nil && l.Held() {
		a.Wantf(errors.Is(err, redlatch.ErrTaken), "Lock of several names of which one is taken: %v", err)
		free, err := a.Client.Mutex(first).TryLock(a.Ctx)
		a.wantDone(err, "a name that was given back")
		drop(free)
	}
}

// knotted makes two goroutines of one client wait for each other. One of them is told at once.
func knotted(a *player) {
	names := []string{a.scene("knot"), a.scene("knot"), a.scene("knot")}
	ctx := a.within(100 * a.Trip()) // while the world goes on
	several := a.OneIn(2)
	tied := make(chan error, 2)
	begun := make(chan struct{})
	start := time.Now()
	for i := range 2 {
		go func() {
			var mine *redlatch.Lease
			var err error
			defer func() { tied <- err }() // when what it has is released
			if mine, err = a.Client.Mutex(names[i]).Lock(ctx); err == nil {
				defer drop(mine)
				<-begun
				var other interface{ Release(context.Context) error }
				switch free := "scene-a-" + names[2]; { // locked before the one that is taken
				case several && i == 0:
					other, err = a.Client.MultiMutex(free, names[1]).Lock(mine.Context())
				case several:
					a.Rest(8 * a.Trip())
					other, err = a.Client.Mutex(free).Lock(mine.Context())
				default:
					other, err = a.Client.Mutex(names[1-i]).Lock(mine.Context())
				}
				if err == nil {
					_ = other.Release(context.Background())
				}
			}
		}()
	}
	a.Rest(6 * a.Trip())
	close(begun)
	first, second := <-tied, <-tied
	if a.Harmless() {
		told := errors.Is(first, redlatch.ErrDeadlock) && second == nil || errors.Is(second, redlatch.ErrDeadlock) && first == nil
		a.Wantf(told, "two goroutines that wait for each other get %v and %v", first, second)
		a.Wantf(time.Since(start) < 30*a.Trip(), "two goroutines that wait for each other are told after %v", time.Since(start))
	}
}

// own waits for, and tries, a lock that another goroutine of its client holds. The errors say so.
func own(a *player) {
	name := a.scene("own")
	l := a.has(a.Client.Mutex(name).Lock(a.Ctx))
	m := a.Client.Mutex(name).With(redlatch.LockOptions{MaxWait: 5 * a.Trip()})
	for _, wait := range []bool{true, false} {
		second, err := world.Either(wait, m.Lock, m.TryLock)(a.Ctx)
		if err == nil {
			a.Wantf(!l.Held(), "a mutex is held twice")
			drop(second)
			break
		}
		taken := (*redlatch.TakenError)(nil)
		a.Wantf(errors.As(err, &taken) && taken.Own && taken.Owner == l.Owner() && !taken.Since.IsZero() || !l.Held(),
			"the error of a mutex that this client holds: %v", err)
	}
}
