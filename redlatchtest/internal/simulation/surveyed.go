package simulation

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
)

// surveyed has a holder and a waiter, of which one node of a quorum hears nothing for a while. Inspect
// and List show both all the same, and the journal tells once that the lock was taken by force.
func surveyed(a *actor) {
	defer a.rest(a.upTo(2 * time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.random.IntN(len(kinds))]
	beat := func(o *redlatch.Options) { o.Heartbeat, o.Journal.On = 300*time.Millisecond, true }
	holder, p := a.meets(patient, beat), a.meets(patient, beat)
	defer func() {
		_ = holder.Close()
		_ = p.Close()
	}()
	l, err := k.lock(holder.Client, a.ctx, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	next := k.waits(ctx, p.Client)
	a.rest(8 * a.trip())
	if a.plan.quorum() {
		p.cutsOff(0, 3*time.Second)
		a.rest(2500 * time.Millisecond) // for longer than the node believes a waiter alive
	}
	info, err := a.client.Inspect(ctx, name)
	a.wantSurveyed(k, "Inspect", info, err, l, p)
	seen := 0
	for info, err := range a.client.List(ctx, redlatch.ListOptions{Pattern: name + "*"}) {
		seen++
		a.wantSurveyed(k, "List", info, err, l, p)
	}
	a.wantf(seen == 1 || !l.Held(), "List shows a %s %d times", k.kind, seen)
	if taken, err := p.ForceRelease(ctx, name, redlatch.ForceOptions{Owner: l.Owner(), Reason: "surveyed"}); err == nil && k.kind != "reentrant" {
		a.wantf(len(taken.Holders) == 1, "a forced release of a %s tells %+v", k.kind, taken)
		a.rest(time.Second)
		told := 0
		for e, err := range a.client.Journal(ctx, redlatch.JournalQuery{Pattern: name}) {
			if err == nil && e.Type == redlatch.JournalForced {
				told++
			}
		}
		a.wantf(told == 1, "the journal tells %d times that a %s was taken by force", told, k.kind)
	}
	_ = l.Release(context.Background())
	next.release()
}

// wantSurveyed checks that a look shows a holder, and a waiter of a partner that is alive.
func (a *actor) wantSurveyed(k sharable, look string, info redlatch.LockInfo, err error, l *redlatch.Lease, p *partner) {
	if !l.Held() {
		return
	}
	a.wantf(err == nil && info.Kind == k.kind && len(info.Holders) == 1 && !info.Holders[0].Dead, "%s shows the holder of a %s as %+v: %v", look, k.kind, info.Holders, err)
	a.wantf(len(info.Waiters) == 1 && info.Waiters[0].Client == p.ID() && !info.Waiters[0].Dead, "%s shows the waiter for a %s as %+v", look, k.kind, info.Waiters)
}
