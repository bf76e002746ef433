package scenes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// This file is about locks that are shared with another library. The actors play that library: they
// send its commands directly to the server, as a program beside redlatch would.

var sharedOptions = redlatch.LockOptions{
	Announce: redlatch.Announce{Channel: "shared is free", Message: "free"},
	Yield:    redlatch.Yield{Every: 3, For: 60 * time.Millisecond},
}

const sharedKey = "redlatch:shared"

// watchShared notes which releases are announced. A hand-over to a waiter is not.
func watchShared(w *world.World) {
	on := &stage{}
	w.State = on
	for _, s := range w.Servers {
		s.Subscribe(sharedOptions.Announce.Channel, func(string) {
			on.mu.Lock()
			on.shared.announced = time.Now()
			on.mu.Unlock()
			w.Net.After(0, func() {
				if w.Plan.Harm == world.Calm && s.Do("EXISTS", sharedKey).Reply.Int == 1 {
					w.Fail("a mutex is announced to be free, and held by %q", s.Do("GET", sharedKey).Reply.Text)
				}
			})
		})
	}
}

// entersShared notes that an actor has the mutex, until leaves is called. If the other library had
// it last, it returns since when no client had it, and whether that library announced that.
func (a *player) entersShared() (since time.Time, told bool, leaves func()) {
	s := on(a.World)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared.inside++
	alone := s.shared.inside == 1
	since, told, s.shared.freed = s.shared.freed, s.shared.told, time.Time{}
	if !alone && a.Harmless() {
		go a.Fail("%s.%d: a mutex that another library shares is held twice", a.Name, a.Number)
	}
	return since, told, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shared.inside--
	}
}

// shared uses a mutex together with the other library.
func shared(a *player) {
	if a.Plan.Harm != world.Calm { // where a lease may be lost, the other library shows nothing more
		a.Rest(time.Second)
		return
	}
	if a.Number == 0 && a.Name[0] == 'A' {
		a.neighbour()
		return
	}
	start := time.Now()
	l, err := a.Client.Mutex("shared").With(sharedOptions).Lock(a.within(3*time.Second + a.UpTo(3*time.Second)))
	if err != nil {
		a.Wantf(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "Lock = %v", err)
		return
	}
	freed, told, leaves := a.entersShared()
	if late := time.Since(freed); !freed.IsZero() && freed.Sub(start) > 300*time.Millisecond {
		a.Wantf(late <= 2*a.Trip() || !told && late <= 150*time.Millisecond+2*a.Trip(),
			"a mutex that another library released is acquired %v after that, announced: %t", late, told)
	}
	a.Rest(a.UpTo(5 * time.Millisecond))
	leaves()
	released := time.Now()
	if err := l.Release(context.Background()); err != nil || a.At(sharedKey).Do("EXISTS", sharedKey).Reply.Int == 1 {
		return
	}
	s := on(a.World)
	s.mu.Lock()
	announced := s.shared.announced
	s.mu.Unlock()
	a.Wantf(!announced.Before(released), "a mutex that is free is not announced")
}

// neighbour acquires the mutex as the other library does: it tries again and again.
func (a *player) neighbour() {
	a.Rest(a.UpTo(300 * time.Millisecond))
	s, me := a.At(sharedKey), fmt.Sprintf("neighbour %s", a.Name)
	start := time.Now()
	for s.Do("SET", sharedKey, me, "NX", "PX", "20000").Reply.Text != "OK" {
		a.Rest(10*time.Millisecond + a.UpTo(20*time.Millisecond))
		a.Wantf(time.Since(start) < 10*time.Second, "another library waits for a mutex whose line yields for %v", time.Since(start))
		if a.Ctx.Err() != nil {
			return
		}
	}
	_, _, leaves := a.entersShared()
	told := a.OneIn(2)
	a.Rest(400*time.Millisecond + a.UpTo(100*time.Millisecond))
	leaves()
	a.Net.Call(func() {
		s.Do("DEL", sharedKey)
		on := on(a.World)
		on.mu.Lock()
		on.shared.freed, on.shared.told = time.Now(), told
		on.mu.Unlock()
		if told {
			s.Do("PUBLISH", sharedOptions.Announce.Channel, "free")
		}
	})
}

