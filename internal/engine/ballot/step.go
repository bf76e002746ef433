package ballot

import (
	"errors"

	"github.com/redlatch/redlatch/internal/base/fault"
)

// Step is what an attempt does after a round.
type Step uint8

const (
	Finish   Step = iota // return the lease, or the error of this round
	CutOff               // return what the last round said that was not cut short
	TryAgain             // at once
	JoinLine             // wait in line from now on; and try again at once
	TryLater             // when a node says that it is free, or after patienceAfter (acquire/quorum.go)
)

// Situation is what the next Step depends on, beside what the round came to.
type Situation struct {
	Waits    bool // it is Lock, and not TryLock
	Ended    bool // its context is done, or the client is closed
	Over     bool // Options.RequestTimeout has passed since it began
	First    bool // it was the first round
	Answered bool // some round said that the latch is taken
	InLine   bool // it waits in line
	Full     bool // rounds have found no slot so often that a try takes the pool for full
}

// Decide returns what an attempt does after a round that ended with t and err, and whether it first
// has the right to vote restored to nodes that have none.
func Decide(t *Tally, err error, s Situation) (next Step, restore bool) {
	switch {
	case err == nil:
		return Finish, false
	case s.Ended:
		return CutOff, false
	case errors.Is(err, fault.ErrTaken):
		if !s.Waits && (t.Decided() || s.Full || s.Over) {
			return Finish, false
		}
	case errors.Is(err, fault.ErrTooLate):
		if s.Waits || !s.Over {
			return TryAgain, false
		}
		return Finish, false
	case !errors.Is(err, fault.ErrUnreachable): // waiting cannot help
		return Finish, false
	case s.Over && !(s.Waits && s.Answered):
		return Finish, false
	case t.Forgot():
		if s.First { // it is likely that the nodes are new, and vote now
			return TryAgain, true
		}
		restore = true
	}
	if s.Waits && s.Answered && !s.InLine {
		return JoinLine, restore
	}
	return TryLater, restore
}
