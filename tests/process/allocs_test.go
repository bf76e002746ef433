//go:build !race

package process

import (
	"math"
	"runtime"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestAllocationsOfACycle: what a lock and its release allocate, by themselves and in bundles. It
// counts those of the whole process, so it does not run beside other tests.
func TestAllocationsOfACycle(t *testing.T) {
	_, c := locktest.Start(t, help.Sluggish())
	const turns = 400
	for goroutines, most := range map[int]float64{1: 17, 64: 16} {
		help.Cycles(t, c, goroutines, 50) // until all connections are made
		if got := fewestAllocations(t, c, goroutines, turns); got > most {
			t.Errorf("%d goroutines: %.1f allocations for a cycle, want %v at most", goroutines, got, most)
		}
	}
}

// TestQuorumAllocationsOfACycle: what a lock of five nodes and its release allocate, also in what
// goes on after that. It does not run beside other tests.
func TestQuorumAllocationsOfACycle(t *testing.T) {
	c := help.OpenQuorum(t, help.StartNodes(t, 5), help.Sluggish())
	for _, goroutines := range []int{1, 64} {
		turns := 1600 / goroutines
		help.Cycles(t, c, goroutines, turns/4) // most connections are made then
		if got := fewestAllocations(t, c, goroutines, turns); got > 100 {
			t.Errorf("%d goroutines: %.1f allocations for a cycle, want 100 at most", goroutines, got)
		}
	}
}

// fewestAllocations returns what a cycle allocates in the best of three rounds. On a busy machine
// answers come late, and what is done about that allocates, too.
func fewestAllocations(t *testing.T, c *redlatch.Client, goroutines, turns int) float64 {
	t.Helper()
	fewest := math.Inf(1)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		help.Cycles(t, c, goroutines, turns)
		runtime.ReadMemStats(&after)
		fewest = min(fewest, float64(after.Mallocs-before.Mallocs)/float64(goroutines*turns))
	}
	return fewest
}
