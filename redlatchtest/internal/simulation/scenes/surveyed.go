package scenes

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
)

// surveyed has a holder and a waiter, of which one node of a quorum hears nothing for a while. Inspect
// and List show both all the same, and the journal tells once that the lock was taken by force.
func surveyed(a *player) {
	defer a.Rest(a.UpTo(2 * time.Second))
	name := a.scene("dead")
	kinds := a.kinds(name)
	k := kinds[a.Random.IntN(len(kinds))]
	beat := func(o *redlatch.Options) { o.Heartbeat, o.Journal.Off = 300*time.Millisecond, false }
	holder, p := a.meets(patient, beat), a.meets(patient, beat)
	defer func() {
		_ = holder.Close()
		_ = p.Close()
	}()
	l, err := k.lock(holder.Client, a.Ctx, false)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Ctx, 10*time.Second)
	defer cancel()
	next := k.waits(ctx, p.Client)
	a.Rest(8 * a.Trip())
	if a.Plan.Quorum() {
		p.cutsOff(0, 3*time.Second)
		a.Rest(2500 * time.Millisecond) // for longer than the node believes a waiter alive
	}
	info, err := a.Client.Inspect(ctx, name)
	a.wantSurveyed(k, "Inspect", info, err, l, p)
	seen := 0
	for info, err := range a.Client.List(ctx, redlatch.ListOptions{Pattern: name + "*"}) {
		seen++
		a.wantSurveyed(k, "List", info, err, l, p)
	}
	a.Wantf(seen == 1 || !l.Held(), "List shows a %s %d times", k.kind, seen)
	if taken, err := p.ForceRelease(ctx, name, redlatch.ForceOptions{Owner: l.Owner(), Reason: "surveyed"}); err == nil && k.kind != "reentrant" {
		a.Wantf(len(taken.Holders) == 1, "a forced release of a %s tells %+v", k.kind, taken)
		a.Rest(time.Second)
		told := 0
		for e, err := range a.Client.Journal(ctx, redlatch.JournalQuery{Pattern: name}) {
			if err == nil && e.Type == redlatch.JournalForced {
				told++
			}
		}
		a.Wantf(told == 1, "the journal tells %d times that a %s was taken by force", told, k.kind)
	}
	_ = l.Release(context.Background())
	next.release()
}

// wantSurveyed checks that a look shows a holder, and a waiter of a partner that is alive.
func (a *player) wantSurveyed(k sharable, look string, info redlatch.LockInfo, err error, l *redlatch.Lease, p *partner) {
	if !l.Held() {
		return
	}
	a.Wantf(err == nil && info.Kind == k.kind && len(info.Holders) == 1 && !info.Holders[0].Dead, "%s shows the holder of a %s as %+v: %v", look, k.kind, info.Holders, err)
	a.Wantf(len(info.Waiters) == 1 && info.Waiters[0].Client == p.ID() && !info.Waiters[0].Dead, "%s shows the waiter for a %s as %+v", look, k.kind, info.Waiters)
}
