package scenes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// handleable is a lock with which a program does anything that is allowed.
type handleable struct {
	sharable // no client gets it while as many leases as full says are held
	full     int
	room     int // how many leases there can be; 0 for no bound
	enter    func(c *redlatch.Client, o redlatch.LockOptions) locker
	writes   bool // a lease can become a reader's
}

// handleables returns a lock of each kind that the world has, with a name, and one for readers.
func (a *player) handleables(name string) (all []handleable) {
	for _, k := range a.kinds(name) {
		h := handleable{sharable: k, full: 1, room: 1, enter: k.on}
		switch k.kind {
		case "reentrant":
			h.room = 0
		case "rwmutex":
			h.writes = true
			all = append(all, h)
			h.writes, h.room, h.enter = false, 0, func(c *redlatch.Client, o redlatch.LockOptions) locker {
				m := c.RWMutex(name).With(o)
				return locker{m.RLock, m.TryRLock}
			}
		case "semaphore":
			h.room, h.enter = world.Permits, func(c *redlatch.Client, o redlatch.LockOptions) locker {
				s := c.Semaphore(name, world.Permits).With(o)
				return asking(s.Acquire, s.TryAcquire, 1)
			}
		case "slotpool":
			h.full, h.room = world.SlotCount, world.SlotCount
			h.on = func(c *redlatch.Client, o redlatch.LockOptions) locker { return pool(c, name, world.SlotCount, o) }
			h.enter = h.on
		}
		all = append(all, h)
	}
	return all
}

// handled takes a lock of any kind in two clients, and does with the leases whatever a program may do.
// After each step every lease is what it was promised to be.
func handled(a *player) {
	all := a.handleables(a.scene("dead"))
	a.handle(all[a.Random.IntN(len(all))])
}

// nested is handled for entries of one owner into a reentrant mutex.
func nested(a *player) { a.handle(a.handleables(a.scene("dead"))[0]) }

func (a *player) handle(h handleable) {
	n := &handling{player: a, handleable: h, partners: [2]*partner{a.meets(patient), a.meets(patient)}}
	n.lingers = (n.kind == "mutex" || n.kind == "rwmutex") && !a.Plan.Quorum() && a.OneIn(3)
	n.usual = n.terms()
	for range 4 + a.Random.IntN(10) {
		if !a.Harmless() {
			break
		}
		n.step()
		n.look()
	}
	left := n.end()
	for _, e := range n.leases {
		n.releases(e)
	}
	n.clears()
	if a.Harmless() && !left {
		h.wantFree()
		a.Wantf(a.Plan.Quorum() || n.lingers || n.kind == "slotpool" || h.kept() == 0, "a %s is kept when all leases are released", n.kind)
	}
}

// handling is a lock in the scene handled.
type handling struct {
	*player
	handleable
	partners [2]*partner
	leases   []*handledLease
	late     time.Duration // how long an answer may take, since a request met a mishap
	lingers  bool          // clients keep the lock
	usual    redlatch.LockOptions
}

// handledLease is a lease, and what it was promised to be.
type handledLease struct {
	*redlatch.Lease
	of      *partner
	token   int64
	ttl     time.Duration
	until   time.Time // it is held until then at least; zero if it is renewed
	least   time.Time // and its deadline is not before that
	bound   time.Time // it reaches its MaxHold; zero if it has none
	last    time.Time // and has ended by then
	latest  time.Time // it ends by then unless it is extended, as far as the client has said
	wanted  <-chan struct{}
	watched time.Time // since when wanted is asked for
	reads   bool      // it was for writing
}

// due reports whether a lease has to be held.
func (e *handledLease) due() bool { return e.dueIn(0) }

// dueIn reports whether a lease has to be held for that long, which a request may take.
func (e *handledLease) dueIn(d time.Duration) bool {
	then := time.Now().Add(d)
	return (e.until.IsZero() || then.Before(e.until)) && (e.bound.IsZero() || then.Before(e.bound))
}

