package scenes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// entry is an entry of an owner into a reentrant mutex.
type entry struct {
	lease   *redlatch.Lease
	of      *partner
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
	n := &nesting{player: a, name: a.scene("dead"), partners: [2]*partner{a.meets(patient), a.meets(patient)}}
	for _, p := range n.partners {
		defer func() { _ = p.Close() }()
	}
	for range 4 + a.Random.IntN(10) {
		if !a.Harmless() {
			break
		}
		n.step()
		n.look()
	}
	left := n.end()
	for _, e := range n.entries {
		n.releases(e)
	}
	a.Rest(250*time.Millisecond + 4*a.Trip() + 2*n.late) // Redis keeps a lease a bit longer than its client believes
	if a.Harmless() && !left {
		a.wantFreeNow(sharables(n.name)[1])
		a.Wantf(a.kept("redlatch:"+n.name) == 0, "a reentrant mutex is kept when all entries are released")
	}
}

// nesting is a reentrant mutex in the scene nested.
type nesting struct {
	*player
	name     string
	partners [2]*partner
	entries  []*entry
	late     time.Duration // how long an answer may take, since a request met a mishap
}

// inside is the context of the owner.
func (n *nesting) inside() context.Context { return redlatch.WithOwner(n.Ctx, n.name) }

// step does one thing with the mutex.
func (n *nesting) step() {
	if len(n.entries) == 0 {
		n.enter()
		return
	}
	e := n.entries[n.Random.IntN(len(n.entries))]
	if n.OneIn(4) { // the client sends it again
		n.spare()
		n.late = sent/3 + 20*time.Millisecond
		n.partners[n.Random.IntN(2)].meets(n.name, []wire.MishapHow{wire.RequestLost, wire.ReplyLost, wire.ArrivesLate}[n.Random.IntN(3)], n.UpTo(sent/2))
	}
	switch n.Random.IntN(10) {
	case 0, 1, 2:
		n.enter()
	case 3, 4:
		n.extension(e)()
	case 5:
		n.entries = slices.DeleteFunc(n.entries, func(one *entry) bool { return one == e })
		n.releases(e)
	case 6:
		if !n.moves(e) {
			n.entries = slices.DeleteFunc(n.entries, func(one *entry) bool { return one == e })
		}
	case 7:
		n.Rest(n.UpTo(2 * time.Second))
	case 8:
		n.wants()
	default: // during an extend of another
		if other := n.entries[n.Random.IntN(len(n.entries))]; other != e {
			done, extend := make(chan struct{}), n.extension(other)
			go func() {
				defer close(done)
				extend()
			}()
			if n.OneIn(2) {
				n.Rest(n.UpTo(n.Trip()))
			}
			n.entries = slices.DeleteFunc(n.entries, func(one *entry) bool { return one == e })
			if n.OneIn(2) {
				n.releases(e)
			} else if n.moves(e) {
				n.entries = append(n.entries, e)
			}
			<-done
		}
	}
}

// end may end all entries, or those of one client, in a way that is not theirs. It reports whether it
// has left entries in Redis.
func (n *nesting) end() (left bool) {
	n.spare()
	ended := n.entries
	switch n.Random.IntN(4) {
	case 0:
		if n.Plan.Cluster { // where a holder that has never waited for a name is not told at once that it is taken
			return false
		}
		if _, err := n.Client.ForceRelease(n.Ctx, n.name, redlatch.ForceOptions{}); err != nil {
			return false
		}
		n.Rest(8*n.Trip() + 2*n.late)
	case 1:
		p := n.partners[0]
		ended = slices.DeleteFunc(slices.Clone(ended), func(e *entry) bool { return e.of != p })
		_ = p.Close()
		left = len(ended) > 0
	default:
		return false
	}
	for _, e := range ended {
		n.Wantf(!e.lease.Held() && e.lease.Err() != nil, "an entry is held after a force, or after its client was closed")
		select {
		case <-e.lease.Context().Done():
		default:
			n.Wantf(false, "the context of an entry goes on after a force, or after its client was closed")
		}
		e.until = time.Unix(0, 1)
	}
	return left
}

// spare takes back the mishaps that have not happened.
func (n *nesting) spare() {
	for _, p := range n.partners {
		p.spare()
	}
}

// releases releases an entry.
func (n *nesting) releases(e *entry) {
	due := e.due()
	err := e.lease.Release(context.Background())
	n.Wantf(err == nil || !due, "the release of an entry: %v", err)
}

// enter has the owner enter once more.
func (n *nesting) enter() {
	e := &entry{ttl: 900*time.Millisecond + n.UpTo(3*time.Second), of: n.partners[n.Random.IntN(2)]}
	o := redlatch.LockOptions{TTL: e.ttl}
	if n.OneIn(2) { // on the terms of others
		o.TTL = 2 * time.Second
		e.ttl = o.TTL
	}
	if n.OneIn(2) {
		o.Renew = redlatch.Off
	}
	m, begun := e.of.ReentrantMutex(n.name).With(o), time.Now()
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

// extension returns a function that extends an entry, for its TTL or for a time of its own.
func (n *nesting) extension(e *entry) func() {
	d, extend := e.ttl, e.lease.Extend
	if n.OneIn(2) {
		d = 50*time.Millisecond + n.UpTo(10*time.Second)
		extend = func(ctx context.Context) error { return e.lease.ExtendTo(ctx, d) }
	}
	return func() {
		due, begun := e.due(), time.Now()
		err := extend(n.Ctx)
		n.Wantf(err == nil || !due, "an extend to %v: %v", d, err)
		if until := begun.Add(d * 97 / 100); err == nil && !e.until.IsZero() && until.After(e.until) {
			e.until = until
		}
	}
}

// moves detaches an entry, and adopts it after a while. It reports whether the entry is held again.
func (n *nesting) moves(e *entry) bool {
	due, left := e.due(), e.lease.Remaining()
	text, err := e.lease.Detach(n.Ctx)
	n.Wantf(err == nil || !due, "Detach of an entry: %v", err)
	if err != nil {
		return false
	}
	rest := n.UpTo(max(left-4*n.Trip(), time.Millisecond))
	n.Rest(rest)
	e.of = n.partners[n.Random.IntN(2)]
	o, begun := redlatch.LockOptions{TTL: e.ttl, Renew: redlatch.Off}, time.Now()
	l, err := e.of.Adopt(n.Ctx, text, o)
	n.Wantf(err == nil || !due || left-rest < 8*n.Trip()+n.late, "Adopt of an entry after %v of %v: %v", rest, left, err)
	if err != nil {
		return false
	}
	n.Wantf(e.token == l.Token() || l.Token() == 0, "an entry is adopted with token %d, and had %d", l.Token(), e.token)
	e.until = begun.Add(e.ttl * 85 / 100)
	e.begins(l)
	return true
}

// wants has another owner wait for the mutex. All entries are told.
func (n *nesting) wants() {
	ctx, giveUp := context.WithCancel(redlatch.WithOwner(n.Ctx, n.name+" another"))
	w := waits(func() (*redlatch.Lease, error) { return n.Client.ReentrantMutex(n.name).Lock(ctx) })
	since := time.Now()
	n.Rest(12 * n.Trip())
	for _, e := range n.entries {
		if !e.due() || since.Sub(e.watched) < 4*n.Trip()+n.late {
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
