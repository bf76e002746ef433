package acquire

import (
	"errors"
	"sync/atomic"

	"github.com/redlatch/redlatch/internal/engine/lock"
)

// attempts numbers the attempts of this process, for the ID of events.
var attempts atomic.Uint64

// errPanicked ends an attempt, or the lease that it led to, when a hook panics.
var errPanicked = errors.New("the calling goroutine panicked")

// What the hook is told. An attempt that it was told of ends once, in granted or failed; a lease
// ends once, in released, lost or detached. So a flag is set before each call, which may panic:
//
//	attempt.begun   attempt       tellAttempt
//	attempt.ended   granted       begin
//	                failed        tellFailed
//	Lease.state     released      its first release, whatever comes of it
//	                lost, detached
//
// Between granted and the lease, only the hook runs. If it panics there, begin tells released.

// tellAttempt tells the hook, once, that the attempt begins.
func (a *attempt) tellAttempt() {
	if a.begun {
		return
	}
	a.begun, a.id, a.start = true, attempts.Add(1), a.by.Now()
	a.since = a.start
	a.emit(lock.Event{What: lock.Attempt})
}

// tellWait tells the hook, once, that the attempt is waiting.
func (a *attempt) tellWait() {
	if a.waiting {
		return
	}
	a.waiting = true
	a.emit(lock.Event{What: lock.Wait, Waited: a.by.Now().Since(a.start)})
}

// tellReach tells the hook that the waiting attempt cannot reach Redis, because of outage. If
// outage is nil, it tells the hook that the attempt can again. It tells each change once.
func (a *attempt) tellReach(outage error) {
	if a.cutOff == (outage != nil) || a.by.Closing.Err() != nil {
		return
	}
	a.cutOff = !a.cutOff
	e := lock.Event{What: lock.Reachable, Waited: a.by.Now().Since(a.start), Err: outage}
	if a.cutOff {
		e.What = lock.Unreachable
	}
	a.emit(e)
}

// tellFailed tells the hook that the attempt ended without a lease, unless it never began or the
// hook was told of its end. Without an error, the hook has panicked.
func (a *attempt) tellFailed(err error) {
	if !a.begun || a.ended {
		return
	}
	a.ended = true
	if err == nil {
		err = a.failed("acquire", errPanicked)
	}
	waited := a.by.Now().Since(a.start)
	a.emit(lock.Event{What: lock.Failed, Waited: waited, Err: err})
}

// tellAllFailed calls tellFailed for these attempts, in order. If the hook panics at one, it still
// calls tellFailed for the others.
func tellAllFailed(attempts []*attempt, err error) {
	if len(attempts) > 0 {
		defer tellAllFailed(attempts[1:], err)
		attempts[0].tellFailed(err)
	}
}

// emit tells the hook about the attempt.
func (a *attempt) emit(e lock.Event) {
	e.ID, e.Owner = a.id, a.owner
	a.by.Tell(a.ctx, a.Lock, e)
}
