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

// What is in this file is about several names at once, and about outages.

// awaited waits for two names of which the second is taken, while the lease on the first ages or is
// taken away.
func awaited(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	first, second := name+"-a", name+"-b"
	p := a.meets(func(o *redlatch.Options) { o.Lock.TTL = 10 * time.Second })
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	l, err := a.Client.Mutex(second).TryLock(ctx)
	if err != nil {
		return
	}
	const ttl = 2 * time.Second
	o := redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}
	// In a cluster, a holder that has never waited for a name is not told at once that it is taken.
	forced := !a.Plan.Cluster && a.OneIn(2)
	if forced {
		o = redlatch.LockOptions{}
	}
	var both *redlatch.MultiLease
	done := make(chan struct{})
	go func() {
		defer close(done)
		both, err = p.MultiMutex(first, second).With(o).Lock(ctx)
	}()
	a.Rest(8 * a.Trip())
	if forced {
		_, failed := a.Client.ForceRelease(ctx, first, redlatch.ForceOptions{})
		forced = failed == nil
	}
	a.Rest(min(ttl/4, a.Plan.TTL/4))
	held := l.Held()
	drop(l)
	<-done
	switch {
	case err == nil && forced:
		a.Wantf(false, "several names are locked, of which one was taken by force in the meantime")
	case err == nil:
		for _, l := range both.Leases() {
			a.Wantf(l.Remaining() > ttl*8/10, "several names are locked for %v, and %v are left of %q", ttl, l.Remaining(), l.Name())
		}
	default:
		a.Wantf(forced || !held, "several names: %v", err)
		a.Wantf(!forced || errors.Is(err, redlatch.ErrNotHeld), "several names of which one was taken by force: %v", err)
	}
	drop(both)
	for _, name := range []string{first, second} {
		a.wantFreeNow(sharables(name)[0])
	}
}

// cutOff has a waiter whose client reaches no server for a while, which it is told once.
func cutOff(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	gone, back := 0, 0
	p := a.meets(patient, func(o *redlatch.Options) {
		o.Heartbeat = 200 * time.Millisecond
		o.Hook = func(_ context.Context, e redlatch.Event) {
			switch {
			case e.Name != name:
			case e.Type == redlatch.EventUnreachable:
				gone++
			case e.Type == redlatch.EventReachable:
				back++
			}
		}
	})
	defer func() { _ = p.Close() }()
	k := a.kinds(name)[0]
	l, err := k.lock(a.Client, a.Ctx, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	next := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	cut := time.Now()
	a.Net.Call(func() {
		for _, link := range p.links {
			link.Set(wire.Refuses, 5*sent)
			link.Cut()
		}
	})
	a.Rest(4 * sent)
	if l.Held() && ctx.Err() == nil {
		a.Wantf(gone == 1 && back == 0, "a waiter is told %d times that no server is reached, and %d times that one is", gone, back)
	}
	begun := time.Now()
	for _, err := range p.List(ctx, redlatch.ListOptions{}) {
		a.Wantf(err != nil, "a list is read from no server")
	}
	_, err = p.Inspect(ctx, name)
	a.Wantf(errors.Is(err, redlatch.ErrUnreachable) || time.Since(cut) >= 5*sent, "Inspect without a server: %v", err)
	a.Wantf(time.Since(begun) < 4*sent, "a look at no server takes %v", time.Since(begun))
	a.Rest(2 * sent)
	if l.Held() && ctx.Err() == nil {
		a.Wantf(gone == 1 && back == 1, "a waiter is told %d times that no server is reached, and %d times that one is", gone, back)
	}
	drop(l)
	next.release()
}

// listed lists what is in use, among what is only remembered.
func listed(a *player) {
	defer a.Rest(2*time.Second + a.UpTo(2*time.Second))
	base := a.scene("dead") + "-é"
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	var held []*redlatch.Lease
	for i := range 8 {
		l, err := a.Client.Mutex(fmt.Sprintf("%s%d", base, i)).TryLock(a.Ctx)
		if err != nil {
			continue
		}
		if i == 3 {
			held = append(held, l)
			continue
		}
		drop(l)
	}
	defer func() {
		for _, l := range held {
			drop(l)
		}
	}()
	if len(held) == 0 {
		return
	}
	for _, pattern := range []string{base + "*", base[:len(base)-2] + "?3", base + "3"} {
		count, scans := p.counts(base), p.counts("scan")
		var names []string
		for info, err := range p.List(a.Ctx, redlatch.ListOptions{Pattern: pattern}) {
			if err != nil {
				return
			}
			names = append(names, info.Name)
		}
		a.Wantf(!held[0].Held() || slices.Equal(names, []string{base + "3"}), "List of %q = %q", pattern, names)
		n := count() - scans()
		a.Wantf(n <= 3, "List of %q costs %d requests beside scans for one name", pattern, n)
	}
}

// permitted looks at the permits of a semaphore.
func permitted(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	s := a.Client.Semaphore(a.scene("dead"), 3)
	first, err := s.TryAcquire(a.Ctx, 2)
	if err != nil {
		return
	}
	free, err := s.Available(a.Ctx)
	a.Wantf(err == nil && free == 1 || !first.Held(), "%d of 3 permits are free beside a holder of 2: %v", free, err)
	rest, err := s.TryAcquireAll(a.Ctx)
	a.Wantf(err == nil && rest.Permits() == 1 || !first.Held(), "TryAcquireAll of 1 permit: %v", err)
	if err == nil {
		none, err := s.TryAcquireAll(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) || !first.Held() || !rest.Held(), "TryAcquireAll of nothing: %v", err)
		drop(none)
		free, err := s.Available(a.Ctx)
		a.Wantf(err == nil && free == 0 || !first.Held() || !rest.Held(), "%d of 3 permits are free when all are held: %v", free, err)
		drop(rest)
	}
	drop(first)
	cause := context.Cause(first.Context())
	a.Wantf(errors.Is(cause, redlatch.ErrNotHeld), "the context of a lease that was released says %v", cause)
}

// grown changes the size of a semaphore whose permits are all held and waited for. The size stays
// when the last holder goes, while a waiter is in line. A waiter that wants more is told at once.
func grown(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat = 5 * time.Second })
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Second)
	defer cancel()
	l, err := a.Client.Semaphore(name, 2).TryAcquire(ctx, 2)
	if err != nil {
		return
	}
	next := sharable{"semaphore", func(c *redlatch.Client, ctx context.Context, _ bool) (*redlatch.Lease, error) {
		return c.Semaphore(name, 2).Acquire(ctx, 2)
	}}.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	if a.OneIn(2) {
		_, err := a.Client.Semaphore(name, 2).Resize(ctx, 1)
		told := next.within(a, 4*a.Trip()) && errors.Is(next.err, redlatch.ErrWrongKind)
		a.Wantf(told || err != nil || !l.Held(), "a wait for more permits than there are now: %v", next.err)
		drop(l)
		next.release()
		return
	}
	larger, err := a.Client.Semaphore(name, 2).Resize(ctx, 3)
	held := l.Held() && err == nil
	drop(l)
	<-next.ended
	if held && next.err == nil {
		one, err := larger.TryAcquire(ctx, 1)
		a.Wantf(err == nil || !next.lease.Held(), "the third permit of a semaphore that has grown: %v", err)
		drop(one)
	}
	next.release()
}
