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

// This file checks that what is undone or ended stays so if the server refuses, is not reached or
// forgets, or if the program's hook panics.

// gaveUp makes a waiter give up while the server refuses to remove its place in line, or is not
// reached for a long time. The place is removed later.
func gaveUp(a *player) {
	k := a.lock()
	p := a.meets(patient, func(o *redlatch.Options) { o.Heartbeat, o.Lock.TTL = 300*time.Millisecond, time.Second })
	ctx, giveUp := context.WithCancel(a.Ctx)
	defer giveUp()
	l, w := k.heldBy(a.Client), k.queues(ctx, p.Client)
	if a.OneIn(2) {
		p.mayNot("ZREM")
		giveUp()
		<-w.ended
		a.Rest(2 * sent)
		p.mayNot()
		a.Rest(2 * sent)
		k.wantWaiters(l, 0, "when the last has given up")
	} else {
		p.cutsOffAll(6 * time.Second)
		giveUp()
		<-w.ended
		a.Rest(6*time.Second + 2*sent)
		again := k.queues(a.Ctx, p.Client) // so that its client counts as alive
		k.wantWaiters(l, 1, "when another has given up")
		drop(l)
		again.release()
	}
}

// cutShort releases and detaches while no server is reached. The release is sent later, and opens
// nothing before its time.
func cutShort(a *player) {
	k := a.lock(unpooled...)
	hold := time.Duration(0)
	if a.OneIn(2) {
		hold = 3 * time.Second
	}
	p := a.meets(patient, func(o *redlatch.Options) { o.Lock.MinHold = hold })
	begun := time.Now()
	l := k.heldBy(p.Client)
	p.cutsOffAll(2 * sent)
	if hold == 0 && a.OneIn(2) {
		_, err := l.Detach(a.Ctx)
		a.Wantf(err != nil, "a lease on a %s is detached while no server is reached", k.kind)
	}
	err := l.Release(context.Background())
	a.Wantf(errors.Is(err, redlatch.ErrUnreachable), "a release while no server is reached: %v", err)
	a.Rest(2*sent + sent)
	if hold > 0 {
		early, err := k.try(a.Client)
		a.Wantf(errors.Is(err, redlatch.ErrTaken) || time.Since(begun) > hold-a.Trip(), "a %s that is shut for %v can be had after %v: %v", k.kind, hold, time.Since(begun), err)
		drop(early)
		a.Rest(hold + sent - time.Since(begun))
	}
	k.wantFree()
}

// recalled makes the connections of a client break again and again, while the releases of its
// earlier leases, which it sends again, get lost. They do not pile up.
func recalled(a *player) {
	k, heard := a.lock(), a.lock("mutex")
	p := a.meets(patient)
	heard.heldBy(a.Client)
	heard.queues(a.Ctx, p.Client) // so that it listens
	drop(k.heldBy(p.Client))
	again := "release " + k.key() + " "
	sends := p.totals(func(what string) int { return strings.Count(what, again) })
	for range 4 {
		p.loses(p.links, again, 8)
		p.each((*wire.Link).Cut)
		a.Rest(sent/2 + 8*a.Trip())
	}
	n := sends()
	a.Wantf(n > 0 || a.Plan.Cluster, "a client whose connections broke does not release again what it had before")
	p.spare()
	a.Rest(3 * sent)
	n = sends() - n
	a.Wantf(n <= 2, "%d releases of one lease are sent after an outage", n)
	k.wantFree()
}

// emptied makes the server forget a line. Its waiters ask for their places again, and get them
// although others have filled the line.
func emptied(a *player) {
	k, beat := a.lock(unpooled...), beating(300*time.Millisecond)
	p, q := a.meets(patient, beat, func(o *redlatch.Options) { o.Lock.MaxWaiters = 1 }), a.meets(patient, beat)
	p.meets("\t", wire.ReplyLost, 0) // so that it is asked for twice, and there is room for one
	l, first := k.heldBy(a.Client), k.queues(a.Ctx, p.Client)
	a.Rest(sent/2 + 2*a.Trip())
	a.Net.Call(func() {
		for _, suffix := range []string{":queue", ":clients"} {
			a.At(k.key()).Do("DEL", "{"+k.key()+"}"+suffix)
		}
	})
	second := k.waits(a.Ctx, q.Client)
	a.Rest(time.Second)
	k.wantWaiters(l, 2, "when the line was forgotten")
	held := gives(l)
	for _, w := range []*waiter{first, second} {
		w.release()
		a.Wantf(!held || w.err == nil, "a waiter for a %s whose line was forgotten: %v", k.kind, w.err)
	}
}

