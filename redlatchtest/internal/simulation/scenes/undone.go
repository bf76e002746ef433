package scenes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// What is in this file looks whether what is undone or ended stays so, where the server refuses, is
// not reached or forgets, or the program's hook panics.

// line has a partner wait for a lock that the actor's own client has. The caller releases the lease.
func (a *player) line(k sharable, p *partner, ctx context.Context) (l *redlatch.Lease, w *waiter) {
	l, err := k.lock(a.Client, a.Ctx, false)
	if err != nil {
		return nil, nil
	}
	w = k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	return l, w
}

// wantWaiters checks how many wait for a lock.
func (a *player) wantWaiters(k sharable, l *redlatch.Lease, want int, when string) {
	info, err := a.Client.Inspect(a.Ctx, l.Name())
	a.Wantf(err != nil || !l.Held() || len(info.Waiters) == want, "%d wait for a %s %s, and Inspect shows %+v", want, k.kind, when, info.Waiters)
}

// gaveUp has a waiter give up while the server refuses what undoes its place in line, or is not
// reached for a long time. The place is undone later.
func gaveUp(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds))]
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 300*time.Millisecond, time.Second })
	defer func() { _ = p.Close() }()
	ctx, giveUp := context.WithCancel(a.Ctx)
	defer giveUp()
	l, w := a.line(k, p, ctx)
	if l == nil {
		return
	}
	if a.OneIn(2) {
		p.mayNot("ZREM")
		giveUp()
		<-w.ended
		a.Rest(2 * sent)
		p.mayNot()
		a.Rest(2 * sent)
		a.wantWaiters(k, l, 0, "when the last has given up")
	} else {
		p.cutsOffAll(6 * time.Second)
		giveUp()
		<-w.ended
		a.Rest(6*time.Second + 2*sent)
		again := k.waits(a.Ctx, p.Client) // which keeps the client believed alive
		a.Rest(8 * a.Trip())
		a.wantWaiters(k, l, 1, "when another has given up")
		drop(l)
		again.release()
	}
	drop(l)
	w.release()
}

// cutShort releases and detaches while no server is reached. The release is sent later, and opens
// nothing before its time.
func cutShort(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds)-1)] // a slot pool has no MinHold
	hold := time.Duration(0)
	if a.OneIn(2) {
		hold = 3 * time.Second
	}
	p := a.meets(patient, func(o *redlatch.Options) { o.Lock.MinHold = hold })
	defer func() { _ = p.Close() }()
	begun := time.Now()
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		return
	}
	p.cutsOffAll(2 * sent)
	if hold == 0 && a.OneIn(2) {
		_, err = l.Detach(a.Ctx)
		a.Wantf(err != nil, "a lease on a %s is detached while no server is reached", k.kind)
	}
	err = l.Release(context.Background())
	a.Wantf(errors.Is(err, redlatch.ErrUnreachable), "a release while no server is reached: %v", err)
	a.Rest(2*sent + sent)
	if hold > 0 {
		early, err := k.lock(a.Client, a.Ctx, false)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) || time.Since(begun) > hold-a.Trip(), "a %s that is shut for %v can be had after %v: %v", k.kind, hold, time.Since(begun), err)
		drop(early)
		a.Rest(hold + sent - time.Since(begun))
	}
	a.wantFreeNow(k)
}

// recalled has the connections of a client break again and again, while the releases get lost that it
// sends again of what it had before. They do not pile up.
func recalled(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.Random.IntN(len(kinds))]
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	if l, w := a.line(sharables(name + "-heard")[0], p, a.Ctx); l != nil { // so that it listens
		defer w.release()
		defer drop(l)
	}
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		return
	}
	drop(l)
	again := "release redlatch:" + name + " "
	sends := p.totals(func(what string) int { return strings.Count(what, again) })
	for range 4 {
		p.each(func(l *wire.Link) {
			for range 8 {
				l.Mishaps = append(l.Mishaps, &wire.Mishap{Text: again, How: wire.RequestLost})
			}
			l.Cut()
		})
		a.Rest(sent/2 + 8*a.Trip())
	}
	n := sends()
	a.Wantf(n > 0 || a.Plan.Cluster, "a client whose connections broke does not release again what it had before")
	p.spare()
	a.Rest(3 * sent)
	n = sends() - n
	a.Wantf(n <= 2, "%d releases of one lease are sent after an outage", n)
	a.wantFreeNow(k)
}

