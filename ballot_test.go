package redlatch

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// TestErrorOfARoundTellsOfEachNode: the error of a round without a lease matches its reason, and
// says how each node stood.
func TestErrorOfARoundTellsOfEachNode(t *testing.T) {
	t.Parallel()
	err := &told{ErrTaken, []quorum.Vote{
		{Addr: "node1:6379", Heard: true, Vote: script.Vote{Inside: true}},
		{Addr: "node2:6379", Heard: true, Vote: script.Vote{Holder: "X"}},
		{Addr: "node3:6379"},
	}}
	want := ErrTaken.Error() + "; node1:6379 let it in; node2:6379 refused it, held by X; node3:6379 was not waited for"
	if err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if !errors.Is(err, ErrTaken) {
		t.Error("it does not match ErrTaken")
	}
}

// TestDecide: what an attempt does after a round. A tie and an outage are tried again, by TryLock,
// too; a lock that is held is waited for by Lock alone, and in line from the first round on
// that said so.
func TestDecide(t *testing.T) {
	t.Parallel()
	refused := func(holder string) quorum.Vote {
		return quorum.Vote{Heard: true, Vote: script.Vote{Holder: holder, Remaining: -1}}
	}
	silent := quorum.Vote{Err: errors.New("no answer")}
	tallies := map[string]*quorum.Tally{
		"held":   {Majority: 2, Votes: []quorum.Vote{refused("x"), refused("x"), silent}},
		"tie":    {Majority: 2, Votes: []quorum.Vote{refused("x"), refused("y"), silent}},
		"silent": {Majority: 2, Votes: []quorum.Vote{refused("x"), silent, silent}},
		"forgot": {Majority: 2, Votes: []quorum.Vote{
			refused("x"), silent, {Heard: true, Vote: script.Vote{Nonvoting: true}},
		}},
	}
	taken, unreachable := fmt.Errorf("b: %w", ErrTaken), fmt.Errorf("b: %w", ErrUnreachable)
	for _, c := range []struct {
		votes   string
		err     error
		given   situation
		want    step
		restore bool
	}{
		{"held", nil, situation{}, finish, false},
		{"held", nil, situation{ended: true}, finish, false}, // a lease is a lease

		{"held", context.Canceled, situation{ended: true}, cutOff, false},
		{"held", taken, situation{ended: true, waits: true, answered: true}, cutOff, false},
		{"forgot", unreachable, situation{ended: true, over: true}, cutOff, false},

		{"held", taken, situation{answered: true}, finish, false},
		{"tie", taken, situation{answered: true}, tryLater, false},
		{"tie", taken, situation{answered: true, over: true}, finish, false},
		{"held", taken, situation{answered: true, waits: true}, joinLine, false},
		{"tie", taken, situation{answered: true, waits: true, over: true}, joinLine, false},
		{"held", taken, situation{answered: true, waits: true, inLine: true}, tryLater, false},

		{"held", errTooLate, situation{}, tryAgain, false},
		{"held", errTooLate, situation{over: true}, finish, false},
		{"held", errTooLate, situation{over: true, waits: true, inLine: true}, tryAgain, false},

		{"held", ErrWrongKind, situation{}, finish, false},
		{"held", ErrWrongKind, situation{waits: true, answered: true}, finish, false},

		{"silent", unreachable, situation{}, tryLater, false},
		{"silent", unreachable, situation{waits: true}, tryLater, false},
		{"silent", unreachable, situation{over: true}, finish, false},
		{"silent", unreachable, situation{over: true, answered: true}, finish, false},
		{"silent", unreachable, situation{over: true, waits: true}, finish, false},
		{"silent", unreachable, situation{over: true, waits: true, answered: true}, joinLine, false},
		{"silent", unreachable, situation{over: true, waits: true, answered: true, inLine: true}, tryLater, false},

		{"forgot", unreachable, situation{first: true}, tryAgain, true},
		{"forgot", unreachable, situation{first: true, over: true}, finish, false},
		{"forgot", unreachable, situation{}, tryLater, true},
		{"forgot", unreachable, situation{waits: true, answered: true}, joinLine, true},
		{"forgot", unreachable, situation{waits: true, answered: true, inLine: true}, tryLater, true},
		{"forgot", taken, situation{answered: true, waits: true, inLine: true}, tryLater, false},
	} {
		got, restore := decide(tallies[c.votes], c.err, c.given)
		if got != c.want || restore != c.restore {
			t.Errorf("%s, %v, %+v: %d, %v, want %d, %v", c.votes, c.err, c.given, got, restore, c.want, c.restore)
		}
	}
}
