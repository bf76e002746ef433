package scenes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file is about leases whose length the program sets, and about leases that are taken
// away.

// lengthened sets the length of a lease while requests arrive late, get lost, or come from the watchdog.
func lengthened(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	ttl := 1500 * time.Millisecond
	p := a.meets(func(o *redlatch.Options) {
		o.RequestTimeout = sent
		o.Lock.TTL = ttl
	})
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		return
	}
	defer drop(l)
	const long = 40 * time.Second
	switch a.Random.IntN(4) {
	case 0: // an extend arrives after a longer one
		p.meets(name, wire.ArrivesLate, sent/2)
		if err := l.Extend(a.Ctx); err != nil {
			return
		}
		if err := l.ExtendTo(a.Ctx, long); err != nil {
			a.Wantf(false, "ExtendTo of a %s = %v", k.kind, err)
			return
		}
		for range 4 {
			a.Rest(sent / 4)
			a.wantKeptFor(k, l)
		}
	case 1: // the watchdog
		if err := l.ExtendTo(a.Ctx, long); err != nil {
			return
		}
		begun := time.Now()
		for range 4 {
			a.Rest(ttl)
			a.Wantf(!l.Held() || l.Remaining() > (long-time.Since(begun))*97/100, "a %s that was extended to %v has %v left after %v", k.kind, long,
				l.Remaining(), time.Since(begun))
			a.wantKeptFor(k, l)
		}
		if !a.Plan.Quorum() && a.Harmless() {
			a.Net.Call(func() { a.At("redlatch:"+name).Do("DEL", "redlatch:"+name) })
			a.Rest(ttl * 3 / 2)
			a.Wantf(!l.Held(), "a %s that was extended to %v, and is gone, is held after %v", k.kind, long, ttl*3/2)
		}
	case 2: // a longer one that gets lost
		ctx, cancel := context.WithTimeout(a.Ctx, 5*time.Millisecond)
		p.meets(name, wire.RequestLost, 0)
		_ = l.ExtendTo(ctx, long)
		cancel()
		if err := l.Extend(a.Ctx); err == nil {
			a.wantKeptFor(k, l)
		}
	default: // adopted for less
		if err := l.ExtendTo(a.Ctx, long); err != nil {
			return
		}
		text, err := l.Detach(a.Ctx)
		if err != nil {
			return
		}
		adopted, err := a.Client.Adopt(a.Ctx, text, redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off})
		a.Wantf(err == nil, "Adopt of a %s for less: %v", k.kind, err)
		if err != nil {
			return
		}
		a.Wantf(adopted.Remaining() <= ttl, "a %s that is adopted for %v lasts for %v", k.kind, ttl, adopted.Remaining())
		if !a.Plan.Quorum() {
			a.wantKept("a "+k.kind+" that is adopted for less", name, adopted)
		}
		drop(adopted)
	}
}

// wantKeptFor checks that the server keeps a lock for as long as its client believes.
func (a *player) wantKeptFor(k sharable, l *redlatch.Lease) {
	if a.Plan.Quorum() || !a.Harmless() {
		return
	}
	kept, left := a.kept("redlatch:"+l.Name()), l.Remaining()
	a.Wantf(kept >= left*99/100, "a %s is kept for %v, and its lease lasts for another %v", k.kind, kept, left)
}

// short holds leases that are much shorter than a request may take, and loses replies.
func short(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	p := a.meets(func(o *redlatch.Options) {
		o.RequestTimeout = 5 * time.Second
		o.Lock.TTL = 900 * time.Millisecond
	})
	defer func() { _ = p.Close() }()
	o := redlatch.LockOptions{}
	if a.OneIn(2) {
		o.Renew = redlatch.Off
	}
	l, err := p.Mutex(name).With(o).TryLock(a.Ctx)
	if err != nil {
		return
	}
	defer drop(l)
	p.meets(name, wire.ReplyLost, 0)
	if o.Renew == redlatch.Off {
		begun := time.Now()
		err := l.Extend(a.Ctx)
		a.Wantf(time.Since(begun) < 900*time.Millisecond && err == nil, "an extend of a short lease whose reply is lost takes %v: %v", time.Since(begun), err)
		return
	}
	wire.Sleep(l.Context(), 2*time.Second)
	a.Wantf(l.Held() || a.Ctx.Err() != nil, "a short lease is lost with one reply: %v", l.Err())
}

