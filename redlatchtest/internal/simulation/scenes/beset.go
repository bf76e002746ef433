package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// besetTTL is the TTL of a partner whose requests meet mishaps. Nothing extends its leases.
const besetTTL = 2 * time.Second

// besetting returns a lock of any kind, and a partner for it.
func (a *player) besetting() (k sharable, p *partner) {
	return a.lock(), a.meets(lasting(besetTTL), func(o *redlatch.Options) { o.RequestTimeout = sent })
}

// beset makes each request of a client meet mishaps: the request or its reply is lost, it is late,
// or a server refuses it. What the client says in the end is true, and nothing is left behind.
func beset(a *player) {
	k, p := a.besetting()
	a.besets(p, k.name)
	l, err := k.lock(p.Client, a.within(sent/2+a.UpTo(sent)), a.OneIn(2))
	p.spare()
	a.Wantf(err == nil || !errors.Is(err, redlatch.ErrTaken), "a %s that nobody has: %v", k.kind, err)
	if err != nil {
		a.Rest(2 * sent)
		k.wantClean("an acquisition that failed")
		return
	}
	k.wantBacked(l)
	for range a.Random.IntN(3) {
		a.Rest(besetTTL/4 + a.UpTo(besetTTL/4))
		a.besets(p, k.name)
		held, begun := l.Held(), time.Now()
		err := l.Extend(a.Ctx)
		p.spare()
		a.Wantf(err != nil || !held || l.Remaining() > besetTTL*9/10-time.Since(begun), "an extend of a %s leaves %v after %v", k.kind, l.Remaining(), time.Since(begun))
	}
	if a.OneIn(3) { // the lease ends, and a waiter is in at once
		w := k.waits(a.within(2*besetTTL), a.Client)
		for l.Held() && a.Ctx.Err() == nil {
			a.Rest(5 * time.Millisecond)
		}
		lost := time.Now()
		// A request that was late is answered as if it had not been: its lease lasts longer in Redis.
		a.Wantf(w.within(a, sent/3+besetTTL/20+8*a.Trip()), "a waiter for a %s is not in %v after the loss of a lease", k.kind, time.Since(lost))
		w.release()
		drop(l)
	} else {
		a.besets(p, k.name)
		err := l.Release(context.Background())
		p.spare()
		told := err == nil || errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld) || world.Refuses(err)
		a.Wantf(told, "a release of a %s: %v", k.kind, err)
		if err == nil {
			k.wantFree()
		}
	}
	a.Rest(2 * sent)
	k.wantClean("a lease that has ended")
}

// besets makes a partner's next requests with a text each meet a mishap. In a world whose servers
// may refuse anyway, no scene makes them refuse.
func (a *player) besets(p *partner, text string) {
	how := append(resent, wire.ArrivesLate, wire.AnsweredLate)
	why := []memory.Refusal{memory.Full, memory.DiskFull, memory.ReadOnly, memory.Loading}
	for range a.Random.IntN(4) {
		m := &wire.Mishap{Text: text, How: how[a.Random.IntN(len(how))], Late: a.UpTo(sent / 3)}
		if a.Harmless() && a.OneIn(2) {
			m.How, m.Refuses = wire.Refused, why[a.Random.IntN(len(why))]
		}
		p.meet(m)
	}
}

// wantClean checks that nothing is left of what a partner began, once its client has had the time
// to undo it.
func (k sharable) wantClean(after string) {
	k.wantFree()
	if info, err := k.by.Client.Inspect(k.by.Ctx, k.name); err == nil && !k.by.Plan.Quorum() {
		k.by.Wantf(len(info.Waiters) == 0 && len(info.Holders) == 0, "after %s, a %s is left as %+v", after, k.kind, info)
	}
}