// filled has its own server, which refuses to write for a while. Held leases are still extended and
// released, and a waiter stays in line.
func filled(a *player) {
	a.needs(a.Harmless())
	servers := a.nodes(1)
	s, p := servers[0], a.meetsAt(servers, patient)
	refuse := func(why memory.Refusal) { a.Net.Call(func() { s.Refuse(why) }) }
	for _, k := range a.kinds("filled") {
		l := k.heldBy(p.Client)
		refuse(memory.Full)
		a.wantDone(l.Extend(a.Ctx), "an extend of a %s at a full server", k.kind)
		if a.OneIn(2) {
			refuse([]memory.Refusal{memory.DiskFull, memory.ReadOnly}[a.Random.IntN(2)])
			a.Net.Call(func() { a.Net.After(sent/6, func() { s.Refuse(memory.Serves) }) })
		}
		err := l.Release(context.Background())
		a.wantDone(err, "a release of a %s at a server that does not write", k.kind)
		refuse(memory.Serves)
		a.Rest(2 * time.Millisecond) // a slot rests for one
		again, err := k.try(p.Client)
		a.wantDone(err, "a try of a %s that was released at a server that did not write", k.kind)
		drop(again)
		a.Rest(2 * time.Millisecond)
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
	k, q := a.kinds("filled")[3], a.meetsAt(servers, patient, beating(heartbeat)) // a mutex
	l, w := k.heldBy(p.Client), k.queues(a.Ctx, q.Client)
	refuse(memory.Full)
	a.Rest(4 * heartbeat) // longer than a silent waiter counts as alive
	if a.OneIn(2) {
		q.deafens()
	}
	drop(l)
	a.Wantf(w.within(a, 6*heartbeat/5+4*a.Trip()) && w.err == nil, "a waiter at a full server has not the lock that was released: %v", w.err)
	refuse(memory.Serves)
}

// startled has a hook that panics when an acquisition waits or is granted, or when the lease is
// released. It leaves nothing behind.
func startled(a *player) {
	k := a.lock()
	at := []redlatch.EventType{redlatch.EventWait, redlatch.EventGranted, redlatch.EventReleased}[a.Random.IntN(3)]
	p := a.meets(patient, func(o *redlatch.Options) { o.Hook = world.Startle })
	var l *redlatch.Lease
	if at == redlatch.EventWait {
		l = k.heldBy(a.Client)
	}
	err := world.Startled(func() error {
		ctx := world.PanicAt(a.Ctx, at)
		l, err := k.lock(p.Client, ctx, true)
		if err == nil {
			err = l.Release(ctx)
		}
		return err
	})
	a.Wantf(errors.Is(err, world.ErrStartled), "the hook of an acquisition of a %s panics at %s: %v", k.kind, at, err)
	a.Rest(2 * sent)
	if l != nil {
		if !a.Plan.Quorum() {
			k.wantWaiters(l, 0, "when the hook of the last has panicked")
		}
		drop(l)
		a.Rest(4 * a.Trip())
	}
	k.wantFree()
}

// lessened has a client whose user may not run one of the scripts' commands. Each call says so, or
// succeeds. Keys still expire, and others are not kept out for longer than a lease.
func lessened(a *player) {
	name, command := a.scene("dead"), "pexpire"
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
	p.mayNot(strings.ToUpper(command))
	told := func(what string, err error) {
		told := err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlatch.ErrNotReplicated) ||
			strings.Contains(err.Error(), "NOPERM") && strings.Contains(err.Error(), "'"+command+"'") ||
			strings.Contains(err.Error(), "INFO is not permitted in scripts")
		a.Wantf(told, "%s without the right to %s: %v", what, command, err)
	}
	labeled := redlatch.WithLabels(a.Ctx, map[string]string{"of": "lessened"})
	for i := range a.kinds("") {
		k := a.kinds(fmt.Sprintf("%s-%d", name, i))[i]
		ctx, cancel := context.WithTimeout(labeled, 200*time.Millisecond)
		l, err := k.lock(p.Client, ctx, a.OneIn(2))
		cancel()
		// A lease that began halfway, or was granted halfway, is in the way for its TTL.
		ctx = a.within(5*time.Second + a.Plan.TTL)
		if err == nil && command == "pubsub" { // without that right, dead clients seem alive
			dead := a.meets()
			k.queues(ctx, dead.Client)
			dead.dies()
		}
		w := k.queues(ctx, a.Client)
		if err == nil {
			err = errors.Join(l.Extend(a.Ctx), l.Release(a.Ctx))
		}
		told("a "+k.kind, err)
		released := time.Now()
		<-w.ended
		a.Wantf(w.err == nil, "a %s of which another began without the right to %s: %v", k.kind, command, w.err)
		a.Wantf(err != nil || command == "publish" || w.at.Sub(released) <= 2*a.Trip() || a.Plan.Quorum(),
			"a %s that was released without the right to %s is acquired %v later", k.kind, command, w.at.Sub(released))
		if w.err != nil {
			continue
		}
		ctx, cancel = context.WithTimeout(a.Ctx, 200*time.Millisecond)
		second, err := k.lock(p.Client, ctx, true)
		a.Alwaysf(err != nil || !w.lease.Held(), "two have a %s", k.kind)
		if err == nil {
			err = second.Release(a.Ctx)
		}
		told("a wait for a "+k.kind, err)
		cancel()
		info, err := p.Inspect(a.Ctx, k.name)
		a.Wantf(err != nil || len(info.Holders) == 1 || !w.lease.Held(), "Inspect of a %s, without the right to %s: %+v", k.kind, command, info)
		w.release()
	}
	if uses := kindtest.Uses(); !a.Plan.Quorum() { // all that a client can do beside acquiring and releasing
		for _, what := range slices.Sorted(maps.Keys(uses)) {
			ctx, cancel := context.WithTimeout(a.Ctx, 200*time.Millisecond)
			told(what, uses[what](ctx, p.Client, other.Client, name+what))
			cancel()
		}
	}
	k := a.lock() // and the client dies in line, and undoes nothing
	k.heldBy(other.Client)
	if a.OneIn(2) {
		noted, err := p.Mutex(name + "-noted").TryLock(labeled)
		told("a mutex with labels", err)
		if err == nil {
			defer drop(noted)
		}
		a.Rest(300 * time.Millisecond) // until that is noted
	}
	k.waits(a.Ctx, p.Client)
	a.Rest(a.UpTo(6 * a.Trip()))
	p.dies()
	a.Rest(time.Second)
}
