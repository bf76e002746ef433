package scenes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// keeper makes a client keep a lock that it has released. Then that client takes it again without a
// request, or another waits, tries, or comes when the keeper is dead, deaf or closed.
func keeper(a *player) {
	name := a.scene("kept")
	p := a.meets(func(o *redlatch.Options) { o.Lock.StrictOrder, o.Lock.Linger = redlatch.Off, o.Lock.TTL/3 })
	m, other := pair(p.Mutex(name)), pair(a.Client.Mutex(name))
	if a.OneIn(3) { // for writing, or kept for reading and wanted for writing
		m, other = pair(p.RWMutex(name)), pair(a.Client.RWMutex(name))
		if a.OneIn(2) {
			m = locker{p.RWMutex(name).RLock, p.RWMutex(name).TryRLock}
		}
	}
	var last int64 // token
	for range 3 + a.Random.IntN(4) {
		l := a.has(world.Either(!a.OneIn(3), m.lock, m.try)(a.Ctx))
		token := l.Token()
		a.Alwaysf(token == 0 || token > last, "a token of %d after %d", token, last)
		a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: name}, l)
		last = max(last, token)
		a.Rest(a.UpTo(2 * time.Millisecond))
		err := l.Release(context.Background())
		a.needs(err == nil)
		a.Rest(a.UpTo(4 * a.Trip()))
	}
	var used *redlatch.Lease
	what := a.Random.IntN(5)
	switch what {
	case 0:
		_ = p.Close()
	case 1:
		p.dies()
	case 2:
		p.deafens()
	case 3:
		used, _ = m.try(a.Ctx)
	}
	since := time.Now()
	if a.OneIn(2) {
		l, err := other.try(a.Ctx)
		if err == nil {
			a.Alwaysf(used == nil || !used.Held(), "a try gets a lock that is in use")
			drop(l)
		} else {
			a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a lock that is kept: %v", err)
			a.Wantf(what < 3 || !strings.Contains(err.Error(), "does not listen"), "a try takes a client for deaf: %v", err)
		}
		a.Wantf(time.Since(since) <= 100*time.Millisecond+6*a.Trip(), "a try of a lock that is kept takes %v", time.Since(since))
	}
	if used != nil {
		a.Rest(a.UpTo(4 * a.Trip()))
		drop(used)
	}
	l, err := other.lock(a.within(a.Plan.TTL + a.Plan.Heartbeat + 2*time.Second))
	a.wantDone(err, "a waiter does not get a lock that was kept")
	if err == nil {
		token := l.Token()
		a.Alwaysf(token == 0 || token > last, "a token of %d after %d", token, last)
		drop(l)
	}
}

// shelved makes a client keep a lock, or nearly so, and checks that what happens to the lock then
// reaches the client: a force, a cut, a reader inside, a text that goes to another process.
func shelved(a *player) {
	name := a.scene("dead")
	linger := func(o *redlatch.Options) {
		o.Lock.StrictOrder, o.Lock.TTL, o.Lock.Linger, o.RequestTimeout = redlatch.Off, 9*time.Second, 3*time.Second, sent
	}
	p := a.meets(linger)
	m := pair(p.Mutex(name))
	shared := a.OneIn(3)
	if shared {
		m = pair(p.RWMutex(name))
	}
	l := a.mayKeep(m)
	l.LogValue() // unlike Owner, this still lets the client keep the lock
	drop(l)
	asked := p.counts("acquire")
	l = a.has(m.lock(a.Ctx))
	a.Wantf(asked() == 0, "a client that keeps a lock asks %d times for it", asked())
	what := a.Random.IntN(5)
	if shared {
		what = 5 + a.Random.IntN(2)
	}
	ctx := a.within(10 * time.Second)
	switch what {
	case 0: // an operator takes the lock by force as it is released, and another client acquires it
		released := make(chan error, 1)
		time.AfterFunc(a.UpTo(8*a.Trip()), func() { released <- l.Release(context.Background()) })
		a.Rest(a.UpTo(3 * a.Trip()))
		_, err := a.Client.ForceRelease(a.Ctx, name, redlatch.ForceOptions{Reason: "shelved"})
		<-released
		a.needs(err == nil)
		if other, err := a.Client.Mutex(name).Lock(ctx); err == nil {
			a.Rest(2 * a.Trip())
			again, err := m.try(a.Ctx)
			a.Alwaysf(err != nil || !other.Held(), "a client has a lock that was taken by force while it kept it")
			drop(again)
			drop(other)
		}
	case 1: // the client may have missed a message
		drop(l)
		p.cutsOffAll(50 * time.Millisecond)
		since := time.Now()
		other, err := a.Client.Mutex(name).Lock(ctx)
		a.Wantf(err == nil && time.Since(since) <= sent, "a waiter got a lock after %v whose client has missed messages: %v", time.Since(since), err)
		drop(other)
	case 2: // the lease goes to another process
		_, err := l.Detach(a.Ctx)
		a.needs(err == nil)
		a.Rest(2 * a.Trip())
		other, err := a.Client.Mutex(name).TryLock(a.Ctx)
		drop(other)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) && !strings.Contains(err.Error(), "only keep"), "a try of a lock that was detached: %v", err)
	case 3: // the client tries what it has
		asked = p.counts("ask ")
		_, err := m.try(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) && asked() == 0, "a client that has a lock tries it, and asks %d times: %v", asked(), err)
	case 4: // the client takes the lock up again and again, and no lease is short
		for range 6 {
			drop(l)
			a.Rest(a.UpTo(2950 * time.Millisecond))
			l = a.has(m.lock(a.Ctx)) // all this may take longer than ctx
			a.Wantf(l.Remaining() > 2900*time.Millisecond || a.Plan.Heartbeat < 5*time.Second, "a lock is taken up with %v left of 9s", l.Remaining())
		}
	case 5: // a writer of a third client wants what two clients keep for their readers
		drop(l)
		second := a.meets(linger)
		for _, c := range []*partner{p, second} {
			drop(a.mayKeep(locker{c.RWMutex(name).RLock, c.RWMutex(name).TryRLock}))
		}
		since := time.Now()
		w := pair(a.Client.RWMutex(name))
		other, err := world.Either(a.OneIn(2), w.lock, w.try)(ctx)
		a.Wantf(err == nil && time.Since(since) <= 12*a.Trip(), "a writer beside readers that are kept: %v, after %v", err, time.Since(since))
		drop(other)
	default: // a reader enters under a writer
		rw := p.RWMutex(name)
		var r *redlatch.Lease
		var err error
		if a.OneIn(2) {
			r, err = rw.Downgrade(a.Ctx, l)
		} else {
			r, err = rw.RLock(context.WithoutCancel(l.Context()))
			drop(l)
		}
		a.needs(err == nil)
		last := r.Token()
		next, err := rw.TryLock(a.Ctx)
		a.Alwaysf(err != nil || !r.Held(), "a writer is beside a reader who was the writer")
		drop(r)
		drop(next)
		if next, err = rw.Lock(ctx); err == nil {
			a.Alwaysf(last == 0 || next.Token() == 0 || next.Token() > last, "a writer has the token %d after a reader had %d", next.Token(), last)
			drop(next)
		}
	}
}

// mayKeep returns a lease on a lock that its client may keep: one that listens already.
func (a *player) mayKeep(m locker) *redlatch.Lease {
	for range 3 {
		err := a.has(m.lock(a.Ctx)).Release(context.Background())
		a.needs(err == nil)
		a.Rest(2 * a.Trip())
	}
	return a.has(m.lock(a.Ctx))
}
