package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// fostered hands a lease of any kind to another client, and looks whether it is the same lock there.
func fostered(a *actor) {
	defer a.rest(a.upTo(a.plan.request / 2))
	name := a.scene("dead")
	kinds := sharables(name)
	k := kinds[a.random.IntN(len(kinds))]
	l, err := k.lock(a.client, a.ctx, false)
	if err != nil {
		return
	}
	token, permits := l.Token(), l.Permits()
	text, err := l.Detach(a.ctx)
	if err != nil {
		_ = l.Release(context.Background())
		return
	}
	a.wantf(!l.Held() && l.Token() == 0, "a lease on a %s is held after Detach", k.kind)
	p := a.meets()
	defer func() { _ = p.Close() }()
	at := len(text)/2 + a.random.IntN(len(text)/2)
	changed := []byte(text)
	changed[at] = 'A' + (changed[at]+1)%26
	if string(changed) != text {
		l, err := p.Adopt(a.ctx, string(changed), redlatch.LockOptions{})
		if err == nil {
			_ = l.Release(context.Background())
		}
		a.alwaysf(errors.Is(err, redlatch.ErrInvalid), "Adopt of a text that was changed: %v", err)
	}
	a.net.call(func() { // so that it matters from when on the lease counts
		for _, l := range p.links {
			l.delay = span{20 * time.Millisecond, 30 * time.Millisecond}
		}
	})
	adopted, err := p.Adopt(a.ctx, text, redlatch.LockOptions{TTL: time.Second})
	if err != nil {
		a.wantf(false, "Adopt of a %s = %v", k.kind, err)
		return
	}
	if q := (acquisition{kind: history.Mutex, name: name}); k.kind != "reentrant" {
		a.wantBacked(q, adopted)
	}
	if t := adopted.Token(); t != 0 {
		a.alwaysf(t == token, "a %s is adopted with token %d, and had %d", k.kind, t, token)
		a.alwaysf(adopted.Permits() == permits, "a %s is adopted with %d permits, and had %d", k.kind, adopted.Permits(), permits)
	}
	refused, err := k.lock(a.client, a.ctx, false)
	if k.kind == "rwmutex" && err != nil {
		refused, err = a.client.RWMutex(name).TryRLock(a.ctx)
	}
	a.wantf(errors.Is(err, redlatch.ErrTaken), "a try of a %s that was adopted: %v", k.kind, err)
	if err == nil {
		_ = refused.Release(context.Background())
	}
	again, err := a.client.Adopt(a.ctx, text, redlatch.LockOptions{})
	a.alwaysf(err != nil, "a text is adopted twice")
	if err == nil {
		_ = again.Release(context.Background())
	}
	err = adopted.Release(context.Background())
	a.wantf(err == nil, "the release of a %s that was adopted: %v", k.kind, err)
	if l, err := k.lock(a.client, a.ctx, false); err == nil {
		_ = l.Release(context.Background())
	} else {
		a.wantf(false, "a try of a %s that was adopted and released: %v", k.kind, err)
	}
}