// clears waits until Redis has dropped what clients believe to be over: it keeps a lease a bit
// longer, and a release that undoes a late request is sent twice.
func (n *handling) clears() { n.Rest(250*time.Millisecond + 4*n.Trip() + 2*n.late) }

// step does one thing with the lock.
func (n *handling) step() {
	if len(n.leases) == 0 {
		n.begin()
		return
	}
	e := n.leases[n.Random.IntN(len(n.leases))]
	if n.Plan.Quorum() && n.OneIn(4) { // a majority is enough
		silent, d := n.OneIn(2), n.UpTo(2*time.Second)
		for _, p := range n.partners {
			if last := len(p.links) - 1; silent {
				n.Net.Call(func() { p.links[last].Set(wire.Silent, d) })
			} else {
				p.cutsOff(last, d)
			}
		}
	}
	if n.OneIn(4) { // the client sends it again
		n.spare()
		n.late = sent/3 + 20*time.Millisecond
		n.partners[n.Random.IntN(2)].meets(n.name, append(resent, wire.ArrivesLate)[n.Random.IntN(3)], n.UpTo(sent/2))
	}
	switch n.Random.IntN(10) {
	case 0, 1, 2:
		n.begin()
	case 3, 4:
		do, look := n.extension(e)
		do()
		look()
	case 5:
		n.forget(e)
		n.releases(e)
	case 6:
		n.moves(e)
	case 7:
		if n.writes && !e.reads && n.OneIn(2) {
			n.reads(e)
			return
		}
		n.Rest(n.UpTo(2 * time.Second))
	case 8:
		n.wants()
	default: // while one is extended, perhaps the same
		do, look := n.extension(n.leases[n.Random.IntN(len(n.leases))])
		var done sync.WaitGroup
		done.Go(do)
		if n.OneIn(2) {
			n.Rest(n.UpTo(n.Trip()))
		}
		if n.OneIn(2) {
			n.forget(e)
			n.releases(e)
		} else {
			n.moves(e)
		}
		done.Wait()
		look()
	}
}

// forget removes a lease from those that are checked.
func (n *handling) forget(e *handledLease) {
	n.leases = slices.DeleteFunc(n.leases, func(one *handledLease) bool { return one == e })
}

// end may end all leases by force, or those of one client by closing it. It reports whether it has
// left any in Redis.
func (n *handling) end() (left bool) {
	n.spare()
	ended := n.leases
	switch n.Random.IntN(4) {
	case 0:
		if n.Plan.Cluster || n.Plan.Quorum() { // where a holder that has never waited for a name is not told at once that it is taken
			return false
		}
		if _, err := n.Client.ForceRelease(n.Ctx, n.name, redlatch.ForceOptions{}); err != nil {
			return false
		}
		n.Rest(8*n.Trip() + 2*n.late)
	case 1:
		p := n.partners[0]
		ended = slices.DeleteFunc(slices.Clone(ended), func(e *handledLease) bool { return e.of != p })
		_ = p.Close()
		left = len(ended) > 0
	default:
		return false
	}
	for _, e := range ended {
		n.Wantf(!e.Held() && e.Err() != nil, "a %s is held after a force, or after its client was closed", n.kind)
		n.Wantf(isOver(e.Context().Done()), "the context of a %s goes on after a force, or after its client was closed", n.kind)
		e.until = time.Unix(0, 1)
	}
	return left
}

// spare cancels the mishaps that have not happened.
func (n *handling) spare() {
	for _, p := range n.partners {
		p.spare()
	}
}

// releases releases a lease.
func (n *handling) releases(e *handledLease) {
	due := e.dueIn(n.late)
	err := e.Release(context.Background())
	n.Wantf(err == nil || !due, "the release of a %s: %v", n.kind, err)
}

