package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// What is in this file looks whether what is undone or ended stays so, where the server refuses, is
// not reached or forgets, or the program's hook panics.

// line has a partner wait for a lock that the actor's own client has. The caller releases the lease.
func (a *actor) line(k sharable, p *partner, ctx context.Context) (l *redlatch.Lease, w *waiter) {
	l, err := k.lock(a.client, a.ctx, false)
	if err != nil {
		return nil, nil
	}
	w = k.waits(ctx, p.Client)
	a.rest(8 * a.trip())
	return l, w
}

// wantWaiters checks how many wait for a lock.
func (a *actor) wantWaiters(k sharable, l *redlatch.Lease, want int, when string) {
	info, err := a.client.Inspect(a.ctx, l.Name())
	a.wantf(err != nil || !l.Held() || len(info.Waiters) == want, "%d wait for a %s %s, and Inspect shows %+v", want, k.kind, when, info.Waiters)
}

// gaveUp has a waiter give up while the server refuses what undoes its place in line, or is not
// reached for a long time. The place is undone later.
func gaveUp(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds))]
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 300*time.Millisecond, time.Second })
	defer func() { _ = p.Close() }()
	ctx, giveUp := context.WithCancel(a.ctx)
	defer giveUp()
	l, w := a.line(k, p, ctx)
	if l == nil {
		return
	}
	if a.oneIn(2) {
		p.mayNot("ZREM")
		giveUp()
		<-w.ended
		a.rest(2 * sent)
		p.mayNot()
		a.rest(2 * sent)
		a.wantWaiters(k, l, 0, "when the last has given up")
	} else {
		p.cutsOffAll(6 * time.Second)
		giveUp()
		<-w.ended
		a.rest(6*time.Second + 2*sent)
		again := k.waits(a.ctx, p.Client) // which keeps the client believed alive
		a.rest(8 * a.trip())
		a.wantWaiters(k, l, 1, "when another has given up")
		_ = l.Release(context.Background())
		again.release()
	}
	_ = l.Release(context.Background())
	w.release()
}

// mayNot has the partner's user lack the right to these commands, and to no others.
func (p *partner) mayNot(commands ...string) {
	p.world.net.call(func() {
		for _, l := range p.links {
			l.user = commands
		}
	})
}

// cutsOffAll has a partner reach no server for a while.
func (p *partner) cutsOffAll(d time.Duration) {
	for i := range p.links {
		p.cutsOff(i, d)
	}
}

// cutShort releases and detaches while no server is reached. The release is sent later, and opens
// nothing before its time.
func cutShort(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds)-1)] // a slot pool has no MinHold
	hold := time.Duration(0)
	if a.oneIn(2) {
		hold = 3 * time.Second
	}
	p := a.meets(patient, func(o *redlatch.Options) { o.Lock.MinHold = hold })
	defer func() { _ = p.Close() }()
	begun := time.Now()
	l, err := k.lock(p.Client, a.ctx, false)
	if err != nil {
		return
	}
	p.cutsOffAll(2 * sent)
	if hold == 0 && a.oneIn(2) {
		_, err = l.Detach(a.ctx)
		a.wantf(err != nil, "a lease on a %s is detached while no server is reached", k.kind)
	}
	err = l.Release(context.Background())
	a.wantf(errors.Is(err, redlatch.ErrUnreachable), "a release while no server is reached: %v", err)
	a.rest(2*sent + sent)
	if hold > 0 {
		early, err := k.lock(a.client, a.ctx, false)
		a.wantf(errors.Is(err, redlatch.ErrTaken) || time.Since(begun) > hold-a.trip(), "a %s that is shut for %v can be had after %v: %v", k.kind, hold, time.Since(begun), err)
		if err == nil {
			_ = early.Release(context.Background())
		}
		a.rest(hold + sent - time.Since(begun))
	}
	a.wantFreeNow(k)
}

