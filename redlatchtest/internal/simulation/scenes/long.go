package scenes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// This file is about leases whose length the program sets, and about leases that are taken away.

// lengthened holds a lease that is much longer than its TTL. The watchdog does not cut it, and
// still finds out when it is gone. An adoption for less does cut it.
func lengthened(a *player) {
	const ttl, long = 1500 * time.Millisecond, 40 * time.Second
	k, p := a.lock(), a.meets(func(o *redlatch.Options) { o.RequestTimeout, o.Lock.TTL = sent, ttl })
	l := k.heldBy(p.Client)
	begun := time.Now()
	err := l.ExtendTo(a.Ctx, long)
	a.needs(err == nil)
	if a.OneIn(2) {
		if adopted := a.adoptedFor(l, ttl); adopted != nil {
			a.Wantf(adopted.Remaining() <= ttl, "a %s that is adopted for %v lasts for %v", k.kind, ttl, adopted.Remaining())
			k.wantKeptNoLonger("adopted for less", adopted)
			drop(adopted)
		}
		return
	}
	for range 3 {
		a.Rest(ttl)
		a.Wantf(!l.Held() || l.Remaining() > (long-time.Since(begun))*97/100, "a %s that was extended to %v has %v left after %v", k.kind, long,
			l.Remaining(), time.Since(begun))
		k.wantKept("extended to much", l)
	}
	a.needs(a.Harmless())
	a.Net.Call(func() { a.At(k.key()).Do("DEL", k.key()) })
	a.Rest(ttl * 3 / 2)
	a.Wantf(!l.Held(), "a %s that was extended to %v, and is gone, is held after %v", k.kind, long, ttl*3/2)
}

// short holds leases that are much shorter than a request may take, and loses replies.
func short(a *player) {
	const ttl = 900 * time.Millisecond
	p := a.meets(func(o *redlatch.Options) { o.RequestTimeout, o.Lock.TTL = 5*time.Second, ttl })
	o := redlatch.LockOptions{}
	if a.OneIn(2) {
		o.Renew = redlatch.Off
	}
	name := a.scene("dead")
	l := a.has(p.Mutex(name).With(o).TryLock(a.Ctx))
	p.meets(name, wire.ReplyLost, 0)
	if o.Renew == redlatch.Off {
		begun := time.Now()
		err := l.Extend(a.Ctx)
		a.Wantf(time.Since(begun) < ttl && err == nil, "an extend of a short lease whose reply is lost takes %v: %v", time.Since(begun), err)
		return
	}
	wire.Sleep(l.Context(), 2*time.Second)
	a.Wantf(l.Held(), "a short lease is lost with one reply: %v", l.Err())
}

// usurped has a lock deleted, and given to another client. The first holder can neither keep nor
// end it.
func usurped(a *player) {
	a.needs(a.Plan.Harm != world.Losses)
	k := a.lock()
	if a.OneIn(4) {
		k = a.lock("reentrant") // its entries are noted in another key
	}
	l := k.heldBy(a.meets(patient).Client)
	all := a.OneIn(2) // else what is noted in other keys stays
	a.Net.Call(func() {
		s := a.At(k.key())
		for _, key := range append(s.Keys(k.key()), s.Keys("{"+k.key()+"}*")...) {
			if all && key != "{"+k.key()+"}:fence" || key == k.key() {
				s.Do("DEL", key)
			}
		}
	})
	if a.OneIn(3) {
		err := l.Extend(a.Ctx) // Redis knows the last token
		a.Wantf(lostBy(err, redlatch.LossDeleted) && !l.Held(), "an extend of a %s that was deleted: %v", k.kind, err)
	}
	if k.kind == "reentrant" && !all && a.OneIn(2) {
		a.Net.Call(func() { // by another library
			a.At(k.key()).Do("HSET", k.key(), "9f1c:1", "1")
			a.At(k.key()).Do("PEXPIRE", k.key(), "30000")
		})
		err := l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "an extend of a reentrant mutex that another library has: %v", err)
		return
	}
	second := k.heldBy(a.Client)
	left := second.Remaining()
	if a.OneIn(2) {
		err := l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld) && !l.Held(), "an extend of a %s that another client has: %v", k.kind, err)
	}
	err := l.Release(context.Background())
	a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "the release of a %s that another client has: %v", k.kind, err)
	if second.Held() && left > 100*time.Millisecond {
		k.wantKept("deleted, and acquired again", second)
		k.wantBacked(second)
	}
	err = second.Release(context.Background())
	a.wantDone(err, "the release of a %s that was deleted before", k.kind)
}