// terms draws the terms of a lease.
func (n *handling) terms() redlatch.LockOptions {
	o := redlatch.LockOptions{TTL: 900*time.Millisecond + n.UpTo(2*time.Second)}
	if n.OneIn(2) {
		o.Renew = redlatch.Off
	}
	if n.lingers {
		o.StrictOrder, o.Linger = redlatch.Off, time.Millisecond+n.UpTo(o.TTL/3-time.Millisecond)
	} else if n.OneIn(3) {
		o.MaxHold = o.TTL/2 + n.UpTo(2*time.Second)
	}
	return o
}

// begin makes a client take the lock once more, if there is room: mostly on the same terms.
func (n *handling) begin() {
	if n.room > 0 && len(n.leases) >= n.room {
		return
	}
	e, o := &handledLease{of: n.partners[n.Random.IntN(2)]}, n.usual
	if n.OneIn(3) {
		o = n.terms()
	}
	e.ttl = o.TTL
	on := n.enter(e.of.Client, o)
	begun := time.Now()
	l, err := on.try(n.owned())
	if errors.Is(err, redlatch.ErrTaken) && n.kind != "reentrant" { // a lease or a waiter is over for its client, and not yet for Redis
		n.clears()
		begun = time.Now()
		l, err = on.try(n.owned())
	}
	n.wantDone(err, "a try of a %s that has room", n.kind)
	if err != nil {
		return
	}
	if o.Renew == redlatch.Off {
		e.until = begun.Add(e.ttl * 85 / 100)
	}
	if o.MaxHold > 0 {
		e.bound, e.last = begun.Add(o.MaxHold*97/100), time.Now().Add(o.MaxHold+o.TTL)
	}
	e.begins(l)
	n.leases = append(n.leases, e)
}

// begins notes the lease that a client has from now on.
func (e *handledLease) begins(l *redlatch.Lease) {
	e.Lease, e.token, e.latest, e.least = l, l.Token(), l.Deadline(), time.Time{}
	e.wanted, e.watched = l.Wanted(), time.Now()
}

// extension returns a function that extends a lease, for its TTL or for a time of its own, and one
// that checks the result.
func (n *handling) extension(e *handledLease) (do, look func()) {
	l, d, due := e.Lease, e.ttl, e.dueIn(n.late)
	extend := l.Extend
	if n.OneIn(2) {
		d = 50*time.Millisecond + n.UpTo(10*time.Second)
		if n.Plan.Quorum() { // there, no lease is longer than its TTL
			d = min(d, e.ttl)
		}
		extend = func(ctx context.Context) error { return l.ExtendTo(ctx, d) }
	} else if n.OneIn(3) {
		d = n.UpTo(e.ttl*9/10 - 5*n.Trip())
		extend = func(ctx context.Context) error { return l.Ensure(ctx, d) }
	}
	var begun time.Time
	var err error
	do = func() {
		begun = time.Now()
		err = extend(n.Ctx)
	}
	return do, func() {
		if l != e.Lease || !errors.As(l.Err(), new(*redlatch.LostError)) && !l.Held() { // it was detached, or released
			return
		}
		n.Wantf(err == nil || !due || !e.bound.IsZero() && errors.Is(err, redlatch.ErrMaxHold), "an extend of a %s to %v: %v", n.kind, d, err)
		until := begun.Add(d * 97 / 100)
		if err == nil && until.After(e.least) {
			e.least = until
		}
		if err == nil && !e.until.IsZero() && until.After(e.until) {
			e.until = until
		}
	}
}

