package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// attempt is one acquisition on its way. Its owner names it in Redis, and only it: what a lost
// reply leaves behind is found again, and cleaned up, by that name.
type attempt struct {
	*lock.Lock
	by       *Acquirer
	wish     Wish
	ctx      context.Context // the caller's: parent of the lease's context
	id       uint64          // of its events, and of those of its lease
	owner    string
	past     []string // owners of earlier rounds of a quorum
	start    clock.Reading
	since    clock.Reading  // from then on a try has its time; later than start for one of several names, and for one by force
	patient  bool           // it waits if the lock is taken
	begun    bool           // the hook has been told so
	ended    bool           // the hook has been told that it was granted, or failed
	answered bool           // Redis has said that the lock is taken
	waiting  bool           // the hook has been told so
	placed   bool           // it has had a place in line
	cutOff   bool           // the hook has been told that it cannot reach Redis, and not that it can again
	group    *handoff.Group // for which it acquires the lock; nil if none
	arrival  int64          // the place in line that it takes, or gave up; 0 for a new one
	hearing  uint32         // see lock.Grant
	first    bool           // no other waiter was before it then
	occupant lock.Occupant  // when Redis told last
	most     time.Duration  // MaxWait of an acquisition of several names; 0 for that of the lock

	beside    []*lease.Lease // that it keeps while it waits, beside those of its context
	entangled bool           // entangle has noted its wait
	noted     *notes.Entry   // what it noted; nil if nothing

	unsure      bool      // its wait is in a cycle, which others may break
	looks       chan look // tells what a look at that cycle has found; nil if no look is under way
	stopLooking func()    // ends that look
}

// attempt returns an acquisition that has not begun.
func (c *Acquirer) attempt(ctx context.Context, l *lock.Lock, w Wish, wait bool) *attempt {
	return &attempt{Lock: l, by: c, wish: w, ctx: ctx, owner: c.Owner(), patient: wait}
}

// failed wraps err with what was asked of which lock and server.
func (a *attempt) failed(op string, err error) error { return a.by.Asker.Failed(a.Subject, op, err) }

// ask runs one script and resends it until there is an answer.
func (a *attempt) ask(ctx context.Context, op string, call conn.Call) (ask.Answer, error) {
	return a.by.Asker.Ask(ctx, a.Subject, op, call)
}

// askUndoing is ask for a request that lets an owner in. If it panics, in what observes the connection,
// it may have been sent: then undo releases the owner.
func (a *attempt) askUndoing(ctx context.Context, op string, call conn.Call, undo func()) (ask.Answer, error) {
	asked := false
	defer func() {
		if !asked {
			undo()
		}
	}()
	answer, err := a.ask(ctx, op, call)
	asked = true
	return answer, err
}

// abandon releases an owner in the background, until it is neither inside nor in line.
func (a *attempt) abandon(owner, ticket string) { a.by.Undo.Abandon(a.Lock, owner, ticket) }

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