// revenant makes the first request of an acquisition arrive after the lease that the second request
// brought was lost. It keeps no other client out for long.
func revenant(a *player) {
	k, p := a.besetting()
	deleted := !a.Plan.Quorum() && a.OneIn(2) // else it expires
	begun, late := time.Now(), sent/2+a.UpTo(sent/12)
	if !deleted {
		late += besetTTL
	}
	p.meets(k.name, wire.ArrivesLate, late)
	l := k.heldBy(p.Client)
	if deleted {
		a.Net.Call(func() { a.At(k.key()).Do("DEL", k.key()) })
		err := l.Extend(a.Ctx)
		a.Wantf(errors.Is(err, redlatch.ErrNotHeld), "an extend of a %s that was deleted: %v", k.kind, err)
	}
	<-l.Context().Done()
	a.Rest(late + sent - time.Since(begun))
	k.wantFree()
}

// inTurn makes the hook of a goroutine panic while it waits between two others of its client. Both
// others still get in.
func inTurn(a *player) {
	k := a.lock("mutex")
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook, o.Lock.StrictOrder = world.Startle, redlatch.Off })
	l := a.has(k.lock(p.Client, a.Ctx, true)) // this takes a turn, and a try does not
	first := k.waits(a.Ctx, p.Client)         // whose acquisition takes tokens for the two behind it
	a.Rest(time.Millisecond)
	panics := world.PanicLater(a.Ctx, redlatch.EventWait, 10*a.Trip()+a.UpTo(10*a.Trip()))
	startled := a.waits(func() (*redlatch.Lease, error) {
		return nil, world.Startled(func() error { return second(k.lock(p.Client, panics, true)) })
	})
	a.Rest(time.Millisecond)
	next := k.waits(a.Ctx, p.Client)
	a.Rest(a.UpTo(10 * a.Trip()))
	held := gives(l)
	first.release()
	<-startled.ended
	a.Wantf(errors.Is(startled.err, world.ErrStartled), "the hook of a goroutine that waits in turn does not panic")
	a.Wantf(next.within(a, 20*a.Trip()) || !held, "a goroutine waits for one whose hook panicked")
	next.release()
	k.wantFree()
}

// startledByMany locks two names, of which one may be taken for a while, and the hook panics at an event of
// either. Neither stays locked.
func startledByMany(a *player) {
	kinds := []sharable{a.lock("mutex"), a.lock("mutex")}
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook = world.Startle })
	for _, k := range kinds {
		l := k.heldBy(a.Client)
		if a.OneIn(2) {
			drop(l)
			continue
		}
		time.AfterFunc(a.UpTo(20*a.Trip()), func() { drop(l) })
	}
	at := []redlatch.EventType{redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted}[a.Random.IntN(3)]
	if l, err := p.MultiMutex(kinds[0].name).Lock(a.Ctx); err == nil { // so that the partner may listen
		drop(l)
	}
	_ = world.Startled(func() error {
		l, err := p.MultiMutex(kinds[0].name, kinds[1].name).Lock(world.PanicAt(a.Ctx, at))
		drop(l)
		return err
	})
	a.Rest(2 * sent)
	for _, k := range kinds {
		k.wantFree()
	}
}

// straggler makes the vote of one node come after the lease was released, or during the release.
// Nothing of it is left there.
func straggler(a *player) {
	a.needs(a.Harmless())
	k, p := a.lock(), a.meets(patient)
	how := []wire.MishapHow{wire.ArrivesLate, wire.AnsweredLate}[a.Random.IntN(2)]
	p.meets(k.name, how, a.UpTo(sent/2))
	l := k.heldBy(p.Client)
	if a.OneIn(2) {
		a.Rest(a.UpTo(sent / 6))
	}
	drop(l)
	a.Rest(2 * sent)
	var left []int
	a.Net.Call(func() {
		for _, s := range a.Servers {
			if s.Do("EXISTS", k.key()).Reply.Int > 0 {
				left = append(left, s.Number)
			}
		}
	})
	a.Wantf(len(left) == 0, "a %s is released, and still at nodes %v: a vote came late (%s)", k.kind, left, how)
}
