package hold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/internal/fleet"
)

// tick is how often the keeper looks at the clocks. Go's timers stop while the machine is
// suspended, but a lease goes on running out.
const tick = time.Second

// keeper stops a command before its lease ends.
//
//	deadline                                                    moves with every extend
//	|<--- margin --->|<--- grace --->|
//	                KILL            TERM if no extend came in time, or earlier if the lease is known to be lost
type keeper struct {
	*run
	lease   *redlatch.Lease
	child   *child.Child
	signals <-chan os.Signal
	began   time.Time // when the command did
	warn    bool      // only report a loss: the command goes on

	stopped bool // the command was told to stop, or the guard killed it
	partly  bool // KILL has left a process of it
	told    bool // the user was told why
	warned  bool // the user was told of a loss, and the command goes on
}

// margin returns the time between KILL and the deadline. KILL needs it to take effect, so that
// nothing runs when the lease ends.
func (k *keeper) margin() time.Duration {
	return min(max(k.lock.TTL/50, 10*time.Millisecond), 200*time.Millisecond)
}

// keep returns when the command has ended, and why the lease was lost if it was.
func (k *keeper) keep() (child.Status, error) {
	for {
		select {
		case <-k.child.Exited(): // first: what has ended cannot be stopped
			return k.child.Status(), k.lease.Err()
		default:
		}
		if cause := k.doomed(); cause != nil {
			return k.stop(cause), cause
		}
		if !k.warn {
			k.child.Expect(k.lease.Deadline())
		}
		if k.child.Resume() {
			k.app.Say("the command cannot be suspended while it holds %q", k.name)
		}
		lost := k.lease.Context().Done()
		if k.warned {
			lost = nil
		}
		select {
		case <-k.child.Exited():
		case sig := <-k.signals:
			k.forward(sig)
		case <-k.child.Stopped():
		case <-lost:
			if k.warn {
				k.warnOfLoss()
			}
		case <-time.After(k.patience()):
		}
	}
}

// patience returns how long to wait for an event before the next look at the clocks.
func (k *keeper) patience() time.Duration {
	if k.warn {
		return tick
	}
	patience := min(tick, k.lease.Remaining()-k.reserve())
	if k.lock.MaxHold > 0 {
		patience = min(patience, k.lock.MaxHold-time.Since(k.began))
	}
	return patience
}

// forever is longer than any command runs.
const forever = 100 * 366 * 24 * time.Hour

// warnOfLoss says that the lease was lost, and that the command goes on.
func (k *keeper) warnOfLoss() {
	k.warned = true
	if !k.app.Events { // else there is one for it
		k.app.Say("%s; the command keeps running (--on-loss warn)", talk.Text(context.Cause(k.lease.Context())))
	}
}

// reserve returns how much of the lease must be left for the command to go on.
func (k *keeper) reserve() time.Duration { return k.grace + k.margin() }

// doomed returns why the command must stop, or nil.
func (k *keeper) doomed() error {
	if k.warn {
		return nil
	}
	if ctx := k.lease.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if k.lock.MaxHold > 0 && time.Since(k.began) >= k.lock.MaxHold {
		return fmt.Errorf("the command has held %q for --max-hold %v", k.name, k.lock.MaxHold)
	}
	left := k.lease.Remaining()
	if left > k.reserve() {
		return nil
	}
	err := fmt.Errorf("the lease on %q was not extended in time and ends in %s", k.name, fleet.Span(left))
	if trouble := k.trouble.Load(); trouble != nil {
		err = fmt.Errorf("%w: %s", err, talk.Text(*trouble))
	}
	return err
}

func (k *keeper) forward(sig os.Signal) {
	k.app.Emit(talk.Event{Event: "signal", Name: k.name, Signal: sig.String()})
	k.ending = k.ending || child.Ends(sig)
	if errors.Is(k.child.Forward(sig), fs.ErrPermission) {
		k.app.Say("the command does not get the signal: it runs as another user, as under sudo")
	}
}

// stop ends the command and every process in its group: first with TERM, then with KILL in time
// before the deadline. An extend that succeeds later does not undo it.
func (k *keeper) stop(cause error) child.Status {
	left, why := k.untilKill(), talk.Text(cause)
	k.stopped, k.told = true, true
	e := talk.Event{Event: "stop", Name: k.name, Error: why, RemainingMS: left.Milliseconds()}
	k.app.Tell(e, "stopping the command; KILL follows in %s: %s", fleet.Span(left), why)
	k.child.Terminate()
	if !k.ended(left) {
		k.app.Emit(talk.Event{Event: "kill", Name: k.name})
		k.child.Kill()
		if k.partly = !k.ended(afterKill); k.partly {
			k.app.Say("KILL does not end the command: a process of it belongs to another user, as under sudo, or hangs in the kernel; it runs on without the lock")
		}
	}
	<-k.child.Exited()
	return k.child.Status()
}

// afterKill is how long a process may take to end after KILL.
const afterKill = 5 * time.Second

// untilKill returns the time until KILL: the grace, but no longer than until the margin before the
// deadline. Of the monotonic and the wall clock, the one that reaches the deadline first counts.
func (k *keeper) untilKill() time.Duration {
	deadline := k.lease.Deadline()
	left := min(time.Until(deadline), time.Until(deadline.Round(0)))
	return max(0, min(k.grace, left-k.margin()))
}

// ended waits for the command and its group, and reports whether they ended within d.
func (k *keeper) ended(d time.Duration) bool {
	timeout := time.After(d)
	// No signal reports the end of a process group.
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-timeout:
			return false
		case sig := <-k.signals:
			k.forward(sig)
		case <-look.C:
			if k.child.Gone() {
				return true
			}
		}
	}
}
