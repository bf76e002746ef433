package scenes

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// apart cuts a client off from one node of a cluster. The other nodes answer its requests and its
// releases as usual, however many it sends at once.
func apart(a *player) {
	defer a.Rest(2*time.Second + a.UpTo(2*time.Second))
	const n = 900 // of which a node has some 300, which is more than a batch
	p := a.meets(patient)
	base := a.scene("dead")
	name := func(i int) string { return fmt.Sprintf("%s-%d", base, i) }
	away := a.At("redlatch:" + name(0))
	a.Net.Call(func() { p.links[away.Number-1].Set(wire.Silent, 3*sent) })
	if !a.OneIn(10) {
		together(60, func(i int) {
			begun := time.Now()
			l, err := p.Mutex(name(i)).TryLock(a.Ctx)
			late := time.Since(begun) > 4*a.Trip()
			a.Wantf(err == nil && !late || a.At("redlatch:"+name(i)) == away, "a node that does not answer has a try at another node last %v: %v", time.Since(begun), err)
			drop(l)
		})
		return
	}
	ctx := a.within(a.Plan.Delay.Least) // before a reply can be here
	together(n, func(i int) {
		if l, err := p.Mutex(name(i)).TryLock(ctx); err == nil {
			drop(l)
		}
	})
	a.Rest(sent/2 + 4*a.Trip()) // a release that has overtaken its request is sent again after sent/3
	left := 0
	a.Net.Call(func() {
		for _, s := range a.Servers {
			if s != away {
				left += len(s.Keys("redlatch:" + base + "-*"))
			}
		}
	})
	a.Wantf(left == 0, "a node that does not answer has %d releases wait that are for other nodes", left)
}

// surveyed has a holder and a waiter that one node of a quorum does not hear for a while. Inspect
// and List still show both, and the journal notes the taking by force only once.
func surveyed(a *player) {
	k := a.lock()
	beat := func(o *redlatch.Options) { o.Heartbeat, o.Journal.Off = 300*time.Millisecond, false }
	holder, p := a.meets(patient, beat), a.meets(patient, beat)
	l := k.heldBy(holder.Client)
	ctx := a.within(10 * time.Second)
	k.queues(ctx, p.Client)
	if a.Plan.Quorum() {
		p.cutsOff(0, 3*time.Second)
		a.Rest(2500 * time.Millisecond) // for longer than the node takes a silent waiter for alive
	}
	look := func(by string, info redlatch.LockInfo, err error) {
		a.Wantf(!l.Held() || err == nil && info.Kind == k.kind && len(info.Holders) == 1 && !info.Holders[0].Dead &&
			(k.kind == "reentrant" || info.Holders[0].Owner == l.Owner()),
			"%s shows the holder of a %s as %+v: %v", by, k.kind, info.Holders, err)
		a.Wantf(!l.Held() || len(info.Waiters) == 1 && info.Waiters[0].Client == p.ID() && !info.Waiters[0].Dead,
			"%s shows the waiter for a %s as %+v", by, k.kind, info.Waiters)
	}
	info, err := a.Client.Inspect(ctx, k.name)
	look("Inspect", info, err)
	seen := 0
	for info, err := range a.Client.List(ctx, redlatch.ListOptions{Pattern: k.name + "*"}) {
		seen++
		look("List", info, err)
	}
	a.Wantf(seen == 1 || !l.Held(), "List shows a %s %d times", k.kind, seen)
	if taken, err := p.ForceRelease(ctx, k.name, redlatch.ForceOptions{Owner: l.Owner(), Reason: "surveyed"}); err == nil && k.kind != "reentrant" {
		a.Wantf(len(taken.Holders) == 1, "a forced release of a %s tells %+v", k.kind, taken)
		a.Rest(time.Second)
		told := 0
		for e, err := range a.Client.Journal(ctx, redlatch.JournalQuery{Pattern: k.name}) {
			if err == nil && e.Type == redlatch.JournalForced {
				told++
			}
		}
		a.Wantf(told == 1, "the journal tells %d times that a %s was taken by force", told, k.kind)
	}
}
