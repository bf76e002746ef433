package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// What is in this file is about locks that another library shares. The actors play that library: they
// send its commands to the server at once, as a program beside it would.

// neighbourhood is what the world knows of the mutex "shared".
type neighbourhood struct {
	inside    int
	freed     time.Time // by the other library, and not acquired since
	announced time.Time // last
}

var sharedOptions = redlatch.LockOptions{
	Announce: redlatch.Announce{Channel: "shared is free", Message: "free"},
	Yield:    redlatch.Yield{Every: 3, For: 60 * time.Millisecond},
}

const sharedKey = "redlatch:shared"

// watchShared notes what is announced. A hand-over to a waiter is not.
func (w *World) watchShared() {
	for _, s := range w.servers {
		s.Subscribe(sharedOptions.Announce.Channel, func(string) {
			w.mu.Lock()
			w.shared.announced = time.Now()
			w.mu.Unlock()
			w.net.after(0, func() {
				if w.plan.harm == calm && s.Do("EXISTS", sharedKey).Reply.Int == 1 {
					w.fail("a mutex is announced to be free, and held by %q", s.Do("GET", sharedKey).Reply.Text)
				}
			})
		})
	}
}

// entersShared notes that an actor has the mutex, until the function that it returns is called.
func (a *actor) entersShared() (since time.Time, leaves func()) {
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	a.shared.inside++
	alone := a.shared.inside == 1
	since, a.shared.freed = a.shared.freed, time.Time{}
	if !alone && a.harmless() {
		go a.fail("%s.%d: a mutex that another library shares is held twice", a.name, a.number)
	}
	return since, func() {
		a.World.mu.Lock()
		defer a.World.mu.Unlock()
		a.shared.inside--
	}
}

// shared uses a mutex beside the other library.
func shared(a *actor) {
	if a.plan.harm != calm { // where a lease may be lost, the other library shows nothing more
		a.rest(time.Second)
		return
	}
	if a.number == 0 && a.name[0] == 'A' {
		a.neighbour()
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, 3*time.Second+a.upTo(3*time.Second))
	defer cancel()
	start := time.Now()
	l, err := a.client.Mutex("shared").With(sharedOptions).Lock(ctx)
	if err != nil {
		a.wantf(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "Lock = %v", err)
		return
	}
	freed, leaves := a.entersShared()
	if !freed.IsZero() && freed.Sub(start) > 300*time.Millisecond {
		a.wantf(time.Since(freed) <= 2*a.trip(), "a mutex that another library announced to be free is acquired %v after that", time.Since(freed))
	}
	a.rest(a.upTo(5 * time.Millisecond))
	leaves()
	released := time.Now()
	if err := l.Release(context.Background()); err != nil || a.at(sharedKey).Do("EXISTS", sharedKey).Reply.Int == 1 {
		return
	}
	a.World.mu.Lock()
	announced := a.shared.announced
	a.World.mu.Unlock()
	a.wantf(!announced.Before(released), "a mutex that is free is not announced")
}

// neighbour acquires the mutex as the other library does: it tries again and again.
func (a *actor) neighbour() {
	a.rest(a.upTo(300 * time.Millisecond))
	s, me := a.at(sharedKey), fmt.Sprintf("neighbour %s", a.name)
	start := time.Now()
	for s.Do("SET", sharedKey, me, "NX", "PX", "20000").Reply.Text != "OK" {
		a.rest(10*time.Millisecond + a.upTo(20*time.Millisecond))
		a.wantf(time.Since(start) < 10*time.Second, "another library waits for a mutex whose line yields for %v", time.Since(start))
		if a.ctx.Err() != nil {
			return
		}
	}
	_, leaves := a.entersShared()
	a.rest(400*time.Millisecond + a.upTo(100*time.Millisecond))
	leaves()
	a.net.call(func() {
		s.Do("DEL", sharedKey)
		a.World.mu.Lock()
		a.shared.freed = time.Now()
		a.World.mu.Unlock()
		s.Do("PUBLISH", sharedOptions.Announce.Channel, "free")
	})
}

