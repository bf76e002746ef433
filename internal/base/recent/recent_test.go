package recent

import (
	"strconv"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestSetRemembersTheLast: it has the last texts, however many were added, and is bounded.
func TestSetRemembersTheLast(t *testing.T) {
	t.Parallel()
	var s Set
	for i := range 5 * Kept {
		s.Add(strconv.Itoa(i))
		for _, before := range []int{0, 1, Kept - 1} {
			check.Must(t, before > i || s.Has(strconv.Itoa(i-before)), "%d is forgotten after %d", i-before, i)
		}
	}
	n := len(s.newer) + len(s.older)
	check.That(t, n <= 2*Kept && !s.Has("0"), "%d texts are remembered, want %d at most, the last", n, 2*Kept)
}
