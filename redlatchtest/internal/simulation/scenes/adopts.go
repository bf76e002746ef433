package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// fostered hands a lease of any kind to another client, and checks that it is the same lock there.
func fostered(a *player) {
	k := a.lock()
	l := k.heldBy(a.Client)
	token, permits := l.Token(), l.Permits()
	text, err := l.Detach(a.Ctx)
	a.needs(err == nil)
	a.Wantf(!l.Held() && l.Token() == 0, "a lease on a %s is held after Detach", k.kind)
	p := a.meets()
	at := len(text)/2 + a.Random.IntN(len(text)/2)
	changed := []byte(text)
	changed[at] = 'A' + (changed[at]+1)%26
	if string(changed) != text {
		l, err := p.Adopt(a.Ctx, string(changed), redlatch.LockOptions{})
		drop(l)
		a.Alwaysf(errors.Is(err, redlatch.ErrInvalid), "Adopt of a text that was changed: %v", err)
	}
	a.Net.Call(func() { // so that it matters from when on the lease counts
		for _, l := range p.links {
			l.Delay = wire.Span{Least: 20 * time.Millisecond, Most: 30 * time.Millisecond}
		}
	})
	adopted, err := p.Adopt(a.Ctx, text, redlatch.LockOptions{TTL: time.Second})
	a.wantDone(err, "Adopt of a %s", k.kind)
	a.needs(err == nil)
	k.wantBacked(adopted)
	if t := adopted.Token(); t != 0 {
		a.Alwaysf(t == token, "a %s is adopted with token %d, and had %d", k.kind, t, token)
		a.Alwaysf(adopted.Permits() == permits, "a %s is adopted with %d permits, and had %d", k.kind, adopted.Permits(), permits)
	}
	refused, err := k.try(a.Client)
	if k.kind == "rwmutex" && err != nil {
		refused, err = a.Client.RWMutex(k.name).TryRLock(a.Ctx)
	}
	a.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a %s that was adopted: %v", k.kind, err)
	drop(refused)
	again, err := a.Client.Adopt(a.Ctx, text, redlatch.LockOptions{})
	a.Alwaysf(err != nil, "a text is adopted twice")
	drop(again)
	a.wantDone(adopted.Release(context.Background()), "the release of a %s that was adopted", k.kind)
	k.wantFree()
}

// inherited detaches a lease while another goroutine of its client waits behind it, or a run whose
// adoption fails. The goroutine gets its turn after the adopter, and the run's window stays closed.
func inherited(a *player) {
	a.needs(a.Harmless())
	p, q := a.meets(patient), a.meets(patient, func(o *redlatch.Options) { o.Hook = world.Startle })
	k := a.lock("mutex")
	if a.OneIn(2) {
		l := k.heldBy(p.Client)
		w := k.queues(a.Ctx, p.Client)
		text, err := l.Detach(a.Ctx)
		a.wantDone(err, "Detach before a waiter")
		heir, err := q.Adopt(a.Ctx, text, redlatch.LockOptions{})
		a.wantDone(err, "Adopt before a waiter")
		drop(heir)
		a.Wantf(w.within(a, sent) && w.err == nil, "a goroutine behind one that has detached its lease: %v", w.err)
		return
	}
	o, text := redlatch.JobOptions{Window: time.Minute}, ""
	_, err := p.Job(k.name, o).Do(a.Ctx, func(ctx context.Context, l *redlatch.Lease) (err error) {
		text, err = l.Detach(ctx)
		return err
	})
	a.Wantf(text != "", "Detach of a run: %v", err)
	ctx := a.Ctx
	if a.OneIn(2) {
		ctx = world.PanicAt(ctx, redlatch.EventGranted)
	} else {
		for range 8 { // it is sent at most this often
			q.meets("adopt", wire.ReplyLost, 0)
		}
	}
	err = world.Startled(func() error { return second(q.Adopt(ctx, text, redlatch.LockOptions{})) })
	a.Wantf(err != nil, "an adoption of a run that cannot succeed")
	a.Rest(3 * sent)
	ran, err := a.Client.Job(k.name, o).Do(a.Ctx, func(context.Context, *redlatch.Lease) error { return nil })
	a.Wantf(!ran && err == nil, "a job in the window of a run that was adopted in vain: %t, %v", ran, err)
}