// emptied has the server forget a line. Its waiters ask for their places again, and have them though
// others have filled the line.
func emptied(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	k := sharables(name)[a.Random.IntN(5)]
	beat := func(o *redlatch.Options) { o.Heartbeat = 300 * time.Millisecond }
	p, q := a.meets(patient, beat, func(o *redlatch.Options) { o.Lock.MaxWaiters = 1 }), a.meets(patient, beat)
	defer func() { _ = errors.Join(p.Close(), q.Close()) }()
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	p.meets("\t", wire.ReplyLost, 0) // so that it is asked for twice, and there is room for one
	l, first := a.line(k, p, ctx)
	if l == nil {
		return
	}
	a.Rest(sent/2 + 2*a.Trip())
	a.Net.Call(func() {
		for _, key := range []string{":queue", ":clients"} {
			a.At("redlatch:"+name).Do("DEL", "{redlatch:"+name+"}"+key)
		}
	})
	second := k.waits(ctx, q.Client)
	a.Rest(time.Second)
	a.wantWaiters(k, l, 2, "when the line was forgotten")
	held := l.Held()
	drop(l)
	for _, w := range []*waiter{first, second} {
		w.release()
		a.Wantf(!held || w.err == nil, "a waiter for a %s whose line was forgotten: %v", k.kind, w.err)
	}
}

// filled has a server of its own that refuses to write for a while. What is held is extended and
// released all the same, and a waiter stays in line.
func filled(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	if !a.Harmless() {
		a.Rest(time.Second)
		return
	}
	s, meets := a.server()
	p := meets(patient)
	defer func() { _ = p.Close() }()
	refuse := func(why memory.Refusal) { a.Net.Call(func() { s.Refuse(why) }) }
	for _, k := range sharables("filled") {
		l, err := k.lock(p.Client, a.Ctx, false)
		if err != nil {
			a.Wantf(false, "a try of a free %s: %v", k.kind, err)
			return
		}
		refuse(memory.Full)
		err = l.Extend(a.Ctx)
		a.Wantf(err == nil, "an extend of a %s at a full server: %v", k.kind, err)
		if a.OneIn(2) {
			refuse([]memory.Refusal{memory.DiskFull, memory.ReadOnly}[a.Random.IntN(2)])
			a.Net.Call(func() { a.Net.After(sent/6, func() { s.Refuse(memory.Serves) }) })
		}
		err = l.Release(context.Background())
		a.Wantf(err == nil, "a release of a %s at a server that does not write: %v", k.kind, err)
		refuse(memory.Serves)
		a.Rest(2 * time.Millisecond) // a slot rests for one
		again, err := k.lock(p.Client, a.Ctx, false)
		a.Wantf(err == nil, "a try of a %s that was released at a server that did not write: %v", k.kind, err)
		if err == nil {
			drop(again)
			a.Rest(2 * time.Millisecond)
		}
		a.Net.Call(s.Flush) // the next kind has the same name
	}
	ran, err := p.Job("filled", redlatch.JobOptions{Window: time.Second}).Do(a.Ctx, func(context.Context, *redlatch.Lease) error {
		refuse(memory.Full)
		return nil
	})
	a.Wantf(ran && err == nil, "a run of a job that ends at a full server: %t, %v", ran, err)
	refuse(memory.Serves)
	d := p.CountDownLatch("filled")
	a.Net.Call(s.Flush)
	if set, err := d.TrySetCount(a.Ctx, 2, time.Minute); err == nil && set {
		refuse(memory.Full)
		left, err := d.CountDown(a.Ctx)
		a.Wantf(err == nil && left == 1, "a countdown at a full server is at %d: %v", left, err)
		refuse(memory.Serves)
	}
	a.Net.Call(s.Flush)
	const heartbeat = 200 * time.Millisecond
	k, beat := sharables("filled")[0], func(o *redlatch.Options) { o.Heartbeat = heartbeat }
	l, err := k.lock(p.Client, a.Ctx, false)
	if err != nil {
		a.Wantf(false, "a try of a free mutex: %v", err)
		return
	}
	q := meets(patient, beat)
	defer func() { _ = q.Close() }()
	w := k.waits(a.Ctx, q.Client)
	a.Rest(8 * a.Trip())
	refuse(memory.Full)
	a.Rest(4 * heartbeat) // longer than a waiter is believed alive
	if a.OneIn(2) {
		q.deafens()
	}
	drop(l)
	a.Wantf(w.within(a, 6*heartbeat/5+4*a.Trip()) && w.err == nil, "a waiter at a full server has not the lock that was released: %v", w.err)
	refuse(memory.Serves)
	<-w.ended
	drop(w.lease)
}

// startled has a hook that panics when an acquisition waits, or is granted. It leaves nothing.
func startled(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	at := []redlatch.EventType{redlatch.EventWait, redlatch.EventGranted}[a.Random.IntN(2)]
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook = world.Startle })
	defer func() { _ = p.Close() }()
	var l *redlatch.Lease
	var err error
	if at == redlatch.EventWait {
		if l, err = k.lock(a.Client, a.Ctx, false); err != nil {
			return
		}
	}
	err = world.Startled(func() error { return second(k.lock(p.Client, world.PanicAt(a.Ctx, at), true)) })
	a.Wantf(errors.Is(err, world.ErrStartled), "the hook of an acquisition of a %s panics at %s: %v", k.kind, at, err)
	a.Rest(2 * sent)
	if l != nil {
		if !a.Plan.Quorum() {
			a.wantWaiters(k, l, 0, "when the hook of the last has panicked")
		}
		drop(l)
		a.Rest(4 * a.Trip())
	}
	a.wantFreeNow(k)
}

