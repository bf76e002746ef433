package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// How long a try asks the client that may only keep a lock, and how often at first. Each pause is
// twice as long as the one before.
const (
	askFor   = 100 * time.Millisecond
	askPause = 250 * time.Microsecond
)

// takeKept returns the next lease on a lock that this client keeps; nil if it keeps none.
func (a *attempt) takeKept(ctx context.Context) (*lease.Lease, error) {
	g, ok := a.by.Keeper.TakeKept(a.Lock)
	if !ok {
		return nil, nil
	}
	got, err := a.begin(ctx, g)
	if errors.Is(err, fault.ErrTooLate) {
		a.owner = a.by.Owner()
		return nil, nil
	}
	if err == nil && a.group != nil {
		a.group.MarkAnswered() // Redis did, at the acquisition: those that wait here are not cut off
	}
	return got, err
}

// wishToKeep marks the acquisition that is about to be sent as one that may be kept later: its
// owner says so, and it takes more tokens. It does nothing while the client could not be asked for
// the lock, or if the lock was asked for lately.
func (a *attempt) wishToKeep() {
	session := a.by.Listener.Plain().Session()
	if session == 0 {
		a.by.Listener.Start()
		return
	}
	n := a.by.Habits.Take(a.Keys.State())
	if n == 0 {
		return
	}
	a.Lock, a.owner, a.hearing = a.WithTokens(n), script.MayKeep(a.owner), session
}

// directly returns the grant g, which came with this answer to the acquisition or later. It marks a grant
// that Redis gave at once as one that may be kept: no waiter was in line, and those that come later ask.
func (a *attempt) directly(s script.Standing, answer ask.Answer, g lock.Grant) lock.Grant {
	switch {
	case a.hearing == 0 || g.Owner != a.owner:
	case s.Inside && !answer.Resent && !g.Resent && a.Kind == script.RWMutex: // whose answer tells no more
		g.Hearing, g.Spare = a.hearing, a.Spare()
	case s.Inside && s.Anew && !answer.Resent && !g.Resent:
		g.Hearing = a.hearing
	default: // others want it
		a.by.Habits.Asked(a.Keys.State(), linger.MaxBlock)
	}
	return g
}

// KeepNoMore has the lock of an owner go back to Redis when it is released: a reader is about to
// come in under that owner. If the client kept the lock, the next lease would overlap that reader.
func (c *Acquirer) KeepNoMore(ctx context.Context, l *lock.Lock, owner string) error {
	if !script.Kept(owner) {
		return nil
	}
	if client, _ := script.OwnerClient(owner); client == l.Client {
		c.Keeper.Asked(owner, false)
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, c.Timeout/3)
	defer cancel()
	why := "did not answer"
	for pause := askPause; ; pause *= 2 {
		keeper, err := c.Line.Ask(asking, l, owner, true)
		switch {
		case err != nil && asking.Err() != nil && ctx.Err() == nil: // its own time, not the caller's
			return c.Asker.Failed(l.Subject, "acquire", fmt.Errorf("%w: the client of %q %s", fault.ErrUnreachable, owner, why))
		case err != nil:
			return err
		case keeper == script.KeeperDeaf:
			why = "does not listen" // its connection may be about to be back
		case keeper != script.KeeperTold: // its program is inside, and keeps nothing after that; or it is gone
			return nil
		}
		retry.Sleep(asking, pause)
	}
}

// askable reports whether a try found the lock taken by an owner whose client may only keep it, and
// no waiter before it. If the lock is in use here, the client must not ask itself: it would mistake
// itself for another that wants the lock.
func (a *attempt) askable() bool {
	return a.first && script.Kept(a.occupant.Owner) && a.by.Keeper.Of(a.occupant.Owner) == nil
}

// tryAgain is try for a second request, which gets what is left of the time that a try may take.
func (a *attempt) tryAgain(ctx context.Context) (*lease.Lease, error) {
	bounded, cancel := a.within(ctx)
	defer cancel()
	got, err := a.try(bounded)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // its own time, not the caller's
		err = a.failed("acquire", fmt.Errorf("%w within %v", fault.ErrUnreachable, a.by.Timeout))
	}
	return got, err
}

// tryKept goes on with a try of a lock that is askable: it asks the client that may only keep the
// lock, until that client gives it back, or says that its program is inside. A lock that it has
// given back is tried like any other. taken is the error of the try.
func (a *attempt) tryKept(ctx context.Context, taken error) (*lease.Lease, error) {
	trip := a.by.Now().Since(a.since)
	limit := min(max(askFor, 6*trip), a.by.Timeout/3) // or a try would take longer than it may
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if a.Kind == script.RWMutex { // all at once: many may keep it, and each answer takes round trips
		a.by.Line.AskReaders(asking, a.Lock)
	}
	for pause := askPause; ; pause *= 2 {
		keeper, err := a.by.Line.Ask(asking, a.Lock, a.occupant.Owner, true)
		switch {
		case err == nil && keeper == script.KeeperUses:
			return nil, taken
		case err == nil && keeper == script.KeeperDeaf:
			return nil, fmt.Errorf("%w; its client may only keep it, and does not listen", taken)
		case err == nil && keeper == script.KeeperTold:
			retry.Sleep(asking, pause)
		case err == nil: // the owner is gone
			a.owner, a.occupant = a.by.Owner(), lock.Occupant{}
			var got *lease.Lease
			if got, err = a.tryAgain(ctx); !errors.Is(err, fault.ErrTaken) || !a.askable() {
				return got, err
			}
			taken = err
		}
		switch over := fault.WhyDone(ctx); {
		case over != nil:
			return nil, a.failed("acquire", over)
		case asking.Err() != nil:
			return nil, fmt.Errorf("%w; its client may only keep it, and did not answer within %v", taken, limit)
		case err != nil && !errors.Is(err, fault.ErrTaken):
			return nil, err
		}
	}
}
