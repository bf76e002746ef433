package lease

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// nest is the leases of one owner on a reentrant mutex that share one entry in Redis. An owner that
// this client has inside can enter again, and leave, without a request: the client counts.
//
// One lease leads: it is in the schedule, and the requests of the entry are its own. The others
// follow. They have its deadline, and share its mutex, so an extend and a loss reach all of them in
// one step. If the lead ends before the others, another one leads from then on, and what is under way
// goes on. The last one to end releases the entry.
//
// A lease follows only where it gets what Redis would give it: the lead is held without doubt, on
// the same terms, with enough time left, and is not about to end. Any other lease has an entry of
// its own. MaxHold applies to each lease: an extend leaves out those that have reached it.
type nest struct {
	visit  *visit
	lead   *Lease
	leases []*Lease // in the order in which they began
	told   []telling
	room   [3]*Lease // the first storage of leases
}

// visit is what a client knows of an owner inside.
type visit struct {
	key  entrance
	lead *Lease       // of the nest that others may join; nil if that has ended
	n    atomic.Int32 // leases
}

// entrance is the key of a visit.
type entrance struct{ state, owner string }

// telling is an event of a lease that is told when the mutex of its nest is free.
type telling struct {
	of   *Lease
	what lock.Event
}

// settle begins the nest of a lease that has an entry of its own. The caller holds k.mu.
func (k *Keeper) settle(l *Lease) {
	key := entrance{l.lock.Keys.State(), l.NamedOwner()}
	v := k.inside[key]
	if v == nil {
		v = &visit{key: key}
		if k.inside == nil {
			k.inside = make(map[entrance]*visit)
		}
		k.inside[key] = v
	}
	v.n.Add(1)
	if v.lead == nil {
		v.lead = l
	}
	l.nest = &nest{visit: v, lead: l}
	l.nest.leases = append(l.nest.room[:0], l)
}

// leads reports whether the lease leads its nest, or has none. The caller holds l.mu.
func (l *Lease) leads() bool { return l.nest == nil || l.nest.lead == l }

// accompanied reports whether others share the entry of a lease that is held. The caller holds l.mu.
func (l *Lease) accompanied() bool { return l.nest != nil && len(l.nest.leases) > 1 }

// leading returns the lease that leads. A lease that has reached its MaxHold must not lead one that
// has not. The caller holds l.mu.
func (l *Lease) leading() *Lease {
	n := l.nest
	if n == nil {
		return l
	}
	if last := len(n.leases) - 1; last > 0 && n.lead.overdueLocked() && !n.leases[last].overdueLocked() {
		n.follow(n.leases[last])
	}
	return n.lead
}

// follow makes next the lead, which all others in the nest follow from now on.
func (n *nest) follow(next *Lease) {
	old, k := n.lead, next.keeper
	n.lead = next
	now := k.Now()
	next.extendAfter = old.extendAt(now).Sub(next.sentAt.Time()) + next.asleep(now)
	next.pending, next.settled, old.pending, old.settled = old.pending, old.settled, false, nil
	longer := old.sentAt.Time().Add(old.ttl).After(next.sentAt.Time().Add(next.ttl))
	next.outlasts = next.outlasts || old.outlasts || longer
	next.resent, next.ticket, old.resent = old.resent, old.ticket, false
	next.forced, next.doubted, next.wish, next.longest = old.forced, old.doubted, old.wish, old.longest
	old.forced, old.doubted = false, false
	k.mu.Lock()
	k.byOwner[next.owner] = next
	if !next.named {
		next.named, old.named = old.named, false
	}
	if n.visit.lead == old {
		n.visit.lead = next
	}
	k.mu.Unlock()
	next.reschedule(now)
}

// leave takes a lease that is not held any more out of its nest. It reports whether no lease is
// left there. The caller holds l.mu.
func (l *Lease) leave() bool {
	n := l.nest
	if n == nil {
		return true
	}
	for i := len(n.leases) - 1; i >= 0; i-- { // the last to enter is mostly the first to leave
		if n.leases[i] == l {
			n.leases = slices.Delete(n.leases, i, i+1)
			break
		}
	}
	if len(n.leases) > 0 && n.lead == l {
		n.follow(n.leases[len(n.leases)-1])
	}
	return len(n.leases) == 0
}

// left notes that a lease of a visit has ended. It counts each lease once, even if its release is
// called again. The caller holds k.mu.
func (k *Keeper) left(l *Lease) {
	if l.nest == nil || l.counted {
		return
	}
	l.counted = true
	v := l.nest.visit
	if v.n.Add(-1) == 0 {
		delete(k.inside, v.key)
	}
	if v.lead == l {
		v.lead = nil
	}
}

// others returns the leases that share the entry of this one. The caller holds l.mu.
func (l *Lease) others() (all []*Lease) {
	if l.accompanied() {
		all = slices.DeleteFunc(slices.Clone(l.nest.leases), func(m *Lease) bool { return m == l })
	}
	return all
}

// loseOthers ends the leases that share the entry of one that is lost for this reason, if the
// reason applies to all. The caller holds l.mu.
func (l *Lease) loseOthers(why lock.Loss) {
	if !why.Reason.Told() && why.Reason != lock.ReasonClosed {
		return
	}
	others := l.others()
	if len(others) > 0 {
		l.nest.leases = nil
	}
	for _, m := range others {
		l.nest.tell(m, m.losing(why))
	}
}

// extendOthers applies the result of an extend to the leases that share the entry of this one.
// e is what the hook is told, but for what remains. The caller holds l.mu.
func (l *Lease) extendOthers(by *Lease, sent clock.Reading, ttl time.Duration, e lock.Event, now clock.Reading) {
	for _, m := range l.others() {
		if m != by && m.overdueLocked() {
			m.reschedule(now) // for its deadline
			continue
		}
		m.confirm(by, sent, ttl)
		if m.timeLeft(now) < l.timeLeft(now) {
			m.reschedule(now) // or none would look at it then
		}
		e.Remaining = m.timeLeft(now)
		l.nest.tell(m, e)
	}
}

// tell queues events of a lease, for the hook to be told when the mutex is free.
func (n *nest) tell(l *Lease, events ...lock.Event) {
	for _, e := range events {
		n.told = append(n.told, telling{l, e})
	}
}

// collect takes the events that are to be told. It leaves those of leases that the hook must not be
// told of yet. The caller holds the mutex.
func (n *nest) collect() (now []telling) {
	if n == nil || len(n.told) == 0 {
		return nil
	}
	var later []telling
	for _, t := range n.told {
		if t.of.untold {
			later = append(later, t)
		} else {
			now = append(now, t)
		}
	}
	n.told = later
	return now
}
