package acquire

import (
	"context"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// look is the result of another look at a wait that is in a cycle.
type look struct {
	cycle  string
	unsure bool
}

// attempt is one acquisition under way. Its owner names it in Redis, and nothing else: what a lost
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
	since    clock.Reading  // when the time of a try begins; later than start for one of several names, and for one by force
	spared   time.Duration  // how long it waited for its turn while quorum nodes answered others
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
	first    bool           // no other waiter was before it when Redis last answered
	occupant lock.Occupant  // as Redis last told
	most     time.Duration  // MaxWait of an acquisition of several names; 0 for that of the lock

	beside    []*lease.Lease // leases that it keeps while it waits, besides those of its context
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

// ask runs one script and resends it until there is an answer.
func (a *attempt) ask(ctx context.Context, op string, call conn.Call) (ask.Answer, error) {
	return a.by.Asker.Ask(ctx, a.Subject, op, call)
}

// askUndoing is ask for a request that lets an owner in. If a connection observer panics, the
// request may have been sent: then undo releases the owner.
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
