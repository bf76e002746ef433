package ballot

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestErrorOfARoundTellsOfEachNode: the error of a round without a lease matches its reason, and
// says how each node stood.
func TestErrorOfARoundTellsOfEachNode(t *testing.T) {
	t.Parallel()
	err := &ToldError{fault.ErrTaken, []Vote{
		{Addr: "node1:6379", Heard: true, Vote: script.Vote{Inside: true}},
		{Addr: "node2:6379", Heard: true, Vote: script.Vote{Holder: "X"}},
		{Addr: "node3:6379"},
	}}
	want := fault.ErrTaken.Error() + "; node1:6379 let it in; node2:6379 refused it, held by X; node3:6379 was not waited for"
	check.That(t, err.Error() == want, "the error is %v, want %s", err, want)
	check.That(t, errors.Is(err, fault.ErrTaken), "it does not match ErrTaken")
}

// TestDecide: what an attempt does after a round. A tie and an outage are tried again, by TryLock,
// too; a lock that is held is waited for by Lock alone, and in line from the first round on
// that said so.
func TestDecide(t *testing.T) {
	t.Parallel()
	refused := func(holder string) Vote {
		return Vote{Heard: true, Vote: script.Vote{Holder: holder, Remaining: -1}}
	}
	silent := Vote{Err: errors.New("no answer")}
	tallies := map[string]*Tally{
		"held":   {Majority: 2, Votes: []Vote{refused("x"), refused("x"), silent}},
		"tie":    {Majority: 2, Votes: []Vote{refused("x"), refused("y"), silent}},
		"silent": {Majority: 2, Votes: []Vote{refused("x"), silent, silent}},
		"forgot": {Majority: 2, Votes: []Vote{
			refused("x"), silent, {Heard: true, Vote: script.Vote{Nonvoting: true}},
		}},
	}
	taken, unreachable := fmt.Errorf("b: %w", fault.ErrTaken), fmt.Errorf("b: %w", fault.ErrUnreachable)
	for _, c := range []struct {
		votes   string
		err     error
		given   Situation
		want    Step
		restore bool
	}{
		{"held", nil, Situation{}, Finish, false},
		{"held", nil, Situation{Ended: true}, Finish, false}, // a lease is a lease

		{"held", context.Canceled, Situation{Ended: true}, CutOff, false},
		{"held", taken, Situation{Ended: true, Waits: true, Answered: true}, CutOff, false},
		{"forgot", unreachable, Situation{Ended: true, Over: true}, CutOff, false},

		{"held", taken, Situation{Answered: true}, Finish, false},
		{"tie", taken, Situation{Answered: true}, TryLater, false},
		{"tie", taken, Situation{Answered: true, Over: true}, Finish, false},
		{"tie", taken, Situation{Answered: true, Full: true}, Finish, false},
		{"tie", taken, Situation{Answered: true, Full: true, Waits: true}, JoinLine, false},
		{"tie", taken, Situation{Answered: true, Full: true, Waits: true, InLine: true}, TryLater, false},
		{"held", taken, Situation{Answered: true, Waits: true}, JoinLine, false},
		{"tie", taken, Situation{Answered: true, Waits: true, Over: true}, JoinLine, false},
		{"held", taken, Situation{Answered: true, Waits: true, InLine: true}, TryLater, false},

		{"held", fault.ErrTooLate, Situation{}, TryAgain, false},
		{"held", fault.ErrTooLate, Situation{Over: true}, Finish, false},
		{"held", fault.ErrTooLate, Situation{Over: true, Waits: true, InLine: true}, TryAgain, false},

		{"held", fault.ErrWrongKind, Situation{}, Finish, false},
		{"held", fault.ErrWrongKind, Situation{Waits: true, Answered: true}, Finish, false},

		{"silent", unreachable, Situation{}, TryLater, false},
		{"silent", unreachable, Situation{Waits: true}, TryLater, false},
		{"silent", unreachable, Situation{Over: true}, Finish, false},
		{"silent", unreachable, Situation{Over: true, Answered: true}, Finish, false},
		{"silent", unreachable, Situation{Over: true, Waits: true}, Finish, false},
		{"silent", unreachable, Situation{Over: true, Waits: true, Answered: true}, JoinLine, false},
		{"silent", unreachable, Situation{Over: true, Waits: true, Answered: true, InLine: true}, TryLater, false},

		{"forgot", unreachable, Situation{First: true}, TryAgain, true},
		{"forgot", unreachable, Situation{First: true, Over: true}, Finish, false},
		{"forgot", unreachable, Situation{}, TryLater, true},
		{"forgot", unreachable, Situation{Waits: true, Answered: true}, JoinLine, true},
		{"forgot", unreachable, Situation{Waits: true, Answered: true, InLine: true}, TryLater, true},
		{"forgot", taken, Situation{Answered: true, Waits: true, InLine: true}, TryLater, false},
	} {
		got, restore := Decide(tallies[c.votes], c.err, c.given)
		if got != c.want || restore != c.restore {
			t.Errorf("%s, %v, %+v: %d, %v, want %d, %v", c.votes, c.err, c.given, got, restore, c.want, c.restore)
		}
	}
}
