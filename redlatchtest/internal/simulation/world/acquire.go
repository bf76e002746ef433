package world

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// Asks notes that an acquisition begins, and returns its number.
func (a *Actor) Asks(q Acquisition) (op int64) {
	return a.Call(history.Event{
		Type: history.Acquire, Actor: a.Number, Kind: q.Kind, Name: q.Name, Mode: q.Mode, N: q.N, Wait: q.Wait, TTL: int64(q.TTL),
	})
}

// Acquire acquires, works and releases.
func (a *Actor) Acquire(q Acquisition) {
	op := a.Asks(q)
	ctx, cancel := a.Patience()
	if q.Under != nil {
		cancel()
		ctx, cancel = a.patienceUnder(q.Under.Context())
	}
	defer cancel()
	a.tell("%s.%d acquires %s %q, waiting: %t", a.Name, a.Number, q.Kind, q.Name, q.Wait)
	w := Begins(ctx)
	leaves := a.enters(q)
	l, err := a.take(ctx, q)
	leaves()
	a.Ends("acquire", q, w, err)
	a.tell("%s.%d got %s %q: %v, %v", a.Name, a.Number, q.Kind, q.Name, l, err)
	if err != nil {
		a.Refused(op, q, err)
		return
	}
	a.Hold(op, q, l)
}

// take acquires, in some worlds with a hook that panics at a step of the acquisition.
func (a *Actor) take(ctx context.Context, q Acquisition) (l *redlatch.Lease, err error) {
	if a.Plan.startles && a.OneIn(10) {
		ctx = PanicAt(ctx, a.AnyStep())
	}
	err = Startled(func() (err error) {
		l, err = q.Take(ctx)
		return err
	})
	return l, err
}

// Refused notes that an acquisition failed, and checks that its error is possible here.
func (a *Actor) Refused(op int64, q Acquisition, err error) {
	why := history.WhyUnknown
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		why = history.WhyTaken
	case errors.Is(err, redlatch.ErrClosed):
		why = history.WhyClosed
	case errors.Is(err, redlatch.ErrNotHeld):
		why = history.WhyLost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrStartled):
	case errors.Is(err, redlatch.ErrUnreachable), errors.Is(err, redlatch.ErrNotReplicated):
		if a.Plan.Harm == Calm || a.Plan.Harm == crashes {
			a.failUnlessHarmed(err)
		}
	default:
		if !a.RefusedByServer(err) {
			a.Fail("%s.%d: an acquisition of %s %q failed: %v", a.Name, a.Number, q.Kind, q.Name, err)
		}
	}
	a.wantOccupant(q, err)
	a.Note(history.Event{Type: history.Refused, Op: op, Why: why})
	if why == history.WhyUnknown {
		a.Rest(100*time.Millisecond + a.UpTo(200*time.Millisecond))
	}
}
