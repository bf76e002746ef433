package acquire

import (
	"context"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Reenter enters a reentrant mutex for an owner that this client has inside, without a request. It
// returns nil, and has told nothing, if Redis has to be asked.
func (c *Acquirer) Reenter(ctx context.Context, l *lock.Lock, owner string, depth int) *lease.Lease {
	now := c.Now()
	got, left := c.Keeper.Reenter(ctx, l, owner, depth, attempts.Add(1), now)
	if got == nil {
		return nil
	}
	told := lock.Failed // what is told if the hook panics
	defer func() {
		if told == "" {
			return
		}
		_ = got.Release(ctx) // which tells nothing, nor waits for Redis while another lease has the entry
		c.Tell(ctx, got.Lock(), lock.Event{
			What: told, ID: got.ID(), Owner: got.Owner(), Err: c.Asker.Failed(got.Lock().Subject, "acquire", errPanicked),
		})
	}()
	e := lock.Event{What: lock.Attempt, ID: got.ID(), Owner: got.Owner()}
	c.Tell(ctx, got.Lock(), e)
	told = lock.Released
	e.What, e.Token, e.Remaining = lock.Granted, got.Number(), left
	c.Tell(ctx, got.Lock(), e)
	told = ""
	entered := false
	defer func() {
		if !entered { // the hook panicked at what has become of the lease since
			_ = got.Release(ctx)
		}
	}()
	got.Entered()
	entered = true
	if c.Closing.Err() != nil { // Close may have looked for leases before this one was there
		got.Lose(lock.ReasonClosed)
	}
	return got
}

// tooDeep returns the error of an entry if its owner already has as many entries here as it may.
// Redis has fewer of them, and would let the owner in.
func (a *attempt) tooDeep() error {
	if a.Kind != script.Reentrant {
		return nil
	}
	bound, owner, _ := strings.Cut(a.Param, ":")
	if depth, _ := strconv.Atoi(bound); depth == 0 || a.by.Keeper.Entries(a.Lock, owner) < depth {
		return nil
	}
	return a.by.Refusal(a.Lock, "depth\t"+bound)
}