// unlike puts a key of the program in the way, which is no lock, and perhaps the line of a dead
// waiter. Each call says so, and none changes the key.
func unlike(a *player) {
	name := a.scene("dead")
	kinds, key := a.kinds(name), "redlatch:"+name
	if a.OneIn(2) {
		holder, p, k := a.meets(), a.meets(), kinds[a.Random.IntN(len(kinds))]
		k.heldBy(holder.Client)
		k.queues(a.Ctx, p.Client)
		p.dies()
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
		err := c.do(a.within(300 * time.Millisecond))
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
	for _, k := range a.kinds(name) {
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

// forced takes a lock by force from its own client or from another, announces that it is free, and
// does so again and again.
func forced(a *player) {
	name, p, o := a.scene("dead"), a.meets(), redlatch.LockOptions{}
	if a.OneIn(2) {
		o.Renew = redlatch.Off
	}
	l := a.has(p.Mutex(name).With(o).TryLock(a.Ctx))
	by, own := p.Client, a.OneIn(2)
	if !own {
		by = a.Client
	}
	s, token, heard := a.At("redlatch:"+name), l.Token(), 0
	sub := s.Subscribe("free "+name, func(string) { heard++ })
	start := time.Now()
	taken, err := by.ForceRelease(a.Ctx, name, redlatch.ForceOptions{Reason: "forced", Announce: redlatch.Announce{Channel: "free " + name, Message: "free"}})
	s.Unsubscribe(sub)
	// A request that had to be sent again may have found the lease over.
	a.needs(err == nil && len(taken.Holders) > 0 && time.Since(start) < a.Plan.Request/4)
	a.Wantf(heard == 1, "a forced release is announced %d times", heard)
	info, err := a.Client.Inspect(a.Ctx, name)
	a.Alwaysf(err != nil || info.Forced != nil && info.Forced.Reason == "forced" && info.Token > token, "Inspect after a forced release: %+v", info)
	a.Rest(3 * a.Trip())
	a.Wantf(!own || !l.Held() && lostBy(l.Err(), redlatch.LossForced), "a lease that its own client took by force: %v, of %+v", l.Err(), info)
	err = l.Release(context.Background())
	a.Wantf(lostBy(err, redlatch.LossForced), "the release of what was taken by force: %v", err)
	a.Wantf(errors.Is(context.Cause(l.Context()), redlatch.ErrNotHeld), "the context of a lease that is lost says %v", context.Cause(l.Context()))
	a.needs(a.Plan.Harm != world.Losses)
	notes := "{redlatch:" + name + "}:forced"
	a.Net.Call(func() {
		for i := range 140 { // as if it had been taken so often
			s.Do("HSET", notes, fmt.Sprint("of rl-", i), "1\t")
		}
	})
	l = a.has(p.Mutex(name).TryLock(a.Ctx))
	_, _ = p.ForceRelease(a.Ctx, name, redlatch.ForceOptions{}) // which may find the lease over
	a.Net.Call(func() {
		if n := s.Do("HLEN", notes).Reply.Int; n > 132 && s.Do("HGET", notes, "last").Reply.Text == l.Owner() {
			go a.Alwaysf(false, "%d notes of forced releases are kept", n)
		}
	})
}
