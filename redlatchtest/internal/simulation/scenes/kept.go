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
			_ = l.Release(context.Background())
		default:
			a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a lock that is kept: %v", err)
			a.Wantf(!listens || !strings.Contains(err.Error(), "does not listen"), "a try takes a client for deaf: %v", err)
		}
		a.Wantf(time.Since(since) <= 100*time.Millisecond+6*a.Trip(), "a try of a lock that is kept takes %v", time.Since(since))
	}
	if used != nil {
		a.Rest(a.UpTo(4 * a.Trip()))
		_ = used.Release(context.Background())
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Plan.TTL+a.Plan.Heartbeat+2*time.Second)
	defer cancel()
	l, err := other.lock(ctx)
	a.Wantf(err == nil, "a waiter does not get a lock that was kept: %v", err)
	if err == nil {
		token := l.Token()
		a.Alwaysf(token == 0 || token > last, "a token of %d after %d", token, last)
		_ = l.Release(context.Background())
	}
}
