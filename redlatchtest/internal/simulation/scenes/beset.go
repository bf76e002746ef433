package scenes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// besetTTL is the TTL of a partner whose requests are beset. Nothing extends its leases.
const besetTTL = 2 * time.Second

// besetting returns a lock of any kind, its name, and a partner for it.
func (a *player) besetting() (name string, k sharable, p *partner) {
	name = a.scene("dead")
	kinds := a.kinds(name)
	return name, kinds[a.Random.IntN(len(kinds))], a.meets(lasting(besetTTL), func(o *redlatch.Options) { o.RequestTimeout = sent })
}

// beset has each request of a client meet a series of mishaps: it gets lost, or its reply, it is late, or
// a server refuses it. What the client says in the end is so, and it leaves nothing behind.
func beset(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name, k, p := a.besetting()
	defer func() { _ = p.Close() }()
	ctx, cancel := context.WithTimeout(a.Ctx, sent/2+a.UpTo(sent))
	defer cancel()
	a.besets(p, name)
	l, err := k.lock(p.Client, ctx, a.OneIn(2))
	p.spare()
	a.Wantf(err == nil || !errors.Is(err, redlatch.ErrTaken), "a %s that nobody has: %v", k.kind, err)
	if err != nil {
		a.wantClean(k, name, "an acquisition that failed")
		return
	}
	if k.kind != "reentrant" {
		a.WantBacked(world.Acquisition{Kind: history.Mutex, Name: name}, l)
	}
	for range a.Random.IntN(3) {
		a.Rest(besetTTL/4 + a.UpTo(besetTTL/4))
		a.besets(p, name)
		held, begun := l.Held(), time.Now()
		err := l.Extend(a.Ctx)
		p.spare()
		a.Wantf(err != nil || !held || l.Remaining() > besetTTL*9/10-time.Since(begun), "an extend of a %s leaves %v after %v", k.kind, l.Remaining(), time.Since(begun))
	}
	switch a.Random.IntN(3) {
	case 0: // the lease ends, and a waiter is in at once
		ctx, cancel := context.WithTimeout(a.Ctx, 2*besetTTL)
		defer cancel()
		w := k.waits(ctx, a.Client)
		for l.Held() && a.Ctx.Err() == nil {
			a.Rest(5 * time.Millisecond)
		}
		lost := time.Now()
		// A request that was late is answered as if it had not been: its lease lasts longer in Redis.
		a.Wantf(w.within(a, sent/3+besetTTL/20+8*a.Trip()), "a waiter for a %s is not in %v after the loss of a lease", k.kind, time.Since(lost))
		w.release()
		drop(l)
	default:
		a.besets(p, name)
		err := l.Release(context.Background())
		p.spare()
		told := err == nil || errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld) || refused(err)
		a.Wantf(told, "a release of a %s: %v", k.kind, err)
		if err == nil {
			a.wantFreeNow(k)
		}
	}
	a.wantClean(k, name, "a lease that has ended")
}

// besets has the next requests of a partner with a text each meet a mishap. In a world whose servers may
// refuse anyway, no scene has them do so.
func (a *player) besets(p *partner, text string) {
	how := []wire.MishapHow{wire.RequestLost, wire.ReplyLost, wire.ArrivesLate, wire.AnsweredLate}
	why := []memory.Refusal{memory.Full, memory.DiskFull, memory.ReadOnly, memory.Loading}
	for range a.Random.IntN(4) {
		m := &wire.Mishap{Text: text, How: how[a.Random.IntN(len(how))], Late: a.UpTo(sent / 3)}
		if a.Harmless() && a.OneIn(2) {
			m.How, m.Refuses = wire.Refused, why[a.Random.IntN(len(why))]
		}
		p.meet(m)
	}
}