// moves detaches a lease, and adopts it after a while.
func (n *handling) moves(e *handledLease) {
	due, left := e.dueIn(n.late), e.Remaining()
	text, err := e.Detach(n.Ctx)
	n.Wantf(err == nil || !due, "Detach of a %s: %v", n.kind, err)
	if err != nil {
		n.forget(e)
		n.releases(e)
		return
	}
	rest := n.UpTo(max(left-4*n.Trip(), time.Millisecond))
	n.Rest(rest)
	e.of = n.partners[n.Random.IntN(2)]
	o, begun := redlatch.LockOptions{TTL: e.ttl, Renew: redlatch.Off}, time.Now()
	l, err := e.of.Adopt(n.Ctx, text, o)
	n.Wantf(err == nil || !due || left-rest < 8*n.Trip()+n.late, "Adopt of a %s after %v of %v: %v", n.kind, rest, left, err)
	if err != nil {
		n.forget(e)
		return
	}
	n.Wantf(e.token == l.Token() || l.Token() == 0, "a %s is adopted with token %d, and had %d", n.kind, l.Token(), e.token)
	e.until, e.bound = begun.Add(e.ttl*85/100), time.Time{}
	e.begins(l)
}

// reads makes a writer become a reader.
func (n *handling) reads(e *handledLease) {
	due, begun := e.dueIn(n.late), time.Now()
	l, err := e.of.RWMutex(n.name).Downgrade(n.Ctx, e.Lease)
	n.Wantf(err == nil || !due, "Downgrade: %v", err)
	if err != nil {
		return
	}
	e.begins(l)
	e.reads, e.ttl, e.bound = true, ofPatient, time.Time{}
	e.until = begun.Add(e.ttl * 85 / 100)
}

// wants makes another client wait for the lock. All holders are told.
func (n *handling) wants() {
	if len(n.leases) < n.full {
		return
	}
	ctx, giveUp := context.WithCancel(n.Ctx)
	w := n.sharable.waits(ctx, n.Client)
	since := time.Now()
	n.Rest(12*n.Trip() + n.late)
	waits := !n.Plan.Quorum() && !isOver(w.ended) // the holders of a quorum are not told
	for _, e := range n.leases {
		if waits && e.due() && since.Sub(e.watched) > 4*n.Trip()+n.late {
			n.Wantf(isOver(e.wanted), "the holder of a %s is not told that it is waited for", n.kind)
		}
	}
	giveUp()
	w.release()
	for _, e := range n.leases { // for the next waiter
		e.wanted, e.watched = e.Wanted(), time.Now()
	}
}

// look checks that each lease is held for as long as it was promised. Redis keeps the lock for as long as
// the longest lease. The context of a lease that has ended is done.
func (n *handling) look() {
	var leases []*redlatch.Lease
	due := 0
	for _, e := range n.leases {
		leases = append(leases, e.Lease)
		left := e.Remaining()
		if promised := max(time.Until(e.until), time.Until(e.least), 0); left > 0 {
			n.Wantf(left >= promised-n.Trip() || !e.due(), "%v are left of a %s that has to be held for another %v", left, n.kind, promised)
		}
		n.Wantf(!e.due() || left > 0, "a %s that has to be held is not: %v", n.kind, e.Err())
		n.Wantf(left == 0 || e.bound.IsZero() || time.Now().Before(e.last), "a %s is held that has reached its MaxHold long ago", n.kind)
		n.Wantf(left > 0 || e.bound.IsZero() || !e.until.IsZero() || lostBy(e.Err(), redlatch.LossMaxHold), "a %s that is renewed ends before its MaxHold: %v", n.kind, e.Err())
		if e.due() {
			due++
		}
		if left > 0 {
			e.latest = e.Deadline()
		} else {
			n.Wantf(time.Since(e.latest) < 20*time.Millisecond || isOver(e.Context().Done()), "the context of a %s goes on that ended %v ago", n.kind, time.Since(e.latest))
		}
	}
	n.wantKept("after a step", leases...)
	if due < n.full {
		return
	}
	l, err := n.try(n.Client)
	if err == nil {
		held := 0
		for _, e := range n.leases {
			if e.Held() {
				held++
			}
		}
		n.Alwaysf(held < n.full, "a %s that is full is taken once more", n.kind)
		drop(l)
		return
	}
	n.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a %s that is full: %v", n.kind, err)
}