// usurped has a lock deleted, and given to another client. The first holder neither keeps nor ends it.
func usurped(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	if a.Plan.Harm == world.Losses {
		return
	}
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds))]
	if a.OneIn(4) {
		k = kinds[1] // a reentrant mutex notes its entries beside
	}
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		return
	}
	all := a.OneIn(2) // else what is noted beside it stays
	a.Net.Call(func() {
		s := a.At("redlatch:" + name)
		for _, key := range append(s.Keys("redlatch:"+name), s.Keys("{redlatch:"+name+"}*")...) {
			if all && key != "{redlatch:"+name+"}:fence" || key == "redlatch:"+name {
				s.Do("DEL", key)
			}
		}
	})
	if a.OneIn(3) {
		err = l.Extend(a.Ctx)
		lost := (*redlatch.LostError)(nil) // Redis knows the last token
		a.Wantf(errors.As(err, &lost) && lost.Reason == redlatch.LossDeleted && !l.Held(), "an extend of a %s that was deleted: %v", k.kind, err)
	}
	if k.kind == "reentrant" && !all && a.OneIn(2) {
		a.Net.Call(func() { // by another library
			key := "redlatch:" + name
			a.At(key).Do("HSET", key, "9f1c:1", "1")
			a.At(key).Do("PEXPIRE", key, "30000")
		})
		err = l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "an extend of a reentrant mutex that another library has: %v", err)
		drop(l)
		return
	}
	second, err := k.lock(a.Client, a.Ctx, false)
	a.Wantf(err == nil, "a try of a %s that was deleted: %v", k.kind, err)
	if err != nil {
		drop(l)
		return
	}
	left := second.Remaining()
	if a.OneIn(2) {
		err = l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld) && !l.Held(), "an extend of a %s that another client has: %v", k.kind, err)
	}
	err = l.Release(context.Background())
	a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "the release of a %s that another client has: %v", k.kind, err)
	if second.Held() && left > 100*time.Millisecond {
		a.wantKeptFor(k, second)
		if k.kind != "reentrant" {
			a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: name}, second)
		}
	}
	err = second.Release(context.Background())
	a.Wantf(err == nil, "the release of a %s that was deleted before: %v", k.kind, err)
}

// unlike has a key of the program in the way, which is no lock, and perhaps the line of a waiter that
// died. Each call says so, and none changes the key.
func unlike(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	kinds, key := sharables(name), "redlatch:"+name
	if a.OneIn(2) {
		holder, p, k := a.meets(), a.meets(), kinds[a.Random.IntN(len(kinds))]
		ctx, cancel := context.WithCancel(a.Ctx)
		if l, err := k.lock(holder.Client, a.Ctx, false); err == nil {
			defer k.waits(ctx, p.Client).release()
			a.Rest(8 * a.Trip())
			p.dies()
			defer drop(l)
		}
		defer func() {
			cancel()
			_ = p.Close()
			_ = holder.Close()
		}()
	}
	put := [][]string{
		{"SET", key, "a text"}, {"ZADD", key, "5", "a member", "6", "another"}, {"HSET", key, "visits", "3", "a field", "a value"}, {"RPUSH", key, "an item"},
	}[a.Random.IntN(4)]
	look := func() (text string) {
		a.Net.Call(func() {
			s := a.At(key)
			ends := a.Net.Now().Milliseconds() + s.Do("PTTL", key).Reply.Int
			text = fmt.Sprint(s.Do("TYPE", key), s.Do("GET", key), s.Do("ZRANGE", key, "0", "-1", "WITHSCORES"), s.Do("HGETALL", key), (ends+50)/100)
		})
		return text
	}
	a.Net.Call(func() {
		a.At(key).Do("DEL", key, "{"+key+"}:inside")
		a.At(key).Do(put...)
		a.At(key).Do("PEXPIRE", key, "600000")
	})
	before := look()
	for _, c := range a.calls(name) {
		ctx, cancel := context.WithTimeout(a.Ctx, 300*time.Millisecond)
		err := c.do(ctx)
		cancel()
		text := put[0] == "SET" && (c.what == "mutex" || c.what == "election") // as another library's lock
		a.Wantf(err != nil && (text || errors.Is(err, redlatch.ErrWrongKind)), "a call of a %s where the program has a key by %v: %v", c.what, put, err)
		a.Wantf(look() == before, "a call of a %s has changed a key of the program from %s to %s", c.what, before, look())
	}
}

