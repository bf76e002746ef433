package lease

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A lock that its program is done with may stay with the client for a while (LockOptions.Linger).
// Its lease is then kept: released for the program, but still inside in Redis.
//
//	held -- Release --> kept -- TakeKept --> released; a new lease has its owner, and the next token
//	                     |
//	                     |   Linger has passed
//	                     |   Asked: another client wants it
//	                     |   DropKept: messages may have been missed, or the client closes
//	                     v
//	                  released, and released in Redis, in the background
//
// The owner of such a lock ends in a mark (script.Kept). Clients that find the lock taken by such
// an owner ask the client of that owner for it (line/askkeeper.go, lua/ask.lua). That client hears the
// question in engine/hear.go (MessageAsked), which calls Asked.
//
// The lock is kept only if the client would have heard every such question: its subscription has
// been up since before the acquisition was sent; no waiter was in line when Redis granted it; and
// every request was answered.

// noted is how long a lease is kept before the client notes that in Redis.
const noted = time.Second

func shelfKeyOf(l *lock.Lock) shelfKey { return shelfKey{l.Keys.State(), l.Mode()} }

// keep keeps a lease that has just been given up. was is its state before. It reports false if the
// lease has to go back to Redis instead.
func (l *Lease) keep(was state, now clock.Reading) bool {
	k := l.keeper
	if l.hearing == 0 || l.lock.Linger == 0 {
		return false
	}
	l.mu.Lock()
	l.keptSince = now.Time()
	if l.tokens == 0 {
		k.spent(l)
	}
	if l.tokens == 0 || was != held || l.resent || l.long() || l.keptFor() <= 0 || !k.mayShelve(l) {
		l.mu.Unlock()
		return false
	}
	l.state = kept
	defer l.shelve() // only now: before the hook knows of the release, none may take the lease up
	l.unlock(lock.Event{What: lock.Released, HeldFor: now.Since(l.acquired), Kept: true})
	return true
}

// shelve puts a lease that is kept on the shelf, or gives it back if it was asked for since. Then it lets
// the next goroutine of the group go on, which finds it there.
func (l *Lease) shelve() {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.detachLocked()
	}()
	l.mu.Lock()
	if !l.keeper.shelve(l) {
		l.giveBackLocked()
		return
	}
	l.keeper.Schedule.Set(&l.entry, l.keptSince.Add(min(l.keptFor(), noted)), 0)
	l.mu.Unlock()
}

// keptFor returns how long a lease may be kept from keptSince on: the holder that takes it up has
// at least a third of its time. If an extend is due then, the watchdog sends it at once. The caller
// holds l.mu.
func (l *Lease) keptFor() time.Duration {
	return min(l.lock.Linger, l.sentAt.Time().Add(l.validity()*2/3).Sub(l.keptSince))
}

// spent notes that all tokens of a lease were used, unless another client has asked for it: then
// the next one would be asked for again, the sooner the more tokens it has.
func (k *Keeper) spent(l *Lease) {
	k.mu.Lock()
	asked := k.askedForLocked(l)
	k.mu.Unlock()
	if !asked {
		k.Habits.Spent(l.lock.Keys.State())
	}
}

// askedForLocked reports whether another client has asked for a lease. The client may have done so
// before the lease began, or while its release is under way and the keeper does not know the lease.
// The caller holds k.mu.
func (k *Keeper) askedForLocked(l *Lease) bool { return l.asked || k.shelf.asked.Has(l.owner) }

// shelve puts a lease on the shelf, unless another client has asked for it, or could not. The caller
// holds l.mu.
//
// It checks with k.mu held whether the client listens and is open. Before that, DropKept could find
// the shelf still empty, and the lease would stay there: after Close, until it runs out in Redis.
func (k *Keeper) shelve(l *Lease) bool {
	key := shelfKeyOf(l.lock)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.fitsLocked(l) {
		return false
	}
	if k.shelf.byLock == nil {
		k.shelf.byLock, k.shelf.byOwner = make(map[shelfKey]*Lease), make(map[string]*Lease)
	}
	k.shelf.byLock[key], k.shelf.byOwner[l.owner] = l, l
	return true
}

// mayShelve reports whether shelve would put a lease on the shelf by now.
func (k *Keeper) mayShelve(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fitsLocked(l)
}

// fitsLocked reports whether a lease may be put on the shelf. The caller holds k.mu.
func (k *Keeper) fitsLocked(l *Lease) bool {
	return k.shelf.byLock[shelfKeyOf(l.lock)] == nil && !k.askedForLocked(l) && !k.early.Has(l.owner) &&
		k.Closing.Err() == nil && l.hearing == k.Listener.Plain().Session()
}

// unshelveLocked takes a lease off the shelf. The caller holds k.mu.
func (k *Keeper) unshelveLocked(l *Lease) {
	if k.shelf.byOwner[l.owner] == l {
		delete(k.shelf.byLock, shelfKeyOf(l.lock))
		delete(k.shelf.byOwner, l.owner)
	}
}

