package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
)

// minHold is the least hold of the scenes that have one.
const minHold = 40 * time.Millisecond

// shut releases a lock of any kind before its MinHold has passed, and looks when it opens.
func shut(a *actor) {
	defer a.rest(a.upTo(500 * time.Millisecond))
	name := a.scene("shut")
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds)-1)] // a slot pool has no such option
	p := a.meets(func(o *redlatch.Options) { o.Lock.MinHold = minHold })
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.ctx, false)
	if err != nil {
		return
	}
	token := l.Token()
	a.rest(a.upTo(minHold / 2))
	if err := l.Release(context.Background()); err != nil && !errors.Is(err, redlatch.ErrUnreachable) || token == 0 {
		return
	}
	if a.oneIn(4) {
		_, err := a.client.ForceRelease(a.ctx, name, redlatch.ForceOptions{})
		open, tried := k.lock(a.client, a.ctx, false)
		a.wantf(err == nil && tried == nil, "a %s that is shut is opened by force: %v, %v", k.kind, err, tried)
		if tried == nil {
			_ = open.Release(context.Background())
		}
		return
	}
	if k.kind == "election" && a.harmless() {
		leader, err := a.client.Election(name).Leader(a.ctx)
		a.wantf(err != nil || leader.Value == "", "a leader that has resigned leads: %+v", leader)
	}
	if early, err := k.lock(a.client, a.ctx, false); err == nil {
		a.wantOpen(k.kind, token, early)
	} else {
		a.wantf(errors.Is(err, redlatch.ErrTaken), "a try of a %s that is shut: %v", k.kind, err)
	}
	next, err := k.lock(a.client, a.ctx, true)
	if err == nil {
		a.wantOpen(k.kind, token, next)
	}
}

// wantOpen checks that a lock was shut for its least hold since an acquisition, and not for long
// after that. A token is the server's time in us.
func (a *actor) wantOpen(kind string, token int64, next *redlatch.Lease) {
	after := time.Duration(next.Token()-token) * time.Microsecond
	a.World.mu.Lock()
	back := a.setBack
	a.World.mu.Unlock()
	if next.Token() > 0 && back == 0 {
		a.alwaysf(after >= minHold, "a %s is open %v after its acquisition, and the least hold is %v", kind, after, minHold)
		a.wantf(after <= 2*minHold+3*a.trip(), "a %s is open %v after its acquisition, and the least hold is %v", kind, after, minHold)
	}
	_ = next.Release(context.Background())
}

// gaveBack fails to lock one of several names. The others are free then, whatever the least hold.
func gaveBack(a *actor) {
	defer a.rest(a.upTo(500 * time.Millisecond))
	first, second := a.scene("back"), a.scene("back")
	if first > second {
		first, second = second, first
	}
	l, err := a.client.Mutex(second).TryLock(a.ctx)
	if err != nil {
		return
	}
	p := a.meets(func(o *redlatch.Options) { o.Lock.MinHold = 10 * time.Second })
	both, err := p.MultiMutex(first, second).With(redlatch.LockOptions{MaxWait: 10 * a.trip()}).Lock(a.ctx)
	if err == nil {
		_ = both.Release(context.Background())
	}
	if !l.Held() {
		err = nil
	}
	if err != nil {
		a.wantf(errors.Is(err, redlatch.ErrTaken), "Lock of several names of which one is taken: %v", err)
		free, err := a.client.Mutex(first).TryLock(a.ctx)
		a.wantf(err == nil, "a name that was given back: %v", err)
		if err == nil {
			_ = free.Release(context.Background())
		}
	}
	_ = l.Release(context.Background())
	_ = p.Close()
}

