package line

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// AskKeeper asks the client of this occupant for the lock, in the background, if that client may only
// keep it and the waiter is the first in line. The waiters behind it need not ask. If the message is
// lost, the next poll asks again.
func (ln *Line) AskKeeper(l *lock.Lock, first bool, occupant string) {
	if !first || !script.Kept(occupant) {
		return
	}
	ln.Go(func() {
		ctx, cancel := context.WithTimeout(ln.Closing, max(ln.Heartbeat, time.Second)) // it takes two round trips
		defer cancel()
		if l.Kind == script.RWMutex {
			ln.AskReaders(ctx, l)
			return
		}
		_, _ = ln.Ask(ctx, l, occupant, false)
	})
}

// AskReaders asks the clients of all owners inside a read-write mutex that they may only keep: a writer
// waits for all of them.
func (ln *Line) AskReaders(ctx context.Context, l *lock.Lock) {
	answer, err := ln.Asker.Ask(ctx, l.Subject, "look at", l.Kind.InspectInside(l.Keys))
	if err != nil {
		return
	}
	state, err := script.ParseInspect(answer.Reply)
	if err != nil {
		return
	}
	var calls []conn.Call
	for _, h := range state.Holders {
		if script.Kept(h.Owner) {
			calls = append(calls, ln.asking(l, h.Owner, false))
		}
	}
	if len(calls) > 0 {
		ln.Asker.SendAll(ctx, calls, nil)
	}
}

// asking returns the request that asks the client of this occupant for the lock.
func (ln *Line) asking(l *lock.Lock, occupant string, again bool) conn.Call {
	client, _ := script.OwnerClient(occupant)
	return l.Kind.Ask(l.Keys, occupant, keys.Grants(l.Prefix, client), again)
}

// Ask asks the client of this occupant for the lock, once. again says that the caller does so until it
// has an answer.
func (ln *Line) Ask(ctx context.Context, l *lock.Lock, occupant string, again bool) (script.Keeper, error) {
	answer, err := ln.Asker.Ask(ctx, l.Subject, "ask for", ln.asking(l, occupant, again))
	keeper := script.ParseKeeper(answer.Reply)
	if keeper == script.KeeperDeaf && ln.Conn.Target().Cluster {
		keeper = script.KeeperTold // it may listen at another node
	}
	return keeper, err
}
