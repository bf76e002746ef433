package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// A server that takes over may have an older copy of a lock: one in which an owner is still inside,
// or in line, although the former server answered its release. All would wait for that owner until
// its lease runs out. Its client knows better. So a client remembers what it has released or lost
// lately, and releases it again
//
//   - when its subscription is back, as after a failover or a restart (engine/hear.go: Session);
//   - when a request about the name is answered after an earlier one was not (line/line.go: Request);
//   - when it hears a grant for it, since the ticket was in that copy (engine/hear.go: GrantedAgain).
//
// That is safe: no owner is ever used again.

// maxReleased is how many released leases a client remembers. Replicas usually lag by less time
// than it takes to release that many.
const maxReleased = 128

// past is what a client remembers of a lease. It is not the lease, which would keep the context of the
// program's work alive.
type past struct {
	lock    *lock.Lock
	owner   string
	token   int64
	unused  bool
	lost    bool
	until   time.Time // it has run out by then in any copy
	again   time.Time // when it was released again
	given   bool      // a grant for it is being given back
	cleaned bool      // the clean-up has it
}

// recall is the last leases that a client has released in Redis, as a ring.
type recall struct {
	*Needs

	mu     sync.Mutex // guards what is below
	leases []past
	next   int
}

// remember notes that a lease is not in Redis any more, or that its client goes on releasing it.
//
// It is tempting to note it before that. But the message of its grant may come while the release is
// under way, if a poll has brought the grant first. Of two releases one would find the owner gone,
// and the lease would seem to have been lost.
func (r *recall) remember(p past) {
	if r.Quorum { // whose nodes forget one by one, and rest
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.leases); n > 0 && r.leases[(r.next+n-1)%n].owner == p.owner { // as of all entries that are lost at once
		return
	}
	if len(r.leases) < maxReleased {
		r.leases = append(r.leases, p)
		return
	}
	r.leases[r.next] = p
	r.next = (r.next + 1) % maxReleased
}

// releaseAgain is [Keeper.ReleaseAgain]. It skips leases that have run out by now: many clients may
// release again at once, when a server comes back.
func (r *recall) releaseAgain(key string, rest time.Duration) {
	now := r.Now().Time()
	r.again(r.which(func(p *past) bool {
		due := (key == "" || p.lock.Keys.State() == key) && now.Sub(p.again) >= rest
		if due = due && now.Before(p.until); due {
			p.again = now
		}
		return due
	}))
}

// mayReturn reports whether an older copy of the data may have what this client has released on the
// name with this key.
func (r *recall) mayReturn(key string) bool {
	now := r.Now().Time()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.leases, func(p past) bool { return p.lock.Keys.State() == key && now.Before(p.until) })
}

// grantedAgain is [Keeper.GrantedAgain].
//
// It is tempting to answer each grant with a release. But a server where the client lacks the right
// to remove the ticket answers each release with an error and with the next grant.
func (r *recall) grantedAgain(owner string) (known bool) {
	r.again(r.which(func(p *past) bool {
		if p.owner != owner {
			return false
		}
		due := !p.given && !p.cleaned
		known, p.given = true, p.given || due
		return due
	}))
	return known
}

// again sends the releases of these leases once more, together, in the background. Those that get no
// answer are left to the clean-up.
func (r *recall) again(leases []past) {
	if len(leases) == 0 {
		return
	}
	r.Go(func() {
		calls := make([]conn.Call, len(leases))
		for i, p := range leases {
			calls[i] = r.releasing(p.lock, p.owner, "", p.token, p.unused, p.lost)
		}
		ctx, cancel := context.WithTimeout(r.Closing, r.Timeout/3)
		defer cancel()
		for i, said := range r.Asker.SendAll(ctx, calls, nil) {
			if p := leases[i]; r.answered(p.owner, said.Err) {
				r.Cleanup.AddAnswered(0, calls[i], max(p.until.Sub(r.Now().Time()), r.LiveFor), func() { r.cleanedUp(p.owner) })
			}
		}
	})
}

// answered notes the result of a release, and reports whether to leave it to the clean-up, but only
// once: else the clean-up would have it many times if the connection broke again and again.
func (r *recall) answered(owner string, err error) (leave bool) {
	leave = err != nil
	r.which(func(p *past) bool {
		if p.owner == owner {
			leave = leave && !p.cleaned
			p.given, p.cleaned = false, p.cleaned || leave
		}
		return false
	})
	return leave
}

// cleanedUp notes that the clean-up no longer releases an owner. If a server brings the owner back
// after that, it is released again.
func (r *recall) cleanedUp(owner string) {
	r.which(func(p *past) bool {
		p.cleaned = p.cleaned && p.owner != owner
		return false
	})
}

// which returns the leases that were released lately for which a condition holds.
func (r *recall) which(holds func(*past) bool) (all []past) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.leases {
		if p := &r.leases[i]; holds(p) {
			all = append(all, *p)
		}
	}
	return all
}
