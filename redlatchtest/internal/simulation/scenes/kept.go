package scenes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// lingering is mutex for locks that clients keep.
func lingering(a *player) {
	o, ttl := a.lockOptions()
	o.Replicas, o.Linger = redlatch.None, time.Millisecond+a.UpTo(ttl/3-time.Millisecond)
	if a.OneIn(8) || a.Plan.Strict {
		o.Linger = 0
	}
	name := fmt.Sprintf("linger-%d", a.Random.IntN(6))
	m := a.Client.Mutex(name).With(o)
	q := world.Acquisition{Kind: history.Mutex, Name: name, Wait: !a.OneIn(3), TTL: ttl, Most: o.MaxWait}
	q.Take = world.Either(q.Wait, m.Lock, m.TryLock)
	for range 1 + a.Random.IntN(4) {
		a.Acquire(q)
	}
}

// locker is how a lock is acquired in one mode.
type locker struct {
	lock, try func(context.Context) (*redlatch.Lease, error)
}

// pair returns how these locks are acquired.
func pair(m interface {
	Lock(context.Context) (*redlatch.Lease, error)
	TryLock(context.Context) (*redlatch.Lease, error)
},
) locker {
	return locker{m.Lock, m.TryLock}
}

// keeper has a client keep a lock that it has released, and others want it: that client, which asks
// nothing; and another, which waits, tries, or comes when the keeper is dead, deaf or closed.
func keeper(a *player) {
	defer a.Rest(a.UpTo(500 * time.Millisecond))
	name := a.scene("kept")
	p := a.meets(func(o *redlatch.Options) { o.Lock.StrictOrder, o.Lock.Linger = redlatch.Off, o.Lock.TTL/3 })
	defer func() { _ = p.Close() }()
	m, other := pair(p.Mutex(name)), pair(a.Client.Mutex(name))
	if a.OneIn(3) { // for writing, or kept for reading and wanted for writing
		m, other = pair(p.RWMutex(name)), pair(a.Client.RWMutex(name))
		if a.OneIn(2) {
			m = locker{p.RWMutex(name).RLock, p.RWMutex(name).TryRLock}
		}
	}
	var last int64 // token
	take := func(acquire func(context.Context) (*redlatch.Lease, error)) bool {
		l, err := acquire(a.Ctx)
		if err != nil {
			return false
		}
		token := l.Token()
		a.Alwaysf(token == 0 || token > last, "a token of %d after %d", token, last)
		a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: name}, l)
		last = max(last, token)
		a.Rest(a.UpTo(2 * time.Millisecond))
		return l.Release(context.Background()) == nil
	}
	for range 3 + a.Random.IntN(4) {
		if !take(world.Either(!a.OneIn(3), m.lock, m.try)) {
			return
		}
		a.Rest(a.UpTo(4 * a.Trip()))
	}
	var used *redlatch.Lease
	listens := true
	switch a.Random.IntN(5) {
	case 0:
		used, _ = m.try(a.Ctx)
	case 1:
		_ = p.Close()
		listens = false
	case 2:
		p.dies()
		listens = false
	case 3:
		p.deafens()
		listens = false
	}
	since := time.Now()
	if a.OneIn(2) {
		l, err := other.try(a.Ctx)
		switch {
		case err == nil:
			a.Alwaysf(used == nil || !used.Held(), "a try gets a lock that is in use")
			drop(l)
		default:
			a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a lock that is kept: %v", err)
			a.Wantf(!listens || !strings.Contains(err.Error(), "does not listen"), "a try takes a client for deaf: %v", err)
		}
		a.Wantf(time.Since(since) <= 100*time.Millisecond+6*a.Trip(), "a try of a lock that is kept takes %v", time.Since(since))
	}
	if used != nil {
		a.Rest(a.UpTo(4 * a.Trip()))
		drop(used)
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Plan.TTL+a.Plan.Heartbeat+2*time.Second)
	defer cancel()
	l, err := other.lock(ctx)
	a.Wantf(err == nil, "a waiter does not get a lock that was kept: %v", err)
	if err == nil {
		token := l.Token()
		a.Alwaysf(token == 0 || token > last, "a token of %d after %d", token, last)
		drop(l)
	}
}

// shelved has a client keep a lock, or nearly so, and looks whether what happens to it then reaches the
// client: a force, a cut, a reader inside, a text that goes to another process.
func shelved(a *player) {
	defer a.Rest(a.UpTo(500 * time.Millisecond))
	name := a.scene("dead")
	linger := func(o *redlatch.Options) {
		o.Lock.StrictOrder, o.Lock.TTL, o.Lock.Linger, o.RequestTimeout = redlatch.Off, 9*time.Second, 3*time.Second, sent
	}
	p := a.meets(linger)
	defer func() { _ = p.Close() }()
	m := pair(p.Mutex(name))
	shared := a.OneIn(3)
	if shared {
		m = pair(p.RWMutex(name))
	}
	l := a.mayKeep(m)
	if l == nil {
		return
	}
	what := a.Random.IntN(5)
	if shared {
		what = 5 + a.Random.IntN(2)
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	switch what {
	case 0: // an operator takes the lock by force as it is released, and another client acquires it
		released := make(chan error, 1)
		time.AfterFunc(a.UpTo(8*a.Trip()), func() { released <- l.Release(context.Background()) })
		a.Rest(a.UpTo(3 * a.Trip()))
		_, err := a.Client.ForceRelease(a.Ctx, name, redlatch.ForceOptions{Reason: "shelved"})
		<-released
		if err != nil {
			return
		}
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
		if err != nil {
			return
		}
		a.Rest(2 * a.Trip())
		other, err := a.Client.Mutex(name).TryLock(a.Ctx)
		drop(other)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) && !strings.Contains(err.Error(), "only keep"), "a try of a lock that was detached: %v", err)
	case 3: // the client tries what it has
		asked := p.counts("ask ")
		_, err := m.try(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) && asked() == 0, "a client that has a lock tries it, and asks %d times: %v", asked(), err)
		drop(l)
	case 4: // the client takes the lock up again and again, and no lease is short
		for range 6 {
			drop(l)
			a.Rest(a.UpTo(2950 * time.Millisecond))
			var err error
			if l, err = m.lock(ctx); err != nil {
				return
			}
			a.Wantf(l.Remaining() > 2900*time.Millisecond || a.Plan.Heartbeat < 5*time.Second, "a lock is taken up with %v left of 9s", l.Remaining())
		}
		drop(l)
	case 5: // a writer of a third client wants what two clients keep for their readers
		drop(l)
		second := a.meets(linger)
		defer func() { _ = second.Close() }()
		for _, c := range []*partner{p, second} {
			if r := a.mayKeep(locker{c.RWMutex(name).RLock, c.RWMutex(name).TryRLock}); r != nil {
				drop(r)
			}
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
		if err != nil {
			return
		}
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
		l, err := m.lock(a.Ctx)
		if err != nil {
			return nil
		}
		if err := l.Release(context.Background()); err != nil {
			return nil
		}
		a.Rest(2 * a.Trip())
	}
	l, err := m.lock(a.Ctx)
	if err != nil {
		return nil
	}
	return l
}
