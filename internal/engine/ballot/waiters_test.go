package ballot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestWaiterTriesWhenAMajorityHasRoom: of five nodes, each tells a waiter at its time. A minority does
// so in vain for a moment, since the others may be about to.
func TestWaiterTriesWhenAMajorityHasRoom(t *testing.T) {
	t.Parallel()
	const ms, far = time.Millisecond, time.Minute
	for name, c := range map[string]struct {
		told      []time.Duration // when each node tells it
		least, at time.Duration   // when it tries, at the earliest and the latest
	}{
		"none":                 {nil, far, far},
		"all at once":          {[]time.Duration{ms, ms, ms, ms, ms}, ms, ms},
		"a majority":           {[]time.Duration{ms, ms, 2 * ms}, 2 * ms, 2 * ms},
		"before it rests":      {[]time.Duration{0, 0, 0}, 0, 0},
		"one":                  {[]time.Duration{ms}, ms + settles/2, ms + settles*3/2},
		"two at the same time": {[]time.Duration{0, 0}, settles / 2, settles * 3 / 2},
		"at its own time":      {[]time.Duration{far - ms}, far, far},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w Waiters
				try, begun := w.Add("w"), time.Now()
				for _, at := range c.told {
					if at == 0 {
						w.Wake("w")
						continue
					}
					time.AfterFunc(at, func() { w.Wake("w") })
				}
				w.Wake("another")
				Rest(t.Context(), t.Context(), try, 3, far)
				rested := time.Since(begun)
				check.That(t, rested >= c.least && rested <= c.at, "rested for %v, want %v to %v", rested, c.least, c.at)
				w.Remove("w")
			})
		})
	}
}

// TestRestEnds with a context, and when all waiters are told to try.
func TestRestEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *Waiters, ctx, closing func()){
		"the context":     func(_ *Waiters, ctx, _ func()) { ctx() },
		"the client":      func(_ *Waiters, _, closing func()) { closing() },
		"a lost hearing":  func(w *Waiters, _, _ func()) { w.WakeAll() },
		"all, after some": func(w *Waiters, _, _ func()) { w.Wake("w"); w.WakeAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w Waiters
				try, begun := w.Add("w"), time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				closing, closed := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, func() { end(&w, cancel, closed) })
				Rest(ctx, closing, try, 3, time.Minute)
				check.Equal(t, time.Since(begun), time.Second, "how long it rested")
				cancel()
				closed()
			})
		})
	}
}
