package look

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestWorkOfAnIdleHolder: no work can run under a place at rest or a lock that is only kept.
func TestWorkOfAnIdleHolder(t *testing.T) {
	t.Parallel()
	resting, kept, held := redlatch.Holder{Resting: true}, redlatch.Holder{Kept: time.Unix(1, 0)}, redlatch.Holder{}
	check.Equal(t, mayRun([]place{{holder: resting}, {holder: kept}}, "it may"), "", "without a holder at work")
	check.Equal(t, mayRun([]place{{holder: kept}, {holder: held}}, "it may"), "it may", "with one")
}

// TestProgressBeginsAfterASecond: work that ends sooner is silent, and so is the progress after stop.
func TestProgressBeginsAfterASecond(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{
		999 * time.Millisecond: 0, 1500 * time.Millisecond: 1, 6500 * time.Millisecond: 2, 11500 * time.Millisecond: 3,
	} {
		synctest.Test(t, func(t *testing.T) {
			said := 0
			stop := progress(func() { said++ })
			time.Sleep(took)
			stop()
			time.Sleep(time.Minute)
			check.Equal(t, said, want, "how often it said something in %v", took)
		})
	}
}
