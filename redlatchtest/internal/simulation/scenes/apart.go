package scenes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// apart has a client that does not reach one node of a cluster. What it asks of the others is
// answered as if nothing were amiss, however much it asks at once, and also what it gives back.
func apart(a *player) {
	defer a.Rest(2*time.Second + a.UpTo(4*time.Second))
	const n = 900 // of which a node has some 300, and more than a batch
	p := a.meets(patient)
	defer func() { _ = p.Close() }()
	base := a.scene("dead")
	name := func(i int) string { return fmt.Sprintf("%s-%d", base, i) }
	away := a.At("redlatch:" + name(0))
	a.Net.Call(func() { p.links[away.Number-1].Set(wire.Silent, 3*sent) })
	each := func(n int, do func(i int)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}
	if !a.OneIn(3) {
		each(60, func(i int) {
			begun := time.Now()
			l, err := p.Mutex(name(i)).TryLock(a.Ctx)
			late := time.Since(begun) > 4*a.Trip()
			a.Wantf(err == nil && !late || a.At("redlatch:"+name(i)) == away, "a node that does not answer has a try at another node last %v: %v", time.Since(begun), err)
			if err == nil {
				_ = l.Release(context.Background())
			}
		})
		return
	}
	ctx, giveUp := context.WithTimeout(a.Ctx, a.Plan.Delay.Least) // before a reply can be here
	defer giveUp()
	each(n, func(i int) {
		if l, err := p.Mutex(name(i)).TryLock(ctx); err == nil {
			_ = l.Release(context.Background())
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
