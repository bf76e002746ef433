package scenes

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
)

// entry is an entry of an owner into a reentrant mutex.
type entry struct {
	lease   *redlatch.Lease
	of      *partner // nil for the actor's own client
	token   int64
	ttl     time.Duration
	until   time.Time // it is held for so long at least; zero if it is renewed
	latest  time.Time // it ends by then unless it is extended, as far as the client has said
	wanted  <-chan struct{}
	watched time.Time // since when wanted is asked for
}

// due reports whether an entry has to be held.
func (e *entry) due() bool { return e.until.IsZero() || time.Now().Before(e.until) }

// nested has an owner enter a reentrant mutex again and again, in two clients, and does with the
// entries whatever a program may do. After each step every entry has what it was promised.
func nested(a *player) {
	defer a.Rest(a.UpTo(time.Second))
	n := &nesting{player: a, name: a.scene("dead"), partner: a.meets(patient)}
	defer func() { _ = n.partner.Close() }()
	for range 4 + a.Random.IntN(10) {
		if !a.Harmless() {
			break
		}
		n.step()
		n.look()
	}
	for _, e := range n.entries {
		due := e.due()
		err := e.lease.Release(context.Background())
		a.Wantf(err == nil || !due, "the release of an entry: %v", err)
	}
	a.Rest(250*time.Millisecond + 4*a.Trip()) // Redis keeps a lease a bit longer than its client believes
	if a.Harmless() {
		a.wantFreeNow(sharables(n.name)[1])
		a.Wantf(a.kept("redlatch:"+n.name) == 0, "a reentrant mutex is kept when all entries are released")
	}
}

// nesting is a reentrant mutex in the scene nested.
type nesting struct {
	*player
	name    string
	partner *partner
	entries []*entry
}

// inside is the context of the owner.
func (n *nesting) inside() context.Context { return redlatch.WithOwner(n.Ctx, n.name) }

// step does one thing with the mutex.
func (n *nesting) step() {
	if len(n.entries) == 0 {
		n.enter()
		return
	}
	i := n.Random.IntN(len(n.entries))
	e := n.entries[i]
	switch n.Random.IntN(9) {
	case 0, 1, 2:
		n.enter()
	case 3:
		n.extends(e, e.ttl, e.lease.Extend)
	case 4:
		d := 50*time.Millisecond + n.UpTo(10*time.Second)
		n.extends(e, d, func(ctx context.Context) error { return e.lease.ExtendTo(ctx, d) })
	case 5:
		due := e.due()
		err := e.lease.Release(context.Background())
		n.Wantf(err == nil || !due, "the release of an entry: %v", err)
		n.entries = append(n.entries[:i], n.entries[i+1:]...)
	case 6:
		n.moves(e)
	case 7:
		n.Rest(n.UpTo(2 * time.Second))
	default:
		n.wants()
	}
}

// enter has the owner enter once more.
func (n *nesting) enter() {
	e := &entry{ttl: 900*time.Millisecond + n.UpTo(3*time.Second)}
	c := n.Client
	if n.OneIn(2) {
		e.of, c = n.partner, n.partner.Client
	}
	o := redlatch.LockOptions{TTL: e.ttl}
	if n.OneIn(2) { // on the terms of others
		o.TTL = 2 * time.Second
		e.ttl = o.TTL
	}
	if n.OneIn(2) {
		o.Renew = redlatch.Off
	}
	m, begun := c.ReentrantMutex(n.name).With(o), time.Now()
	l, err := m.TryLock(n.inside())
	n.Wantf(err == nil, "entering a reentrant mutex: %v", err)
	if err != nil {
		return
	}
	e.begins(l)
	if o.Renew == redlatch.Off {
		e.until = begun.Add(e.ttl * 85 / 100)
	}
	n.entries = append(n.entries, e)
}

// begins gives an entry a lease.
func (e *entry) begins(l *redlatch.Lease) {
	e.lease, e.token, e.latest = l, l.Token(), l.Deadline()
	e.wanted, e.watched = l.Wanted(), time.Now()
}

