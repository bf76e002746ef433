package lease

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// Entries returns how many leases of an owner on a reentrant mutex are held here.
func (k *Keeper) Entries(on *lock.Lock, owner string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.inside[entrance{on.Keys.State(), owner}]; v != nil {
		return int(v.n.Load())
	}
	return 0
}

// Reenter begins a lease of an owner that this client has inside, unless depth leases of that owner
// are held here; 0 means no bound. It returns nil if Redis has to be asked. left is how long the
// lease is held. The hook is told nothing of the lease before [Lease.Entered].
func (k *Keeper) Reenter(
	ctx context.Context, on *lock.Lock, owner string, depth int, id uint64, now clock.Reading,
) (l *Lease, left time.Duration) {
	k.mu.Lock()
	v := k.inside[entrance{on.Keys.State(), owner}]
	var lead *Lease
	if v != nil {
		lead = v.lead
	}
	k.mu.Unlock()
	if lead == nil || !alike(lead.lock, on) || over(ctx, k, now) {
		return nil, 0
	}
	lead.mu.Lock()
	defer lead.mu.Unlock()
	if !lead.welcomes(now) {
		return nil, 0
	}
	if n := v.n.Add(1); depth > 0 && int(n) > depth {
		v.n.Add(-1)
		return nil, 0
	}
	n := lead.nest
	l = &Lease{
		keeper: k, lock: lead.lock, id: id, owner: lead.owner, token: lead.token, detail: lead.detail, parent: ctx,
		acquired: now, mu: lead.mu, nest: n, untold: true, sentAt: lead.sentAt, ttl: lead.ttl,
	}
	l.entry.Owner = (*renewal)(l)
	n.leases = append(n.leases, l)
	return l, l.timeLeft(now)
}

// alike reports whether leases on these locks are held, and end, in the same way.
func alike(a, b *lock.Lock) bool {
	return a.Terms == b.Terms && a.MinHold == b.MinHold && a.FenceKey == b.FenceKey && a.Neighbours == b.Neighbours
}

// welcomes reports whether others may join the lease. The caller holds l.mu.
func (l *Lease) welcomes(now clock.Reading) bool {
	least := l.lock.TTL / 3
	if !l.lock.Renews {
		least = l.lock.TTL * 9 / 10 // all that the program will ever get
	}
	return l.leads() && l.state == held && !l.forced && l.parting == 0 && !l.overdueLocked() && l.ttl-now.Since(l.sentAt) >= least
}

// Entered lets the hook be told of a lease that [Keeper.Reenter] began.
func (l *Lease) Entered() {
	l.mu.Lock()
	l.untold = false
	l.unlock()
}
