package scenes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// bundle has names with which goroutines of one client do the same at one moment. There are more
// than can leave as single requests, so most leave together.
type bundle struct {
	*player
	base   string
	hold   time.Duration // MinHold
	leases [48]*redlatch.Lease
	errs   [48]error
	held   [48]bool            // until its release
	taken  [48]*redlatch.Lease // by another client
	lines  [48]*waiter         // of a third client
}

// Every third name is free, every third is taken, and every third gets a waiter. Some are special.
const (
	spoiledName = 45 // is free, and a key that is no lock takes its place before the release
	awaitedName = 46 // has a waiter before, and is free: its holder's key was deleted
	foreignName = 47 // is no lock
)

func (b *bundle) name(i int) string { return fmt.Sprintf("%s-%d", b.base, i) }

func (b *bundle) each(do func(i int)) { together(len(b.leases), do) }

// together calls do for each of n numbers at one moment, each in its own goroutine.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// bundled makes many goroutines of one client do the same at one moment: some with free names, some
// with taken ones, some with names that have a line.
func bundled(a *player) {
	b := &bundle{player: a, base: a.scene("dead")}
	if a.OneIn(2) {
		b.hold = 500 * time.Millisecond
	}
	p, other := a.meets(func(o *redlatch.Options) { o.Lock.MinHold = b.hold }), a.meets(patient)
	ctx := a.within(5 * time.Second)
	b.prepare(ctx, other)
	b.each(func(i int) { b.leases[i], b.errs[i] = p.Mutex(b.name(i)).TryLock(ctx) })
	b.wantTries(ctx)
	b.wantBrief(p)
	a.Rest(8 * a.Trip())
	if b.leases[spoiledName] != nil {
		b.spoil(spoiledName, "HSET", "a field", "a value")
	}
	b.each(func(i int) {
		if b.leases[i] != nil {
			b.held[i] = b.leases[i].Held()
			err := b.leases[i].Release(context.Background())
			b.held[i] = b.held[i] && i != spoiledName
			a.Wantf(err == nil || !b.held[i], "one of many releases at once: %v", err)
		}
	})
	b.wantReleases(ctx, time.Now())
}

// spoil puts a key of another program in the place of a lock.
func (b *bundle) spoil(i int, command string, args ...string) {
	key := "redlatch:" + b.name(i)
	b.Net.Call(func() {
		b.At(key).Do("DEL", key)
		b.At(key).Do(append([]string{command, key}, args...)...)
		b.At(key).Do("PEXPIRE", key, "5000")
	})
}

// wantBrief tries other names with a context that leaves no time. Each try ends with the context.
func (b *bundle) wantBrief(p *partner) {
	ctx := b.within(b.Plan.Delay.Least) // before a reply can be here
	b.each(func(i int) {
		w := world.Begins(ctx)
		l, err := p.Mutex(b.name(i) + "-brief").TryLock(ctx)
		b.Ends("acquire", world.Acquisition{Kind: history.Mutex, Name: b.base}, w, err)
		drop(l)
	})
}

// prepare makes another client take every third name, and a third client wait for one of them.
func (b *bundle) prepare(ctx context.Context, other *partner) {
	for i := 1; i < len(b.leases); i += 3 {
		b.taken[i], _ = other.Mutex(b.name(i)).TryLock(ctx)
	}
	if b.taken[awaitedName] != nil {
		b.lines[awaitedName] = b.waits(func() (*redlatch.Lease, error) { return b.Client.Mutex(b.name(awaitedName)).Lock(ctx) })
		b.Rest(8 * b.Trip())
	}
	key := "redlatch:" + b.name(awaitedName)
	b.Net.Call(func() { b.At(key).Do("DEL", key) })
	b.spoil(foreignName, "RPUSH", "an item")
}

// wantTries checks the results of the tries, and makes a third client wait for every third name.
func (b *bundle) wantTries(ctx context.Context) {
	for i, err := range b.errs {
		taken := i%3 == 1 && b.taken[i] != nil && (i == awaitedName || b.taken[i].Held())
		switch {
		case i == foreignName:
			b.Wantf(errors.Is(err, redlatch.ErrWrongKind), "one of many tries at once, of what is no lock: %v", err)
		case taken:
			b.Wantf(errors.Is(err, redlatch.ErrTaken), "one of many tries at once, of what is taken or waited for: %v", err)
		case i%3 != 1:
			b.Wantf(err == nil, "one of many tries at once, of what is free: %v", err)
		}
		if i%3 == 2 && b.leases[i] != nil {
			b.lines[i] = b.waits(func() (*redlatch.Lease, error) { return b.Client.Mutex(b.name(i)).Lock(ctx) })
		}
	}
}

// wantReleases checks that the releases opened names without a line to all, and others to the line.
func (b *bundle) wantReleases(ctx context.Context, released time.Time) {
	for i := 0; i < len(b.leases); i += 3 {
		l, err := b.Client.Mutex(b.name(i)).TryLock(ctx)
		if shut := b.hold > 0 && time.Since(released) < b.hold-9*b.Trip(); b.held[i] && (shut || b.hold == 0) {
			b.Wantf(shut == errors.Is(err, redlatch.ErrTaken), "a try after one of many releases at once, shut: %t: %v", shut, err)
		}
		drop(l)
	}
	for i, w := range b.lines {
		if w != nil {
			<-w.ended
			late := w.at.Sub(released)
			b.Wantf(!b.held[i] || w.err == nil && late < b.hold+6*b.Trip(), "a waiter has what was released with many others %v after that: %v", late, w.err)
			w.release()
		}
		drop(b.taken[i])
	}
}