// TakeKept returns the grant of the next lease on a lock that is kept. It reports false if the lock is
// not kept, or was acquired on other terms.
func (k *Keeper) TakeKept(on *lock.Lock) (g lock.Grant, ok bool) {
	l := k.unshelveFor(on)
	if l == nil {
		return g, false
	}
	l.mu.Lock()
	if l.state != kept { // another goroutine was first, or it goes back to Redis
		l.mu.Unlock()
		return g, false
	}
	if l.hearing != k.Listener.Plain().Session() {
		l.giveBackLocked()
		return g, false
	}
	l.state = released
	k.Schedule.Remove(&l.entry)
	k.Ended(l.owner) // or it would be noted as kept
	defer func() {
		if !ok { // the hook panicked, and no program will have the lock
			l.mu.Lock()
			defer l.mu.Unlock()
			l.undoLocked(0)
		}
	}()
	l.unlock(lock.Event{What: lock.Unkept})
	left := int(l.tokens) - 1
	return lock.Grant{
		Owner: l.owner, Token: l.token + 1, Spare: left, Run: left, Detail: l.detail,
		Sent: l.sentAt, TTL: l.ttl, Passed: true, Kept: true, Hearing: l.hearing,
	}, true
}

// unshelveFor takes the lease of a lock off the shelf and returns it; nil if there is none, or one that
// was acquired on other terms.
func (k *Keeper) unshelveFor(on *lock.Lock) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.shelf.byLock[shelfKeyOf(on)]
	if l == nil || l.lock.Terms != on.Terms {
		return nil
	}
	k.unshelveLocked(l)
	return l
}

// giveBack releases a lease that is kept, in the background.
func (l *Lease) giveBack() {
	l.keeper.mu.Lock()
	l.keeper.unshelveLocked(l)
	l.keeper.mu.Unlock()
	l.mu.Lock()
	if l.state != kept {
		l.mu.Unlock()
		return
	}
	l.giveBackLocked()
}

// giveBackLocked is giveBack for a lease that is kept, and not on the shelf. The caller holds l.mu,
// which giveBackLocked releases.
func (l *Lease) giveBackLocked() {
	k := l.keeper
	l.state = released
	k.Schedule.Remove(&l.entry)
	k.Ended(l.owner)
	defer l.unlock(lock.Event{What: lock.Unkept})
	sends := k.Go(func() {
		answer, err := k.Asker.Ask(k.Closing, l.lock.Subject, "release", l.releasing(""))
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil || answer.Resent {
			l.undoLocked(0)
		}
		l.remember(k.Now())
	})
	if !sends { // the client closes, and its clean-up is sent last
		l.undoLocked(0)
	}
}

// lingered gives back a lease that was kept for long enough. A lease that has been kept for a while
// is noted, so that an operator can tell it from one that is held.
func (l *Lease) lingered(now time.Time) {
	l.mu.Lock()
	if l.state != kept {
		l.mu.Unlock()
		return
	}
	until := l.keptSince.Add(l.keptFor())
	over := !now.Before(until)
	if !over {
		l.keeper.Schedule.Set(&l.entry, until, 0)
		if now.Sub(l.keptSince) >= noted { // the schedule hands over all when the clocks diverge
			l.keeper.Kept(l.owner, l.keptSince)
		}
	}
	l.mu.Unlock()
	if over {
		l.keeper.Habits.Calm(l.lock.Keys.State())
		l.giveBack()
	}
}

// TellOwner is NamedOwner for the program, which may give the owner to another process. A
// read-write mutex is no longer kept then: a reader that enters under that owner, however late,
// would be inside along with the next lease.
func (l *Lease) TellOwner() string {
	if l.hearing != 0 && l.lock.Kind == script.RWMutex {
		l.keeper.Asked(l.owner, false)
	}
	return l.NamedOwner()
}

// Asked notes that another client asks for the lock of this owner. A lease that is only kept is
// given back. A lease that is held goes back to Redis when it is released. again says that the
// other client waits for an answer: it is told so.
func (k *Keeper) Asked(owner string, again bool) {
	if !script.Kept(owner) { // any program may publish
		return
	}
	k.mu.Lock()
	first := !k.shelf.asked.Has(owner)
	k.shelf.asked.Add(owner) // its lease may begin later
	onShelf, l := k.shelf.byOwner[owner], k.byOwner[owner]
	if onShelf != nil {
		l = onShelf
		k.unshelveLocked(l) // at once, or it could be taken up before it is given back
	}
	if l != nil {
		l.asked = true
	}
	k.mu.Unlock()
	if l == nil {
		return
	}
	if first {
		k.Habits.Asked(l.lock.Keys.State(), int(l.tokens))
	}
	switch {
	case onShelf != nil:
		k.apart(l.giveBack)
	case again:
		l.answerUsed()
	}
}

// apart runs f on a goroutine of its own, or in place if the client closes: a hook that f calls
// must not hold up messages to others.
func (k *Keeper) apart(f func()) {
	if !k.Go(f) {
		f()
	}
}

// answerUsed tells the clients that ask, in the background, that the program is inside.
func (l *Lease) answerUsed() {
	k := l.keeper
	k.Go(func() {
		ctx, cancel := context.WithTimeout(k.Closing, k.Timeout)
		defer cancel()
		l.sayUsed(ctx)
	})
}

// sayUsed notes in Redis that the program is inside. An error does not matter: the clients that ask
// for the lock ask again, or give up.
func (l *Lease) sayUsed(ctx context.Context) {
	l.mu.Lock()
	remember := max(l.leftInRedis(), l.lock.TTL)
	l.mu.Unlock()
	_, _ = l.keeper.Asker.Ask(ctx, l.lock.Subject, "answer for", l.lock.Kind.Used(l.lock.Keys, l.owner, remember))
}

// DropKept gives back all that is kept: a question may have been missed, or the client closes.
func (k *Keeper) DropKept() {
	k.mu.Lock()
	all := slices.Collect(maps.Values(k.shelf.byOwner))
	k.mu.Unlock()
	if len(all) > 0 {
		k.apart(func() {
			for _, l := range all {
				defer l.giveBack() // also those after one at which a hook panics
			}
		})
	}
}