// readers wait together for a writer, and are let in together.
func readers(a *actor) {
	defer a.rest(a.upTo(3 * time.Second))
	name := a.scene("readers")
	l, err := a.client.RWMutex(name).TryLock(a.ctx)
	if err != nil {
		return
	}
	p := a.meets()
	defer func() { _ = p.Close() }()
	const n = 10
	in, out, done := make(chan struct{}, n), make(chan struct{}), make(chan struct{}, n)
	ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
	defer cancel()
	for i := range n {
		go func() {
			defer func() { done <- struct{}{} }()
			c := p.Client
			if i == 0 {
				c = a.client
			}
			r, err := c.RWMutex(name).RLock(ctx)
			if err != nil {
				return
			}
			in <- struct{}{}
			<-out
			_ = r.Release(context.Background())
		}()
	}
	a.rest(8 * a.trip())
	held := l.Held()
	_ = l.Release(context.Background())
	a.rest(2 * a.trip())
	a.wantf(!held || len(in) == n, "%d of %d readers are in", len(in), n)
	if a.harmless() {
		w, err := a.client.RWMutex(name).TryLock(a.ctx)
		a.wantf(errors.Is(err, redlatch.ErrTaken), "a writer beside %d readers: %v", len(in), err)
		if err == nil {
			_ = w.Release(context.Background())
		}
	}
	close(out)
	cancel()
	for range n {
		<-done
	}
}

// knotted has two goroutines of one client wait for each other. One of them is told at once.
func knotted(a *actor) {
	defer a.rest(a.upTo(500 * time.Millisecond))
	names := []string{a.scene("knot"), a.scene("knot"), a.scene("knot")}
	ctx, cancel := context.WithTimeout(a.ctx, 100*a.trip()) // while the world goes on
	defer cancel()
	several := a.oneIn(2)
	tied := make(chan error, 2)
	begun := make(chan struct{})
	start := time.Now()
	for i := range 2 {
		go func() {
			var mine *redlatch.Lease
			var err error
			defer func() { tied <- err }() // when what it has is released
			if mine, err = a.client.Mutex(names[i]).Lock(ctx); err == nil {
				defer func() { _ = mine.Release(context.Background()) }()
				<-begun
				var other interface{ Release(context.Context) error }
				switch free := "scene-a-" + names[2]; { // locked before the one that is taken
				case several && i == 0:
					other, err = a.client.MultiMutex(free, names[1]).Lock(mine.Context())
				case several:
					a.rest(8 * a.trip())
					other, err = a.client.Mutex(free).Lock(mine.Context())
				default:
					other, err = a.client.Mutex(names[1-i]).Lock(mine.Context())
				}
				if err == nil {
					_ = other.Release(context.Background())
				}
			}
		}()
	}
	a.rest(6 * a.trip())
	close(begun)
	first, second := <-tied, <-tied
	if a.harmless() {
		told := errors.Is(first, redlatch.ErrDeadlock) && second == nil || errors.Is(second, redlatch.ErrDeadlock) && first == nil
		a.wantf(told, "two goroutines that wait for each other get %v and %v", first, second)
		a.wantf(time.Since(start) < 30*a.trip(), "two goroutines that wait for each other are told after %v", time.Since(start))
	}
}

// overlabeled acquires with labels that are refused.
func overlabeled(a *actor) {
	labels := make(map[string]string)
	for i := range 9 {
		labels[fmt.Sprint(i)] = "too many"
	}
	l, err := a.client.Mutex(a.scene("labels")).TryLock(redlatch.WithLabels(a.ctx, labels))
	a.alwaysf(errors.Is(err, redlatch.ErrInvalid), "an acquisition with nine labels: %v", err)
	if err == nil {
		_ = l.Release(context.Background())
	}
	a.rest(100*time.Millisecond + a.upTo(time.Second))
}

// refusedOwn waits, and tries, for what another goroutine of the same client has. The errors say so.
func refusedOwn(a *actor) {
	defer a.rest(a.upTo(500 * time.Millisecond))
	name := a.scene("own")
	l, err := a.client.Mutex(name).Lock(a.ctx)
	if err != nil {
		return
	}
	m := a.client.Mutex(name).With(redlatch.LockOptions{MaxWait: 5 * a.trip()})
	for _, wait := range []bool{true, false} {
		second, err := either(wait, m.Lock, m.TryLock)(a.ctx)
		if err == nil {
			a.wantf(!l.Held(), "a mutex is held twice")
			_ = second.Release(context.Background())
			break
		}
		taken := (*redlatch.TakenError)(nil)
		a.wantf(errors.As(err, &taken) && taken.Own && taken.Owner == l.Owner() && !taken.Since.IsZero() || !l.Held(),
			"the error of a mutex that this client holds: %v", err)
	}
	_ = l.Release(context.Background())
}