// lessened is a client whose user may not run one of the commands of the scripts. Each call tells it, or
// is done. Keys expire all the same, and others are not shut out for longer than a lease.
func lessened(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	command := "pexpire"
	switch a.Random.IntN(6) {
	case 0, 1:
	case 2:
		command = "pubsub"
	default:
		all := access.Scripted(false)
		command = all[a.Random.IntN(len(all))]
	}
	p := a.meets(func(o *redlatch.Options) { o.RequestTimeout, o.Lock.TTL = sent, time.Second })
	other := a.meets()
	defer func() { _ = errors.Join(p.Close(), other.Close()) }()
	p.mayNot(strings.ToUpper(command))
	told := func(what string, err error) {
		told := err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlatch.ErrNotReplicated) ||
			strings.Contains(err.Error(), "NOPERM") && strings.Contains(err.Error(), "'"+command+"'") ||
			strings.Contains(err.Error(), "INFO is not permitted in scripts")
		a.Wantf(told, "%s without the right to %s: %v", what, command, err)
	}
	labeled := redlatch.WithLabels(a.Ctx, map[string]string{"of": "lessened"})
	for i := range a.kinds("") {
		name := fmt.Sprintf("%s-%d", name, i)
		k := a.kinds(name)[i]
		ctx, cancel := context.WithTimeout(labeled, 200*time.Millisecond)
		l, err := k.lock(p.Client, ctx, a.OneIn(2))
		cancel()
		// A lease that began halfway, or was granted halfway, is in the way for its TTL.
		ctx, cancel = context.WithTimeout(a.Ctx, 5*time.Second+a.Plan.TTL)
		if err == nil && command == "pubsub" { // without that right, dead clients seem alive
			dead := a.meets()
			gone := k.waits(ctx, dead.Client)
			a.Rest(6 * a.Trip())
			dead.dies()
			defer func() { gone.release(); _ = dead.Close() }()
		}
		w := k.waits(ctx, a.Client)
		a.Rest(6 * a.Trip())
		if err == nil {
			err = errors.Join(l.Extend(a.Ctx), l.Release(a.Ctx))
		}
		told("a "+k.kind, err)
		released := time.Now()
		<-w.ended
		cancel()
		a.Wantf(w.err == nil, "a %s of which another began without the right to %s: %v", k.kind, command, w.err)
		a.Wantf(err != nil || command == "publish" || w.at.Sub(released) <= 2*a.Trip() || a.Plan.Quorum(),
			"a %s that was released without the right to %s is acquired %v later", k.kind, command, w.at.Sub(released))
		if l = w.lease; w.err != nil {
			continue
		}
		ctx, cancel = context.WithTimeout(a.Ctx, 200*time.Millisecond)
		second, err := k.lock(p.Client, ctx, true)
		a.Alwaysf(err != nil || !l.Held(), "two have a %s", k.kind)
		if err == nil {
			err = second.Release(a.Ctx)
		}
		told("a wait for a "+k.kind, err)
		cancel()
		info, err := p.Inspect(a.Ctx, name)
		a.Wantf(err != nil || len(info.Holders) == 1 || !l.Held(), "Inspect of a %s, without the right to %s: %+v", k.kind, command, info)
		drop(l)
	}
	if !a.Plan.Quorum() {
		a.lessUsed(p, other, name, told)
	}
	kinds := a.kinds(name + "-last") // and the client dies in line, and undoes nothing
	k := kinds[a.Random.IntN(len(kinds))]
	l, err := k.lock(other.Client, a.Ctx, false)
	if err != nil {
		return
	}
	if a.OneIn(2) {
		noted, err := p.Mutex(name + "-noted").TryLock(labeled)
		told("a mutex with labels", err)
		if err == nil {
			defer drop(noted)
		}
		a.Rest(300 * time.Millisecond) // until that is noted
	}
	w := k.waits(a.Ctx, p.Client)
	a.Rest(a.UpTo(6 * a.Trip()))
	p.dies()
	a.Rest(time.Second)
	drop(l)
	w.release()
}

// lessUsed does all that a client can do beside acquiring and releasing.
func (a *player) lessUsed(p, other *partner, name string, told func(what string, err error)) {
	uses := kindtest.Uses()
	for _, what := range slices.Sorted(maps.Keys(uses)) {
		ctx, cancel := context.WithTimeout(a.Ctx, 200*time.Millisecond)
		told(what, uses[what](ctx, p.Client, other.Client, name+what))
		cancel()
	}
}
