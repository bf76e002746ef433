package acquire

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/internal/base/fault"
)

// TestWayOn: an acquisition ends, and the goroutines that wait for the same mutex go on. The end of
// one goroutine's time must not send all of them to Redis, and an outage must not be found out by
// one after the other.
func TestWayOn(t *testing.T) {
	t.Parallel()
	outage := fmt.Errorf("%w: %w", fault.ErrUnreachable, context.DeadlineExceeded)
	for _, c := range []struct {
		err  error
		done bool
		want onward
	}{
		{nil, false, attachLease},
		{nil, true, attachLease}, // the lease exists, and ends like any other
		{fault.ErrTaken, false, nextAcquires},
		{context.DeadlineExceeded, false, nextAcquires},
		{context.Canceled, true, nextAcquires},
		{outage, true, nextAcquires},
		{outage, false, dissolveGroup},
		{fault.ErrUnreachable, false, dissolveGroup},
		{fault.ErrNotReplicated, false, dissolveGroup},
		{fault.ErrClosed, false, dissolveGroup},
		{errors.New("ERR"), false, dissolveGroup},
	} {
		if got := wayOn(c.err, c.done); got != c.want {
			t.Errorf("wayOn(%v, %v) = %v, want %v", c.err, c.done, got, c.want)
		}
	}
}