// emptied has the server forget a line. Its waiters ask for their places again, and have them though
// others have filled the line.
func emptied(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	k := sharables(name)[a.random.IntN(5)]
	beat := func(o *redlatch.Options) { o.Heartbeat, o.Lock.MaxWaiters = 300*time.Millisecond, 1 }
	p, q := a.meets(patient, beat), a.meets(patient, beat)
	defer func() {
		_ = p.Close()
		_ = q.Close()
	}()
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	p.meets("\t", replyLost, 0) // so that it is asked for twice, and there is room for one
	l, first := a.line(k, p, ctx)
	if l == nil {
		return
	}
	a.rest(sent / 2)
	a.net.call(func() {
		for _, key := range []string{":queue", ":clients"} {
			a.at("redlatch:"+name).Do("DEL", "{redlatch:"+name+"}"+key)
		}
	})
	second := k.waits(ctx, q.Client)
	a.rest(time.Second)
	a.wantWaiters(k, l, 2, "when the line was forgotten")
	held := l.Held()
	_ = l.Release(context.Background())
	for _, w := range []*waiter{first, second} {
		w.release()
		a.wantf(!held || w.err == nil, "a waiter for a %s whose line was forgotten: %v", k.kind, w.err)
	}
}

// filled has a server of its own that refuses to write for a while. What is held is extended and
// released all the same.
func filled(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	if !a.harmless() {
		a.rest(time.Second)
		return
	}
	servers := make([]*server, 1)
	a.net.call(func() { servers[0] = newServer(a.net, 20) })
	open := func(links []*Link, o redlatch.Options) (*redlatch.Client, error) { return redlatch.New(links[0], o) }
	p := a.meetsAt(servers, open, []func(*redlatch.Options){patient})
	defer func() { _ = p.Close() }()
	refuse := func(why memory.Refusal) { a.net.call(func() { servers[0].Refuse(why) }) }
	for _, k := range sharables("filled") {
		l, err := k.lock(p.Client, a.ctx, false)
		if err != nil {
			a.wantf(false, "a try of a free %s: %v", k.kind, err)
			return
		}
		refuse(memory.Full)
		err = l.Extend(a.ctx)
		a.wantf(err == nil, "an extend of a %s at a full server: %v", k.kind, err)
		if a.oneIn(2) {
			refuse([]memory.Refusal{memory.DiskFull, memory.ReadOnly}[a.random.IntN(2)])
			a.net.call(func() { a.net.after(sent/6, func() { servers[0].Refuse(memory.Serves) }) })
		}
		err = l.Release(context.Background())
		a.wantf(err == nil, "a release of a %s at a server that does not write: %v", k.kind, err)
		refuse(memory.Serves)
		a.rest(2 * time.Millisecond) // a slot rests for one
		again, err := k.lock(p.Client, a.ctx, false)
		a.wantf(err == nil, "a try of a %s that was released at a server that did not write: %v", k.kind, err)
		if err == nil {
			_ = again.Release(context.Background())
			a.rest(2 * time.Millisecond)
		}
		a.net.call(func() { servers[0].Flush() }) // the next kind has the same name
	}
}

// startled has a hook that panics when an acquisition waits, or is granted. It leaves nothing.
func startled(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	at := []redlatch.EventType{redlatch.EventWait, redlatch.EventGranted}[a.random.IntN(2)]
	p := a.meets(patient, func(o *redlatch.Options) {
		o.Hook = func(_ context.Context, e redlatch.Event) {
			if e.Type == at {
				panic("as asked")
			}
		}
	})
	defer func() { _ = p.Close() }()
	var l *redlatch.Lease
	var err error
	if at == redlatch.EventWait {
		if l, err = k.lock(a.client, a.ctx, false); err != nil {
			return
		}
	}
	func() {
		defer func() {
			why := recover()
			a.wantf(why == "as asked", "the hook of an acquisition of a %s panics at %s: %v", k.kind, at, why)
		}()
		_, _ = k.lock(p.Client, a.ctx, true)
	}()
	a.rest(2 * sent)
	if l != nil {
		if !a.plan.quorum() {
			a.wantWaiters(k, l, 0, "when the hook of the last has panicked")
		}
		_ = l.Release(context.Background())
		a.rest(4 * a.trip())
	}
	a.wantFreeNow(k)
}