// call is a call of a kind.
type call struct {
	what string
	do   func(context.Context) error
}

// calls returns calls of each kind with a name, in any order.
func (a *player) calls(name string) []call {
	d, s, j := a.Client.CountDownLatch(name), a.Client.Semaphore(name, world.Permits), a.Client.Job(name, redlatch.JobOptions{Window: time.Second})
	all := []call{
		{"countdown that is set", func(ctx context.Context) error { return second(d.TrySetCount(ctx, 2, time.Minute)) }},
		{"countdown that is counted", func(ctx context.Context) error { return second(d.CountDown(ctx)) }},
		{"countdown that is read", func(ctx context.Context) error { return second(d.Count(ctx)) }},
		{"countdown that is deleted", d.Delete},
		{"countdown that is awaited", d.Await},
		{"semaphore that is read", func(ctx context.Context) error { return second(s.Available(ctx)) }},
		{"semaphore that is resized", func(ctx context.Context) error { return second(s.Resize(ctx, 9)) }},
		{"job", func(ctx context.Context) error {
			return second(j.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil }))
		}},
	}
	for _, k := range sharables(name) {
		for _, wait := range []bool{false, true} {
			all = append(all, call{k.kind, func(ctx context.Context) error {
				l, err := k.lock(a.Client, ctx, wait)
				drop(l)
				return err
			}})
		}
	}
	a.Random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

// forcesOwn takes locks by force from its own client, and from another again and again.
func forcesOwn(a *player) {
	defer a.Rest(2*time.Second + a.UpTo(2*time.Second))
	name := a.scene("dead")
	p := a.meets()
	defer func() { _ = p.Close() }()
	o := redlatch.LockOptions{}
	if a.OneIn(2) {
		o.Renew = redlatch.Off
	}
	l, err := p.Mutex(name).With(o).TryLock(a.Ctx)
	if err != nil {
		return
	}
	defer drop(l)
	info, err := p.ForceRelease(a.Ctx, name, redlatch.ForceOptions{Reason: "own"})
	if err != nil {
		return
	}
	a.Rest(3 * a.Trip())
	lost := (*redlatch.LostError)(nil)
	a.Wantf(!l.Held() && errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossForced, "a lease that its own client took by force: %v, of %+v", l.Err(), info)
	a.Wantf(errors.Is(context.Cause(l.Context()), redlatch.ErrNotHeld), "the context of a lease that is lost says %v", context.Cause(l.Context()))
	if a.Plan.Harm == world.Losses {
		return
	}
	s, notes := a.At("redlatch:"+name), "{redlatch:"+name+"}:forced"
	a.Net.Call(func() {
		for i := range 140 { // as if it had been taken so often
			s.Do("HSET", notes, fmt.Sprint("of rl-", i), "1\t")
		}
	})
	if l, err = p.Mutex(name).TryLock(a.Ctx); err != nil {
		return
	}
	_, err = p.ForceRelease(a.Ctx, name, redlatch.ForceOptions{})
	drop(l)
	a.Net.Call(func() {
		if n := s.Do("HLEN", notes).Reply.Int; err == nil && n > 132 {
			go a.Alwaysf(false, "%d notes of forced releases are kept", n)
		}
	})
}
