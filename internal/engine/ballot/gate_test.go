package ballot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// entered is what Enter returned, and after how long.
type entered struct {
	begins, decided bool
	took            time.Duration
}

// TestGate: as many rounds as may be are under way, and others want to begin. A round ends after nine
// tenths of their time, whether the nodes have decided it or not.
func TestGate(t *testing.T) {
	t.Parallel()
	const within = time.Second
	for _, decided := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g, start := newGate(), time.Now()
			enter := func(ctx context.Context, closing <-chan struct{}, waits bool) <-chan entered {
				got := make(chan entered, 1)
				go func() {
					begins, decided := g.Enter(ctx, closing, within, waits)
					got <- entered{begins, decided, time.Since(start)}
				}()
				synctest.Wait()
				return got
			}
			for range MaxUnderWay {
				check.Equal(t, <-enter(t.Context(), nil, false), entered{begins: true}, "a round for which there is room")
			}
			short, cancel := context.WithTimeout(t.Context(), within/10)
			defer cancel()
			closing := make(chan struct{})
			time.AfterFunc(within/5, func() { close(closing) })
			time.AfterFunc(within*9/10, func() { g.Leave(decided) })
			first := enter(t.Context(), nil, true)
			canceled, closed := enter(short, nil, true), enter(t.Context(), closing, true)
			try, waiter := enter(t.Context(), nil, false), enter(t.Context(), nil, true)
			check.Equal(t, <-first, entered{true, decided, within * 9 / 10}, "the first")
			check.Equal(t, <-canceled, entered{took: within / 10}, "a waiter whose context ends")
			check.Equal(t, <-closed, entered{took: within / 5}, "a waiter whose client is closed")
			check.Equal(t, <-try, entered{took: within}, "a try")
			longer := time.Duration(0)
			if decided {
				longer = within
			}
			check.Equal(t, <-waiter, entered{took: within + longer}, "a waiter")
		})
	}
}
