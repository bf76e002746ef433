package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// entered is what Enter returned, and after how long.
type entered struct {
	begins, answered bool
	took             time.Duration
}

// TestRoom: as many requests as may be are under way, and others want to begin. A request ends after nine
// tenths of their time, answered or not.
func TestRoom(t *testing.T) {
	t.Parallel()
	const most, within = 3, time.Second
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r, start := NewRoom(most), time.Now()
			enter := func(ctx context.Context, closing context.Context, waits bool) <-chan entered {
				got := make(chan entered, 1)
				go func() {
					begins, answered := r.Enter(ctx, closing, within, waits)
					got <- entered{begins, answered, time.Since(start)}
				}()
				synctest.Wait()
				return got
			}
			for range most {
				check.Equal(t, <-enter(t.Context(), t.Context(), false), entered{begins: true}, "a request for which there is room")
			}
			short, cancel := context.WithTimeout(t.Context(), within/10)
			defer cancel()
			closing, shut := context.WithCancel(t.Context())
			time.AfterFunc(within/5, shut)
			time.AfterFunc(within*9/10, func() { r.Leave(answered) })
			first := enter(t.Context(), t.Context(), true)
			canceled, closed := enter(short, t.Context(), true), enter(t.Context(), closing, true)
			try, waiter := enter(t.Context(), t.Context(), false), enter(t.Context(), t.Context(), true)
			check.Equal(t, <-first, entered{true, answered, within * 9 / 10}, "the first")
			check.Equal(t, <-canceled, entered{took: within / 10}, "a waiter whose context ends")
			check.Equal(t, <-closed, entered{took: within / 5}, "a waiter whose client is closed")
			check.Equal(t, <-try, entered{took: within}, "a try")
			longer := time.Duration(0)
			if answered {
				longer = within
			}
			check.Equal(t, <-waiter, entered{took: within + longer}, "a waiter")
		})
	}
}
