package redlatch

import (
	"testing"

	"github.com/redlatch/redlatch/internal/keys"
)

// TestRelayPassesNothingOnThatWasTaken: the word that a mutex was taken by force may come when no goroutine has it, between two of them.
func TestRelayPassesNothingOnThatWasTaken(t *testing.T) {
	t.Parallel()
	var rs relays
	l := &latch{keys: keys.Set{State: "a"}}
	r, wait := rs.join(l)
	if wait != nil {
		t.Fatal("the first has to wait")
	}
	_, second := rs.join(l)
	_, third := rs.join(l)
	rs.revoke("owner")
	if next := rs.pop(r, "owner"); next != nil {
		t.Error("what was taken from an owner is passed on")
	}
	if _, revoked := rs.look(r); revoked != "owner" {
		t.Errorf("the owner from which it was taken is %q", revoked)
	}
	if next := rs.pop(r, "another owner"); next != second {
		t.Error("what another owner has is not passed on to the next")
	}
	rs.abort(r, third)
	if next := rs.pop(r, "another owner"); next != nil {
		t.Error("it is passed on to one that is gone")
	}
	rs.next(r, 0)
	if len(rs.all) != 0 {
		t.Error("a relay is left that nobody is in")
	}
}