// yields makes many waiters of two clients hand a mutex on beside another library, which still gets
// it now and then. They do not wait for a clock that is set back. When they are gone, a newcomer
// gets it at once.
func yields(a *player) {
	a.needs(a.Harmless())
	servers := a.nodes(1)
	s := servers[0]
	const name, key = "yields", "redlatch:yields"
	o := redlatch.LockOptions{TTL: 10 * time.Second, Yield: redlatch.Yield{Every: 3, For: 60 * time.Millisecond}}
	ctx, stop := context.WithTimeout(a.Ctx, 4*time.Second)
	defer stop()
	var all sync.WaitGroup
	var served atomic.Int64
	for range 2 {
		p := a.meetsAt(servers, patient)
		for range 3 {
			all.Go(func() {
				a.Rest(a.Trip())
				for ctx.Err() == nil {
					if l, err := p.Mutex(name).With(o).Lock(ctx); err == nil {
						served.Add(1)
						a.Rest(2 * time.Millisecond)
						drop(l)
					}
				}
			})
		}
	}
	a.Rest(200 * time.Millisecond)
	begun, had, yields := time.Now(), false, false
	for !had && time.Since(begun) < 2*time.Second && a.Ctx.Err() == nil {
		a.Rest(20 * time.Millisecond)
		a.Net.Call(func() { had = s.Do("SET", key, "the other library", "NX", "PX", "20").Reply.Text == "OK" })
	}
	a.Wantf(had, "another library waits for a mutex whose line yields for %v", time.Since(begun))
	for n := 0; n < 100 && !yields && ctx.Err() == nil; n++ {
		a.Rest(5 * time.Millisecond)
		a.Net.Call(func() {
			if yields = s.Do("ZSCORE", "{"+key+"}:clients", "yield").Reply.Text != "" && s.Do("EXISTS", key).Reply.Int == 0; yields {
				s.Step -= time.Hour
			}
		})
	}
	n := served.Load()
	a.Rest(sent)
	a.Wantf(!yields || served.Load() > n || ctx.Err() != nil, "a line that yields waits for a clock that was set back")
	stop()
	all.Wait()
	m := a.meetsAt(servers, patient).Mutex(name)
	acquire := m.Lock // the line may yield yet
	if a.OneIn(2) {
		a.Rest(2*o.Yield.For + sent/2) // each waiter gives back what it asked for
		acquire = m.TryLock
	}
	l, err := acquire(a.Ctx)
	a.wantDone(err, "a mutex that is free, and whose line has yielded")
	drop(l)
}

// fenced enters a reentrant mutex whose tokens are counted in a key of another library.
func fenced(a *player) {
	const counter = "fence:{redlatch:fenced}"
	s := a.At(counter)
	m := a.Client.ReentrantMutex("fenced").With(redlatch.LockOptions{FenceKey: counter})
	if a.OneIn(6) {
		s.Do("INCR", counter) // by the other library
	}
	last, _ := strconv.ParseInt(s.Do("GET", counter).Reply.Text, 10, 64)
	ctx, cancel := a.Patience()
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		a.Alwaysf(!errors.Is(err, redlatch.ErrInvalid), "Lock with a FenceKey: %v", err)
		return
	}
	if token := l.Token(); token != 0 {
		a.Alwaysf(token > last, "the token %d comes after %d of another library", token, last)
		r := s.Do("GET", counter)
		now, _ := strconv.ParseInt(r.Reply.Text, 10, 64)
		a.Alwaysf(now >= token || r.Err != nil || len(s.Keys(counter)) == 0, "the token is %d, and that of the other library's key %d", token, now)
	}
	left := s.Do("PTTL", counter)
	a.Alwaysf(left.Err != nil || left.Reply.Int < 0, "the other library's key expires")
	a.Rest(a.UpTo(10 * time.Millisecond))
	switch a.Random.IntN(6) {
	case 0:
		if text, err := l.Detach(a.Ctx); err == nil {
			if adopted, err := a.Client.Adopt(a.Ctx, text, redlatch.LockOptions{}); err == nil {
				l = adopted
			}
		}
	case 1:
		_, _ = a.Client.ForceRelease(a.Ctx, "fenced", redlatch.ForceOptions{})
	}
	drop(l)
}
