package redlatch

import (
	"io"
	"testing"
)

// TestStateAfterRelease: a lease was lost only if Redis says so and no earlier request of the
// release can be the reason.
func TestStateAfterRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		inside, again bool
		want          leaseState
	}{
		{nil, true, false, released},
		{nil, true, true, released},
		{nil, false, true, released},
		{nil, false, false, lost},
		{io.EOF, false, false, ended},
		{io.EOF, false, true, ended},
	} {
		if got := stateAfterRelease(c.err, c.inside, c.again); got != c.want {
			t.Errorf("stateAfterRelease(%v, %v, %v) = %v, want %v", c.err, c.inside, c.again, got, c.want)
		}
	}
}
