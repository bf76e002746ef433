package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// failed wraps err with what was asked of which lock and server.
func (a *attempt) failed(op string, err error) error { return a.by.Asker.Failed(a.Subject, op, err) }

// taken returns the error that says that there is no room.
func (a *attempt) taken() error { return a.by.Taken(a.Lock, a.occupant) }

// bounded is ctx for a wait that begins now.
func (a *attempt) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.Waiting.Most > 0 {
		return context.WithTimeoutCause(ctx, a.Waiting.Most, fault.WaitOver(cmp.Or(a.most, a.Waiting.Most)))
	}
	return ctx, func() {}
}

// tooLate is the error for the program of a grant that came too late and is not waited for again.
func (a *attempt) tooLate(err error) error {
	if errors.Is(err, fault.ErrTooLate) {
		return a.failed("acquire", fmt.Errorf("%w before the lease was over again", fault.ErrUnreachable))
	}
	return err
}

// describeTimeout adds to the error of a wait that ran out of time what it waited for, if Redis
// ever said that there is something to wait for. An outage while waiting is told, too. An
// acquisition that was granted at once and is given back, since its context ended, waited for
// nothing.
func (a *attempt) describeTimeout(ctx context.Context, err error) error {
	if ctx.Err() == nil || !a.answered || !a.patient {
		return err
	}
	occupant, outage := a.by.Line.Status(a.Lock)
	if occupant != (lock.Occupant{}) {
		a.occupant = occupant
	}
	waited := a.by.Now().Since(a.start).Round(time.Millisecond)
	err = fmt.Errorf("%w after waiting %v: %w", err, waited, a.taken())
	if outage != nil {
		err = fmt.Errorf("%w; meanwhile: %w", err, cmp.Or(errors.Unwrap(outage), outage)) // which names the lock again
	}
	return err
}