// refused reports whether an error is that of a server that did not do what it was asked.
func refused(err error) bool {
	for _, word := range []string{"OOM", "MISCONF", "READONLY", "LOADING"} {
		if strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}

// wantClean checks that nothing is left of what a partner began, once its client has had the time to undo
// it.
func (a *player) wantClean(k sharable, name, after string) {
	a.Rest(2 * sent)
	a.wantFreeNow(k)
	if info, err := a.Client.Inspect(a.Ctx, name); err == nil && !a.Plan.Quorum() {
		a.Wantf(len(info.Waiters) == 0 && len(info.Holders) == 0, "after %s, a %s is left as %+v", after, k.kind, info)
	}
}

// revenant has the first request of an acquisition arrive when the lease has been lost that the second
// request brought. It keeps no other client out for long.
func revenant(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name, k, p := a.besetting()
	defer func() { _ = p.Close() }()
	deleted := !a.Plan.Quorum() && a.OneIn(2) // else its time ends
	begun, late := time.Now(), sent/2+a.UpTo(sent/12)
	if !deleted {
		late += besetTTL
	}
	p.meets(name, wire.ArrivesLate, late)
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a try of a %s that was sent twice: %v", k.kind, err)
		return
	}
	if deleted {
		a.Net.Call(func() { a.At("redlatch:"+name).Do("DEL", "redlatch:"+name) })
		err := l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "an extend of a %s that was deleted: %v", k.kind, err)
	}
	for l.Held() && a.Ctx.Err() == nil {
		a.Rest(10 * time.Millisecond)
	}
	a.Rest(late + sent - time.Since(begun))
	a.wantFreeNow(k)
	drop(l)
}

// inTurn has a goroutine whose hook panics while it waits between two others of its client. Both are let
// in all the same.
func inTurn(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	k := sharables(name)[0]
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook, o.Lock.StrictOrder = world.Startle, redlatch.Off })
	defer func() { _ = p.Close() }()
	l, err := k.lock(p.Client, a.Ctx, true)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 30*time.Second)
	defer cancel()
	first := k.waits(ctx, p.Client) // whose acquisition takes tokens for the two behind it
	a.Rest(time.Millisecond)
	startled := make(chan error, 1)
	panics := world.PanicLater(ctx, redlatch.EventWait, 10*a.Trip()+a.UpTo(10*a.Trip()))
	go func() {
		startled <- world.Startled(func() error { return second(k.lock(p.Client, panics, true)) })
	}()
	a.Rest(time.Millisecond)
	next := k.waits(ctx, p.Client)
	a.Rest(a.UpTo(10 * a.Trip()))
	held := l.Held()
	drop(l)
	first.release()
	a.Wantf(errors.Is(<-startled, world.ErrStartled), "the hook of a goroutine that waits in turn does not panic")
	a.Wantf(next.within(a, 20*a.Trip()) || !held, "a goroutine waits for one whose hook panicked")
	next.release()
	a.wantFreeNow(k)
}

// startledByMany locks two names, of which one may be taken for a while, and the hook panics at an event of
// either. Neither stays locked.
func startledByMany(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	kinds := []sharable{sharables(a.scene("dead"))[0], sharables(a.scene("dead"))[0]}
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook = world.Startle })
	defer func() { _ = p.Close() }()
	names := []string{}
	for i := range kinds {
		l, err := kinds[i].lock(a.Client, a.Ctx, false)
		if err != nil {
			return
		}
		names = append(names, l.Name())
		defer drop(l)
		if a.OneIn(2) {
			drop(l)
			continue
		}
		time.AfterFunc(a.UpTo(20*a.Trip()), func() { _ = l.Release(context.Background()) })
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	at := []redlatch.EventType{redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted}[a.Random.IntN(3)]
	if l, err := p.MultiMutex(names[0]).Lock(ctx); err == nil { // so that the partner may listen
		drop(l)
	}
	_ = world.Startled(func() error {
		l, err := p.MultiMutex(names...).Lock(world.PanicAt(ctx, at))
		drop(l)
		return err
	})
	a.Rest(2 * sent)
	for _, k := range kinds {
		a.wantFreeNow(k)
	}
}

// straggler has a vote of one node come when the lease is released, or while it is. Nothing is left of it
// there.
func straggler(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	if !a.Harmless() {
		return
	}
	name := a.scene("dead")
	k, p := a.kindsOver(name), a.meets(patient)
	defer func() { _ = p.Close() }()
	how := []wire.MishapHow{wire.ArrivesLate, wire.AnsweredLate}[a.Random.IntN(2)]
	p.meets(name, how, a.UpTo(sent/2))
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a try of a free %s, of which one node is slow: %v", k.kind, err)
		return
	}
	if a.OneIn(2) {
		a.Rest(a.UpTo(sent / 6))
	}
	drop(l)
	a.Rest(2 * sent)
	var left []int
	a.Net.Call(func() {
		for _, s := range a.Servers {
			if s.Do("EXISTS", "redlatch:"+name).Reply.Int > 0 {
				left = append(left, s.Number)
			}
		}
	})
	a.Wantf(len(left) == 0, "a %s is released, and still at nodes %v: a vote came late (%s)", k.kind, left, how)
}
