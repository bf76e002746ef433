package hold

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestPlaceBehindTheDead: waiters that are believed dead keep no other back, and count for no place.
func TestPlaceBehindTheDead(t *testing.T) {
	t.Parallel()
	line := []redlatch.Waiter{{Client: "A", Dead: true}, {Client: "B"}, {Client: "C", Dead: true}, {Client: "D"}, {Client: "E"}}
	for owner, want := range map[string][2]int{"rl-B-7": {1, 3}, "rl-D-1": {2, 3}, "rl-C-1": {2, 4}, "rl-X-1": {0, 3}} {
		var r run
		r.owner.Store(&owner)
		place, of := r.place(redlatch.LockInfo{Waiters: line})
		check.Equal(t, [2]int{place, of}, want, "the place of %s", owner)
	}
}