// yields has many waiters of two clients hand a mutex on, beside another library, which has it now and
// then all the same. When the waiters are gone, a newcomer has it at once.
func yields(a *actor) {
	defer a.rest(2*time.Second + a.upTo(2*time.Second))
	if !a.harmless() {
		return
	}
	name := a.scene("dead")
	o := redlatch.LockOptions{TTL: 10 * time.Second, Yield: redlatch.Yield{Every: 3, For: 60 * time.Millisecond}}
	ctx, stop := context.WithTimeout(a.ctx, 4*time.Second)
	defer stop()
	var all sync.WaitGroup
	for range 2 {
		p := a.meets(patient)
		defer func() { _ = p.Close() }()
		for range 3 {
			all.Go(func() {
				a.rest(a.trip())
				for ctx.Err() == nil {
					if l, err := p.Mutex(name).With(o).Lock(ctx); err == nil {
						a.rest(2 * time.Millisecond)
						_ = l.Release(context.Background())
					}
				}
			})
		}
	}
	a.rest(200 * time.Millisecond)
	key := "redlatch:" + name
	begun, had := time.Now(), false
	for !had && time.Since(begun) < 2*time.Second && a.ctx.Err() == nil {
		a.rest(20 * time.Millisecond)
		a.net.call(func() { had = a.at(key).Do("SET", key, "the other library", "NX", "PX", "20").Reply.Text == "OK" })
	}
	a.wantf(had, "another library waits for a mutex whose line yields for %v", time.Since(begun))
	stop()
	all.Wait()
	a.rest(2 * o.Yield.For)
	a.wantFreeNow(sharables(name)[0])
}

// fenced enters a reentrant mutex whose tokens are counted in a key of another library.
func fenced(a *actor) {
	const counter = "fence:{redlatch:fenced}"
	s := a.at(counter)
	m := a.client.ReentrantMutex("fenced").With(redlatch.LockOptions{FenceKey: counter})
	if a.oneIn(6) {
		s.Do("INCR", counter) // by the other library
	}
	last, _ := strconv.ParseInt(s.Do("GET", counter).Reply.Text, 10, 64)
	ctx, cancel := a.patience()
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		a.alwaysf(!errors.Is(err, redlatch.ErrInvalid), "Lock with a FenceKey: %v", err)
		return
	}
	if token := l.Token(); token != 0 {
		a.alwaysf(token > last, "the token %d comes after %d of another library", token, last)
		r := s.Do("GET", counter)
		now, _ := strconv.ParseInt(r.Reply.Text, 10, 64)
		a.alwaysf(now >= token || r.Err != nil || len(s.Keys(counter)) == 0, "the token is %d, and that of the other library's key %d", token, now)
	}
	left := s.Do("PTTL", counter)
	a.alwaysf(left.Err != nil || left.Reply.Int < 0, "the other library's key expires")
	a.rest(a.upTo(10 * time.Millisecond))
	switch a.random.IntN(6) {
	case 0:
		if text, err := l.Detach(a.ctx); err == nil {
			if adopted, err := a.client.Adopt(a.ctx, text, redlatch.LockOptions{}); err == nil {
				l = adopted
			}
		}
	case 1:
		_, _ = a.client.ForceRelease(a.ctx, "fenced", redlatch.ForceOptions{})
	}
	_ = l.Release(context.Background())
}

// announced takes a lock by force, and announces that it is free.
func announced(a *actor) {
	defer a.rest(a.upTo(time.Second))
	name := a.scene("announced")
	p := a.meets()
	defer func() { _ = p.Close() }()
	l, err := p.Mutex(name).TryLock(a.ctx)
	if err != nil {
		return
	}
	heard := 0
	s := a.at("redlatch:" + name)
	sub := s.Subscribe("free "+name, func(string) { heard++ })
	start := time.Now()
	taken, err := a.client.ForceRelease(a.ctx, name, redlatch.ForceOptions{Reason: "announced", Announce: redlatch.Announce{Channel: "free " + name, Message: "free"}})
	s.Unsubscribe(sub)
	a.wantf(err != nil || heard == 1, "a forced release is announced %d times", heard)
	// A request that had to be sent again may have found the lease over.
	if err == nil && len(taken.Holders) > 0 && time.Since(start) < a.plan.request/4 {
		info, err := a.client.Inspect(a.ctx, name)
		a.alwaysf(err != nil || info.Forced != nil && info.Forced.Reason == "announced", "Inspect after a forced release: %+v", info)
		err = l.Release(context.Background())
		lost := (*redlatch.LostError)(nil)
		a.wantf(errors.As(err, &lost) && lost.Reason == redlatch.LossForced, "the release of what was taken by force: %v", err)
	}
	_ = l.Release(context.Background())
}
