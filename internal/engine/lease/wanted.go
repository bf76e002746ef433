package lease

import (
	"context"

	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// A holder can ask to be told when a waiter wants the lock, so that long work can stop at a good
// place. The wish is stored in Redis, beside the line; the script that puts a waiter in line finds
// it there and tells the holder's client. A lease without such a wish costs nothing extra. A client
// that only keeps a lock is asked for it in another way: see kept.go.

// Wanted returns a channel that is closed when another acquisition waits for the lock, in any
// process.
func (l *Lease) Wanted() <-chan struct{} {
	l.mu.Lock()
	l = l.leading() // all leases that share its entry have one wish
	first := l.wish == nil
	if first {
		l.wish = make(chan struct{})
	}
	told, group := l.wish, l.group
	l.mu.Unlock()
	if !first {
		return told
	}
	l.keeper.wishes.Store(true) // before the look: a goroutine that joins the group later sees it
	if group != nil && l.keeper.Handoffs.Others(group) > 0 {
		l.tellWanted()
	}
	l.askWanted()
	return told
}

// askWanted asks Redis in the background whether a waiter is in line, and to be told when one
// comes. It does so only if the lease is held and its wish has not come true.
func (l *Lease) askWanted() {
	k := l.keeper
	if !l.lock.Kind.TellsHolders() {
		return
	}
	k.Go(func() {
		k.Listener.ConnectPlain(k.Closing) // which may take all of Timeout where nothing is heard
		ctx, cancel := context.WithTimeout(k.Closing, k.Timeout)
		defer cancel()
		l.mu.Lock()
		l = l.leading() // another may by now
		remember, needed := max(l.leftInRedis(), l.lock.TTL), l.wishing() && l.state <= inJeopardy
		l.mu.Unlock()
		if !needed {
			return
		}
		call := l.lock.Kind.Want(l.lock.Keys, l.owner, k.Listener.Plain().Address(), remember)
		// An error does not matter: the next extend asks again.
		answer, err := k.Asker.Ask(ctx, l.lock.Subject, "ask for the waiters of", call)
		if err == nil && script.Waited(answer.Reply) {
			l.tellWanted()
		}
	})
}

// wishing reports whether the lease wants to be told, and has not been. The caller holds l.mu.
func (l *Lease) wishing() bool { return l.wish != nil && !isClosed(l.wish) }

// tellWanted tells the holder that a waiter wants the lock, if the holder has asked.
func (l *Lease) tellWanted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wishing() {
		close(l.wish)
	}
}

// Wanted tells the lease of an owner that a waiter wants the lock.
func (k *Keeper) Wanted(owner string) {
	if l := k.Of(owner); l != nil {
		l.tellWanted()
	}
}

// TellHolder tells the lease that has the turn of a group that a goroutine of the group waits.
func (k *Keeper) TellHolder(g *handoff.Group) {
	if k.wishes.Load() {
		k.Wanted(g.Holder())
	}
}