// extends extends an entry so that d are left at least.
func (n *nesting) extends(e *entry, d time.Duration, extend func(context.Context) error) {
	due, begun := e.due(), time.Now()
	err := extend(n.Ctx)
	n.Wantf(err == nil || !due, "an extend to %v: %v", d, err)
	if until := begun.Add(d * 97 / 100); err == nil && !e.until.IsZero() && until.After(e.until) {
		e.until = until
	}
}

// moves detaches an entry, and adopts it after a while.
func (n *nesting) moves(e *entry) {
	due, left := e.due(), e.lease.Remaining()
	text, err := e.lease.Detach(n.Ctx)
	n.Wantf(err == nil || !due, "Detach of an entry: %v", err)
	if err != nil {
		return
	}
	rest := n.UpTo(max(left*9/10-4*n.Trip(), time.Millisecond))
	n.Rest(rest)
	c := n.Client
	if e.of == nil {
		c = n.partner.Client
	}
	o, begun := redlatch.LockOptions{TTL: e.ttl, Renew: redlatch.Off}, time.Now()
	l, err := c.Adopt(n.Ctx, text, o)
	n.Wantf(err == nil || !due || left < 8*n.Trip(), "Adopt of an entry after %v of %v: %v", rest, left, err)
	if err != nil {
		e.until = time.Unix(0, 1)
		return
	}
	n.Wantf(e.token == l.Token() || l.Token() == 0, "an entry is adopted with token %d, and had %d", l.Token(), e.token)
	if e.of == nil {
		e.of = n.partner
	} else {
		e.of = nil
	}
	e.until = begun.Add(e.ttl * 85 / 100)
	e.begins(l)
}

// wants has another owner wait for the mutex. All entries are told.
func (n *nesting) wants() {
	ctx, giveUp := context.WithCancel(redlatch.WithOwner(n.Ctx, n.name+" another"))
	w := waits(func() (*redlatch.Lease, error) { return n.Client.ReentrantMutex(n.name).Lock(ctx) })
	since := time.Now()
	n.Rest(12 * n.Trip())
	for _, e := range n.entries {
		if !e.due() || since.Sub(e.watched) < 4*n.Trip() {
			continue
		}
		select {
		case <-e.wanted:
		default:
			n.Wantf(false, "an entry is not told that it is waited for")
		}
	}
	giveUp()
	w.release()
	for _, e := range n.entries { // for the next waiter
		e.wanted, e.watched = e.lease.Wanted(), time.Now()
	}
}

// look checks that each entry is held for as long as it was promised, that Redis keeps the mutex for
// as long as the longest, and that an entry which is over says so.
func (n *nesting) look() {
	longest := time.Duration(0)
	for _, e := range n.entries {
		left := e.lease.Remaining()
		longest = max(longest, left)
		if !e.until.IsZero() && left > 0 {
			promised := time.Until(e.until)
			n.Wantf(left >= promised-n.Trip(), "%v are left of an entry that has to be held for another %v", left, promised)
		}
		n.Wantf(!e.due() || left > 0, "an entry that has to be held is not: %v", e.lease.Err())
		if left > 0 {
			e.latest = e.lease.Deadline()
		} else if time.Since(e.latest) > 20*time.Millisecond {
			select {
			case <-e.lease.Context().Done():
			default:
				n.Wantf(false, "the context of an entry goes on that ended %v ago", time.Since(e.latest))
			}
		}
	}
	if longest == 0 {
		return
	}
	if n.Harmless() {
		kept := n.kept("redlatch:" + n.name)
		n.Wantf(kept >= longest*99/100, "a reentrant mutex is kept for %v, and an entry lasts for another %v", kept, longest)
	}
	l, err := n.Client.ReentrantMutex(n.name).TryLock(redlatch.WithOwner(n.Ctx, n.name+" another"))
	if err == nil {
		held := false
		for _, e := range n.entries {
			held = held || e.lease.Held()
		}
		n.Alwaysf(!held, "two owners have a reentrant mutex")
		_ = l.Release(context.Background())
		return
	}
	n.Wantf(errors.Is(err, redlatch.ErrTaken), "a try of a reentrant mutex that another owner has: %v", err)
}
